"""Kubelet as seen from the agent: its folders, its sockets, and who holds which device."""
