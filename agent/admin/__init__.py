"""The admin socket, which the commands status, watch and explain use."""
