"""Frozen records that travel through the agent: devices, snapshots, addresses, events."""
