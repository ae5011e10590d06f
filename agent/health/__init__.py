"""Pure decisions on device health: which check fails, and when a recovery is reported."""
