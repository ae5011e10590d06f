"""One device-plugin gRPC server for each pool, kept registered with kubelet."""
