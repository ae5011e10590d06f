"""The agent's state as one value, and the messages made from it."""
