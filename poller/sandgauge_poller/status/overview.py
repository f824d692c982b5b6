"""The fleet and the poller at one look, as JSON; times are Unix seconds."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sandgauge_poller.status.concerns import concerns
from sandgauge_poller.status.fleet import Fleet, Standing, is_failing, is_leaked
from sandgauge_poller.status.observation import Observation
from sandgauge_poller.status.readiness import Readiness
from sandgauge_poller.status.rows import Json, known, plot, row
from sandgauge_poller.status.watch import WatchedRecorder
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_schemas.names import SandboxState
from sandgauge_schemas.version import __version__

_MOST_LEAKS = 100
"""Leaked sandboxes that are listed; all are counted, and found by the filter."""


@dataclass(slots=True)
class _Tally:
    """Sandboxes of one deployment: by state, and those that want a look."""

    states: Counter[str] = field(default_factory=Counter)
    wanting: Counter[str] = field(default_factory=Counter)

    def count(self, sandbox: Tracked, standing: Standing) -> None:
        self.states[standing.state.value] += 1
        self.wanting["leaked"] += is_leaked(sandbox)
        self.wanting["failing"] += is_failing(sandbox)
        self.wanting["late"] += standing.is_late

    def as_json(self) -> Json:
        by_state = {state.value: self.states[state.value] for state in SandboxState}
        wanting = {key: self.wanting[key] for key in ("leaked", "failing", "late")}
        return {"total": self.states.total(), "by_state": by_state, **wanting}


class Overview:
    """Looked at from a thread beside the event loop."""

    def __init__(self, fleet: Fleet, observation: Observation, readiness: Readiness, recorder: WatchedRecorder) -> None:
        self._fleet = fleet
        self._observation = observation
        self._readiness = readiness
        self._recorder = recorder
        self._began_ns = fleet.now_ns()

    def as_json(self) -> Json:
        """Return everything but the rows, and of those the leaked ones."""
        fleet, now_ns = self._fleet, self._fleet.now_ns()
        tallies: dict[str | None, _Tally] = defaultdict(_Tally)
        leaks: list[Json] = []
        for sandbox in fleet:
            standing = fleet.standing(sandbox, now_ns)
            tallies[sandbox.deployment].count(sandbox, standing)
            if is_leaked(sandbox) and len(leaks) < _MOST_LEAKS:
                leaks.append(row(sandbox, standing))
        readiness = self._readiness.report()
        control_planes = readiness.pop("control_planes")
        found = {
            "version": __version__,
            "now": round(now_ns / 1e9, 3),
            "started_at": round(self._began_ns / 1e9, 3),
            "readiness": readiness,
            "sandboxes": _total(tallies.values()).as_json(),
            "deployments": self._deployments(tallies, control_planes),
            "leaks": leaks,
            "readings": plot({"answered": self._recorder.answered, "failed": self._recorder.failed}, now_ns),
            "outbox": self._outbox(),
        }
        found["concerns"] = [concern.as_json() for concern in concerns(found)]
        return known(found)

    def _deployments(self, tallies: dict[str | None, _Tally], control_planes: Json) -> list[Json]:
        intervals_s = self._observation.effective_intervals_s()
        return [
            {
                "name": name,
                "sandboxes": tallies[name].as_json(),
                "interval_s": self._fleet.asked_interval_s,
                "effective_interval_s": intervals_s[name],
                "control_plane": control_planes.get(name, {"last_answer": "not_asked"}),
            }
            for name in self._fleet.deployments
        ]

    def _outbox(self) -> dict[str, Any]:
        return {
            signal.value: {
                "bytes": state.size,
                "age_s": round(state.age_s, 3),
                "items": {outcome.value: count for outcome, count in state.items.items()},
            }
            for signal, state in self._observation.outbox().items()
        }


def _total(tallies: Iterable[_Tally]) -> _Tally:
    total = _Tally()
    for tally in tallies:
        total.states.update(tally.states)
        total.wanting.update(tally.wanting)
    return total
