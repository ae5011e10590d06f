"""Facts that a scan reads only on request, since reading them costs questions to the kernel.

A scan takes a set of these names; that of a PCI class is :func:`agent.model.pci_class.class_need`.
"""

DDP = "ddp"
"""DDP profiles (devlink info, one dump)."""
ENABLE_RDMA = "enable_rdma"
"""Whether a function may have an RDMA device (devlink parameters, one dump)."""
ALTNAMES = "altnames"
"""Alternative names of netdevs: one question for each netdev of a PF."""
