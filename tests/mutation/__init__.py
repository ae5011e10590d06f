"""Small faults put into the agent one at a time: ``python -m tests.mutation.run --help``."""
