"""What is remembered of the way to each sandbox's daemon."""

import math
from dataclasses import dataclass
from weakref import WeakValueDictionary

from yarl import URL

from sandgauge_poller.reading.opensandbox.endpoints import Target


@dataclass(slots=True, weakref_slot=True, eq=False)
class Route:
    """The way to one daemon.

    `proxied_url`: known once it was taken.
    `target`: the direct endpoint last named, whose kept connection may be used; None before the next fresh answer.
    `suspect`: GET sandbox decides before the next direct read. `proxied_until`: monotonic seconds up to which the
    control plane's proxy is taken although direct reads are wanted.
    """

    proxied_url: URL | None = None
    proxied_headers: tuple[tuple[str, str], ...] = ()
    target: Target | None = None
    suspect: bool = False
    proxied_until: float = -math.inf


class Routes:
    """Routes by sandbox id. A direct endpoint has one owner: addresses of pods and ports of hosts are used again."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._proxied_for_good: set[str] = set()
        # Weak, so that a route forgotten in mid-read takes its claim along.
        self._owners: WeakValueDictionary[Target, Route] = WeakValueDictionary()

    def of(self, sandbox_id: str) -> Route:
        """Return the route of a sandbox, a new one if need be."""
        route = self._routes.get(sandbox_id)
        if route is None:
            route = self._routes[sandbox_id] = Route()
        return route

    def claim(self, route: Route, target: Target) -> None:
        """Take a freshly named endpoint; a sandbox that had it before is under suspicion."""
        owner = self._owners.get(target)
        if owner is not None and owner is not route and owner.target == target:
            owner.target = None
            owner.suspect = True
        self._owners[target] = route
        route.target = target

    def proxy_for_good(self, sandbox_id: str, route: Route) -> None:
        """Take the proxy as long as the sandbox lives: nothing may be called directly."""
        route.proxied_until = math.inf
        if sandbox_id in self._routes:
            self._proxied_for_good.add(sandbox_id)

    def share_proxied_for_good(self) -> float:
        """Return the part of the sandboxes that always takes the proxy, 0 to 1."""
        return len(self._proxied_for_good) / len(self._routes) if self._routes else 0.0

    def forget(self, sandbox_id: str) -> None:
        """Remember nothing of a sandbox that has ended."""
        self._routes.pop(sandbox_id, None)
        self._proxied_for_good.discard(sandbox_id)
