"""Which resource names kubelet, the API server and CDI take, and what is wrong with the others.

The rules are Kubernetes' own for extended resources: a qualified name that stays one with
``requests.`` before it (quota), outside the ``kubernetes.io`` names.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_CDI_VENDOR = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_CDI_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_NAME_LIMIT = 63
_PREFIX_LIMIT = 253 - len("requests.")
_NATIVE = "kubernetes.io"


def name_fault(name: str) -> str | None:
    """What is wrong with the name part of a resource; None = nothing."""
    if "/" in name:
        prefix, _, rest = name.rpartition("/")
        return f'holds a "/": write "resourcePrefix": "{prefix}" and "resourceName": "{rest}"'
    if len(name) > _NAME_LIMIT:
        return f"is {len(name)} characters long, at most {_NAME_LIMIT} are allowed"
    if _NAME.fullmatch(name):
        return None
    near = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("-_.")
    guess = f", for example {near}" if near else ""
    return f"may only hold letters, digits, - _ and ., with a letter or digit at both ends{guess}"


def prefix_fault(prefix: str) -> str | None:
    """What is wrong with the prefix of a resource; None = nothing."""
    if len(prefix) > _PREFIX_LIMIT:
        return f"is {len(prefix)} characters long, at most {_PREFIX_LIMIT} are allowed"
    if prefix.endswith(_NATIVE):
        return f"ends in {_NATIVE}, which Kubernetes keeps for itself"
    if prefix.startswith("requests."):
        return "starts with requests., which Kubernetes keeps for quotas"
    if all(_LABEL.fullmatch(label) and len(label) <= _NAME_LIMIT for label in prefix.split(".")):
        return None
    if prefix != prefix.lower():
        return f"holds upper case letters, write {prefix.lower()}"
    return "is no DNS name: lower case letters, digits and -, in parts joined by ."


def cdi_vendor_fault(prefix: str) -> str | None:
    """Why a valid prefix is no vendor in CDI's sense; None = it is one.

    The CDI specification: letters, digits, ``_``, ``-`` and ``.``, a letter first, a letter or
    digit last. Its parser panics on a vendor of one character, and with it the runtime that reads
    the file.
    """
    if len(prefix) == 1:
        return "is a single character, on which container runtimes crash"
    if _CDI_VENDOR.fullmatch(prefix):
        return None
    if prefix[:1].isdigit():
        return "begins with a digit, which no CDI vendor may"
    return "is no CDI vendor: letters, digits, - _ and ., a letter first, a letter or digit last"


def cdi_device_fault(device_id: str) -> str | None:
    """Why a device's id is no device name in CDI's sense; None = it is one.

    The CDI specification since 0.5.0: letters, digits, ``_``, ``-``, ``.`` and ``:``, a letter or
    digit at both ends.
    """
    if _CDI_DEVICE.fullmatch(device_id):
        return None
    return (
        "its name is no CDI device name: letters, digits, - _ . :, a letter or digit at both ends"
    )


def env_names(resource: str) -> tuple[str, ...]:
    """``PCIDEVICE_<PREFIX>_<RESOURCE>``, and an alias that a shell can read if it holds a ``-``."""
    name = f"PCIDEVICE_{resource}".replace(".", "_").replace("/", "_").upper()
    return tuple(dict.fromkeys((name, name.replace("-", "_"))))


def info_name(env_name: str) -> str:
    """The variable beside one of those that tells of each device."""
    return f"{env_name}_INFO"
