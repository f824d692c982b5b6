"""Sandboxes of which a control plane did not say how they are, for as long as it says nothing."""

from sandgauge_poller.tracking.active_set import SandboxKey, Tracked


class Unanswered:
    """By deployment. They are asked in turn, so that a control plane in trouble gets one question an interval."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[SandboxKey, Tracked]] = {}

    def __contains__(self, sandbox: Tracked) -> bool:
        return sandbox.key in self._waiting.get(sandbox.deployment or "", {})

    def add(self, sandbox: Tracked) -> None:
        """Wait for word on a sandbox."""
        self._waiting.setdefault(sandbox.deployment or "", {})[sandbox.key] = sandbox

    def discard(self, sandbox: Tracked) -> None:
        """Wait no longer for word on it."""
        self._waiting.get(sandbox.deployment or "", {}).pop(sandbox.key, None)

    def count(self, deployment: str) -> int:
        """Return how many of a deployment's wait."""
        return len(self._waiting.get(deployment, {}))

    def take(self, deployment: str) -> list[Tracked]:
        """Return those of a deployment whose control plane speaks again; they wait no longer."""
        return list(self._waiting.pop(deployment, {}).values())
