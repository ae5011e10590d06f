"""Pure decisions: which device belongs to which pool, and what an allocation gives a container."""
