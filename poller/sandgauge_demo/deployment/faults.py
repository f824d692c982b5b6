"""Answers that a test puts in the place of the simulated ones."""

from collections import Counter
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Route(StrEnum):
    """What a request is for. Requests are counted by it, and faults are set on it."""

    HEALTH = "health"
    VERSION = "version"
    LIST = "list"
    CREATE = "create"
    GET = "get"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"
    INSPECT = "inspect"
    ENDPOINT = "endpoint"
    PROXY = "proxy"
    """A call to a sandbox through the server. A fault here is the server's own answer."""
    EXECD = "execd"
    """A call to a sandbox's direct endpoint. A fault here is execd's, and shows through the proxy too."""


class Fault(BaseModel):
    """What happens to requests of one route, for one sandbox or for all.

    First `delay_s`, then one of: `hang` (no answer while the client waits), `drop` (the connection closes without an
    answer), an answer of `status`, `body` and `headers`; none of them = the usual answer. `times` bounds how many
    requests it meets; None is until it is cleared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    route: Route
    sandbox_id: str | None = None
    delay_s: float = Field(default=0.0, ge=0)
    hang: bool = False
    drop: bool = False
    status: int | None = Field(default=None, ge=200, le=599)
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"
    headers: dict[str, str] = {}
    times: int | None = Field(default=None, ge=1)


class FaultBook:
    """The faults in force: one for each route and sandbox, and one for each route as a whole. The narrower one wins."""

    def __init__(self) -> None:
        self._faults: dict[tuple[Route, str | None], Fault] = {}
        self._met: Counter[tuple[Route, str | None]] = Counter()

    def set(self, fault: Fault) -> None:
        """Put a fault in force, in the place of an earlier one for the same route and sandbox."""
        key = (fault.route, fault.sandbox_id)
        self._faults[key] = fault
        self._met[key] = 0

    def clear(self, route: Route | None = None, sandbox_id: str | None = None) -> None:
        """Lift the fault of a route and sandbox; without a route, every fault."""
        for key in list(self._faults):
            if route is None or key == (route, sandbox_id):
                self._lift(key)

    def take(self, route: Route, sandbox_id: str | None) -> Fault | None:
        """Return the fault that meets a request, and count it."""
        for key in ((route, sandbox_id), (route, None)):
            fault = self._faults.get(key)
            if fault is None:
                continue
            self._met[key] += 1
            if self._met[key] == fault.times:
                self._lift(key)
            return fault
        return None

    def _lift(self, key: tuple[Route, str | None]) -> None:
        del self._faults[key], self._met[key]
