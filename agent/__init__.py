"""The SR-IOV node agent: finds SR-IOV functions, pools them, and serves them to kubelet."""

__version__ = "0.1.0"
