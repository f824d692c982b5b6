"""What the JSON bodies of a control plane say."""

from http import HTTPStatus

from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.reading.times import read_time

_STATES = {
    "Pending": SandboxState.PENDING,
    "Allocated": SandboxState.PENDING,
    "Running": SandboxState.RUNNING,
    # On its way into a pause or out of it a sandbox's daemon does not answer either.
    "Pausing": SandboxState.PAUSED,
    "Paused": SandboxState.PAUSED,
    "Resuming": SandboxState.PAUSED,
    "Stopping": SandboxState.STOPPING,
    "Terminated": SandboxState.TERMINATED,
    "Failed": SandboxState.FAILED,
}


def error_code(body: bytes) -> str | None:
    """Return the `code` of a control plane's own error, such as `DOCKER::SANDBOX_NOT_FOUND`."""
    code = (parse_object(body) or {}).get("code")
    return code if isinstance(code, str) else None


def is_not_found(status: int | None, body: bytes) -> bool:
    """Tell whether the control plane says that it does not know the sandbox; a missing route's 404 is no such word."""
    return status == HTTPStatus.NOT_FOUND and (error_code(body) or "").endswith("::SANDBOX_NOT_FOUND")


def parse_status(body: bytes) -> tuple[SandboxState, int | None] | None:
    """Return state and expiry (ns since the epoch, None without one) of GET sandbox, or None for another format."""
    sandbox = parse_object(body) or {}
    status = sandbox.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if not isinstance(state, str):
        return None
    return _STATES.get(state, SandboxState.UNKNOWN), _expiry(sandbox.get("expiresAt"))


def _expiry(text: object) -> int | None:
    # Without an offset it could be any zone's time.
    return read_time(text)
