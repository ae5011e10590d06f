"""The admin socket: status, watch and explain ask the running agent through it."""
