"""From the host to a snapshot: one scan, and the monitor that decides when to scan."""
