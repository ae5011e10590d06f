"""Pure judgement of device health: what is wrong, and when good news may be told."""
