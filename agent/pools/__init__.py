"""Pure decisions: which device belongs to which pool, what an allocation answers."""
