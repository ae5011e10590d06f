"""A sample node as files, and a stand-in for kubelet: for the demo, recordings and tests."""
