"""The order in which things are measured: subjects take turns, so that what disturbs one disturbs all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.figures import Flood, Recovery, Requests, Steady, Subject
from bench.ingest import measure_floods, measure_requests
from bench.machine import Machine
from bench.results import Results
from bench.steady import Plan, measure_poller, measure_program

_MOST_THREADED = 5000
"""Sandboxes up to which the alternative is measured: beyond, its threads reach no steady state."""

_HANGING_SHARE = 0.2
_MOST_HANGING = 5000
_FLOOD_SPANS, _REQUESTS = 50_000, 3000


class Part(StrEnum):
    """What can be measured by itself."""

    STEADY = "steady"
    HANGING = "hanging"
    INGEST = "ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What a run measures, how long and how often."""

    sandboxes: Sequence[int] = (100, 1000, 5000, 10_000)
    seconds: float = 30.0
    interval_s: float = 10.0
    repeats: int = 3
    subjects: Sequence[Subject] = tuple(Subject)
    parts: Sequence[Part] = tuple(Part)

    def run(self, tell: Callable[[object], None]) -> Results:
        """Measure all, and tell each figure as soon as it is there."""
        steady: list[Steady] = []
        hanging: list[Steady] = []
        recovery: list[Recovery] = []
        floods: list[Flood] = []
        requests: list[Requests] = []
        lists = {Steady: steady, Recovery: recovery, Flood: floods, Requests: requests}
        for figure in self._figures():
            tell(figure)
            if isinstance(figure, Steady) and figure.hanging_share:
                hanging.append(figure)
            else:
                lists[type(figure)].append(figure)  # type: ignore[attr-defined]  # each list is of its own type
        return Results(
            machine=Machine.this(), steady=steady, hanging=hanging, recovery=recovery, floods=floods, requests=requests
        )

    def _figures(self) -> Iterator[Steady | Recovery | Flood | Requests]:
        if Part.STEADY in self.parts:
            for sandboxes in self.sandboxes:
                for _ in range(self.repeats):
                    yield from self._turn(sandboxes)
        if Part.HANGING in self.parts:
            sandboxes = max((size for size in self.sandboxes if size <= _MOST_HANGING), default=min(self.sandboxes))
            for _ in range(self.repeats):
                yield measure_poller(self._plan(sandboxes, hanging_share=_HANGING_SHARE))[0]
        if Part.INGEST in self.parts:
            for _ in range(self.repeats):
                yield from measure_floods(_FLOOD_SPANS)
                yield measure_requests(_REQUESTS)

    def _turn(self, sandboxes: int) -> Iterator[Steady | Recovery]:
        plan, has_uvloop = self._plan(sandboxes), False
        if Subject.POLLER in self.subjects:
            steady, recovery = measure_poller(plan, with_recovery=sandboxes == max(self.sandboxes))
            has_uvloop = steady.uvloop
            yield steady
            if recovery is not None:
                yield recovery
        if Subject.FLOOR in self.subjects:
            yield measure_program(Subject.FLOOR, plan, uvloop=has_uvloop)
        if Subject.ALTERNATIVE in self.subjects and sandboxes <= _MOST_THREADED:
            yield measure_program(Subject.ALTERNATIVE, plan)

    def _plan(self, sandboxes: int, hanging_share: float = 0.0) -> Plan:
        return Plan(sandboxes=sandboxes, seconds=self.seconds, interval_s=self.interval_s, hanging_share=hanging_share)


QUICK = Suite(
    sandboxes=(200,),
    seconds=4.0,
    interval_s=2.0,
    repeats=1,
    subjects=(Subject.POLLER, Subject.FLOOR),
    parts=(Part.STEADY,),
)
"""Half a minute: shows that all of it works, and a ratio that is worth a look."""
