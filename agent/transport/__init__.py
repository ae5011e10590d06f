"""gRPC over unix sockets: bounded connections and messages, and socket files."""
