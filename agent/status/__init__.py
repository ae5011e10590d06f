"""What the agent says of itself: its state as one value, and the messages made from it."""
