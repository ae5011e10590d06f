"""Everything at once for minutes: ``python -m tests.soak.run 5``."""
