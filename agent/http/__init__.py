"""What ``--http-address`` shows; nothing of it is imported unless that is asked for."""
