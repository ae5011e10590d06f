"""Readers of host facts: the only code that touches sysfs, procfs, device nodes and netlink."""
