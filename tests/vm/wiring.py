"""What the host's half and the guest's half both know of the machine; imports nothing."""

# Variables set inside a guest, and nowhere else: that it is one; the folder of its modules; and, in
# JSON, what it lacks, with the reason.
IN_GUEST = "SRIOV_AGENT_IN_GUEST"
MODULES = "SRIOV_AGENT_GUEST_MODULES"
LACKING = "SRIOV_AGENT_GUEST_LACKING"
# What a guest of the further stages may lack.
VIRTIO = "virtio NIC with VFs"
BUILDS = "modules built from the kernel's source"
# The names by which the guest finds its two ports.
QMP_PORT = "qmp"
REPORTS_PORT = "reports"
# The NUMA node of each NIC, and so how many there are. NIC `i` sits in PCI slot `i + 1`.
NIC_NODES = (0, 1)


def nic(number: int) -> dict[str, str]:
    """The properties of a NIC in QEMU's words, for the start and for plugging it again."""
    return {
        "driver": "igb",
        "id": f"nic{number}",
        "bus": f"port{number}",
        "netdev": f"net{number}",
        "mac": f"52:54:00:00:00:{number:02x}",
    }


# How many VFs the virtio NIC has; the PF is function 0 of its slot.
VIRTIO_VFS = 3


def virtio_nic(function: int) -> dict[str, str]:
    """The properties of one function of the virtio NIC in QEMU's words."""
    own = {"id": "nicv0"} if function == 0 else {"id": f"nicv{function}", "sriov-pf": "nicv0"}
    place = {"bus": "portv", "addr": f"0.{function}", "netdev": f"netv{function}"}
    return {"driver": "virtio-net-pci", **own, **place, "mac": f"52:54:00:00:01:{function:02x}"}
