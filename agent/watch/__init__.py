"""Watches the host: netlink sockets, kernel uevents, files; and the rescan loop."""
