"""Kubelet as the agent sees it: its folders, its sockets, and which pods hold devices."""
