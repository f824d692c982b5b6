"""Which deployment a span's sandbox belongs to: spans are data, so only configured deployments are ever named."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from sandgauge_poller.config import scope_identity

_MOST_ROUTES = 1024


class RouteOutcome(Enum):
    """How a span's provider and scope compare with the configuration."""

    MATCHED = "matched"
    UNMATCHED = "unmatched"
    """The provider has several deployments and the scope names none of them."""
    NOT_CONFIGURED = "not_configured"
    """The provider has no deployment here: inventory and lifecycle only."""


@dataclass(frozen=True, slots=True)
class DeploymentNames:
    """A deployment and every scope identity under which Gym may know it."""

    name: str
    provider: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Route:
    """Owner of a sandbox id: a deployment's name, or the provider where there is none."""

    owner: str
    deployment: str | None
    outcome: RouteOutcome


class Routing:
    """Compare a span's provider and scope with the configured deployments."""

    def __init__(self, deployments: Sequence[DeploymentNames]) -> None:
        self._deployments = tuple(deployments)
        # Every span comes with one of few scopes; what a sender makes up must not be kept for ever.
        self._chosen = lru_cache(maxsize=_MOST_ROUTES)(self._choose)
        self._stop_owners = {d.name: (d.name, _owner(d.provider), _owner(None)) for d in self._deployments}

    def route(self, provider: str | None, scope: str | None) -> Route:
        """Return the deployment that takes the span, by scope first, else as the only one that could be meant."""
        return self._chosen(provider, scope)

    def stop_owners(self, owner: str) -> tuple[str, ...]:
        """Return the owners under which the stop of a sandbox may come: its own, or none that names the deployment."""
        return self._stop_owners.get(owner, (owner,))

    def _choose(self, provider: str | None, scope: str | None) -> Route:
        candidates = [d for d in self._deployments if provider is None or d.provider == provider]
        identity = scope_identity(scope) if scope else None
        named = [d for d in candidates if identity is not None and identity in d.scopes]
        if len(named) == 1 or len(candidates) == 1:
            chosen = (named or candidates)[0]
            return Route(chosen.name, chosen.name, RouteOutcome.MATCHED)
        return Route(_owner(provider), None, RouteOutcome.UNMATCHED if candidates else RouteOutcome.NOT_CONFIGURED)


def _owner(provider: str | None) -> str:
    """Return the owner of what no deployment takes; the prefix keeps it apart from a deployment of that name."""
    return f"provider:{provider or ''}"
