"""The errors that the agent raises; they have their data as attributes, and log nothing."""

from __future__ import annotations


class AgentError(Exception):
    """Base class: an expected error with a message for the user."""

    exit_code = 1
    """Exit code of the process: 2 for wrong arguments or configuration, 1 for everything else."""


class UsageError(AgentError):
    """An invalid command line."""

    exit_code = 2


class ConfigError(AgentError):
    """A configuration that cannot be used; ``problems`` has all of its problems."""

    exit_code = 2

    def __init__(self, message: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class KubeletUnavailableError(AgentError):
    """Kubelet did not answer, refused, or closed the connection; callers try again later."""


class NoAgentError(AgentError):
    """No running agent answered on its socket."""


class UnknownDeviceError(AgentError):
    """A request named devices that the pool does not have; ``device_ids`` lists them, sorted."""

    def __init__(self, resource: str, device_ids: tuple[str, ...]) -> None:
        super().__init__(f"{resource} has no device {', '.join(device_ids)}")
        self.resource = resource
        self.device_ids = device_ids


class DeviceNotUsableError(AgentError):
    """A device of the pool cannot be allocated now; ``reason`` explains why to the operator."""

    def __init__(self, device_id: str, reason: str) -> None:
        super().__init__(f"{device_id}: {reason}")
        self.device_id = device_id
        self.reason = reason


class SocketPathTooLongError(AgentError):
    """The folder's path is too long for any socket in it: the kernel's limit is 107 bytes."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(f"socket path of {len(path.encode())} bytes is over {limit}: {path}")
        self.path = path
        self.limit = limit
