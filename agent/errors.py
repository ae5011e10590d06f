"""Every error that the agent raises on purpose; data travels in attributes, nothing logs itself."""

from __future__ import annotations


class AgentError(Exception):
    """Root of the agent's own errors: a fault that was foreseen and has a message for people."""

    exit_code = 1
    """Of the process that it ends: 2 for what was given to it, 1 for everything else."""


class UsageError(AgentError):
    """A command line that cannot be followed."""

    exit_code = 2


class ConfigError(AgentError):
    """A configuration that cannot be used; ``problems`` holds everything that was found."""

    exit_code = 2

    def __init__(self, message: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class KubeletUnavailableError(AgentError):
    """Kubelet did not answer, refused, or hung up: an expected state, tried again later."""


class NoAgentError(AgentError):
    """No running agent answered on its socket."""


class UnknownDeviceError(AgentError):
    """A request named devices that the pool does not hold; ``device_ids`` lists them, sorted."""

    def __init__(self, resource: str, device_ids: tuple[str, ...]) -> None:
        super().__init__(f"{resource} has no device {', '.join(device_ids)}")
        self.resource = resource
        self.device_ids = device_ids


class DeviceNotUsableError(AgentError):
    """A device of the pool cannot be handed out now; ``reason`` says why, in operator's words."""

    def __init__(self, device_id: str, reason: str) -> None:
        super().__init__(f"{device_id}: {reason}")
        self.device_id = device_id
        self.reason = reason


class SocketPathTooLongError(AgentError):
    """The folder alone leaves no room for a socket name: 107 bytes is the kernel's limit."""

    def __init__(self, path: str, limit: int) -> None:
        super().__init__(f"socket path of {len(path.encode())} bytes is over {limit}: {path}")
        self.path = path
        self.limit = limit
