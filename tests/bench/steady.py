"""One measurement in the steady state: a subject reads a fleet of so many sandboxes, and its process is watched."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.deliveries import Deliveries, Reading, readings
from bench.figures import Quantiles, Recovery, Steady, Subject
from bench.processes import Program, cores, rss_bytes
from bench.scene import Sandbox, Scene, WatchedPoller, poller, scene, until_all_read
from bench.window import Window
from sandgauge_schemas.names import ErrorType
from support.feed import feed

_LONE_STARTS = 10
_LONE_APART_S = 0.3
_LONE_PATIENCE_S = 4.0
_IDLE_S = 2.0
_WRITER, _DELIVERY = "sandgauge-writer", "sandgauge-delivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured: so many sandboxes, of which a share never answers, over so many seconds."""

    sandboxes: int
    seconds: float
    interval_s: float = 10.0
    hanging_share: float = 0.0

    def calm(self) -> None:
        """Wait until every sandbox, each read once by now, is on its own phase."""
        time.sleep(1.5 * self.interval_s)


def measure_poller(plan: Plan, *, with_recovery: bool = False) -> tuple[Steady, Recovery | None]:
    """Measure the poller, and on request how it comes back from kill -9."""
    hanging = [Sandbox() for _ in range(round(plan.sandboxes * plan.hanging_share))]
    others = [Sandbox() for _ in range(plan.sandboxes - len(hanging))]
    with scene(plan.interval_s) as at, poller(at) as running:
        time.sleep(_IDLE_S)
        idle_bytes = rss_bytes(running.pid)
        at.fleet.create([one.id for one in others])
        at.fleet.create([one.id for one in hanging], hangs=True)
        running.introduce([*others, *hanging])
        until_all_read(at.fleet)
        plan.calm()
        threads = running.counts()["threads"]
        with Window(running.pid, at.fleet, {name: threads[name] for name in (_WRITER, _DELIVERY)}) as window:
            time.sleep(plan.seconds)
        has_uvloop = running.has_uvloop
        fed_ns = _start_one_by_one(at, running)
        recovery = _recover(at, running, plan.sandboxes) if with_recovery else None
        seen = list(Deliveries(at.sink.file).more(at.sink.settle()))
    read = list(readings(seen))
    punctual, silent = {one.id for one in others}, {one.id for one in hanging}
    steady = Steady(
        subject=Subject.POLLER,
        sandboxes=plan.sandboxes,
        interval_s=plan.interval_s,
        hanging_share=plan.hanging_share,
        uvloop=has_uvloop,
        **window.of_the_process(),
        **window.of_the_readings([one for one in read if one.sandbox_id in punctual], plan.interval_s),
        rss_kb_a_sandbox=(window.rss_bytes - idle_bytes) / 1000 / plan.sandboxes,
        hang_s=Quantiles.of(
            (one.end_ns - one.start_ns) / 1e9
            for one in read
            if one.sandbox_id in silent and one.error_type == ErrorType.TIMEOUT
        ),
        first_sample_s=_first_samples(read, fed_ns),
        bytes_a_reading=window.bytes_a_reading(seen, read),
        writer_share=window.thread_share(_WRITER),
        delivery_share=window.thread_share(_DELIVERY),
    )
    return steady, recovery


def measure_program(subject: Subject, plan: Plan, *, uvloop: bool = False) -> Steady:
    """Measure the floor or the alternative."""
    sandboxes = [Sandbox() for _ in range(plan.sandboxes)]
    with scene(plan.interval_s) as at:
        addresses = at.fleet.create([one.id for one in sandboxes])
        given: dict[str, Any] = {"addresses": addresses, "interval_s": plan.interval_s}
        if subject is Subject.FLOOR:
            given["uvloop"] = uvloop
        else:
            given["endpoint"] = at.sink.endpoint
            given["sandboxes"] = [
                {"trace_id": one.trace_id, "parent_span_id": one.parent_span_id, "keys": one.all_keys}
                for one in sandboxes
            ]
        with Program(subject.value, cores()[0], given=given) as program:
            until_all_read(at.fleet)
            plan.calm()
            with Window(program.pid, at.fleet) as window:
                time.sleep(plan.seconds)
            if subject is Subject.ALTERNATIVE:
                time.sleep(_LONE_PATIENCE_S)  # for what was read in the window to be sent
        seen = list(Deliveries(at.sink.file).more(at.sink.settle()))
    read = list(readings(seen))
    return Steady(
        subject=subject,
        sandboxes=plan.sandboxes,
        interval_s=plan.interval_s,
        hanging_share=0.0,
        uvloop=uvloop,
        **window.of_the_process(),
        **window.of_the_readings(read, plan.interval_s),
        bytes_a_reading=window.bytes_a_reading(seen, read),
    )


def _start_one_by_one(at: Scene, running: WatchedPoller) -> dict[str, int]:
    """Start a few sandboxes, each on its own, and return when each was told to the poller, ns since the epoch."""
    fed_ns = {}
    for _ in range(_LONE_STARTS):
        sandbox = Sandbox()
        at.fleet.create([sandbox.id])
        fed_ns[sandbox.id] = time.time_ns()
        feed(running.endpoint, sandbox.start_span())
        time.sleep(_LONE_APART_S)
    time.sleep(_LONE_PATIENCE_S)
    return fed_ns


def _first_samples(read: Sequence[Reading], fed_ns: dict[str, int]) -> Quantiles | None:
    first: dict[str, int] = {}
    for one in read:
        if one.sandbox_id in fed_ns and one.error_type is None:
            first.setdefault(one.sandbox_id, one.arrived_ns)
    return Quantiles.of((arrived_ns - fed_ns[sandbox_id]) / 1e9 for sandbox_id, arrived_ns in first.items())


def _recover(at: Scene, running: WatchedPoller, sandboxes: int) -> Recovery:
    running.kill()
    at.fleet.forget_reads()
    began = time.monotonic()
    running.start_on_its_core()
    ready_s = time.monotonic() - began
    until_all_read(at.fleet)
    return Recovery(sandboxes=sandboxes, ready_s=ready_s, all_read_s=time.monotonic() - began)
