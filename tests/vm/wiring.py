"""What the host's half and the guest's half both know of the machine; imports nothing."""

# Variables set inside the guest, and nowhere else; the second is the folder of its modules.
IN_GUEST = "SRIOV_AGENT_IN_GUEST"
MODULES = "SRIOV_AGENT_GUEST_MODULES"
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
