"""What the emitter costs Gym: the time of a start and a stop, and how late the event loop runs; off and on by turns."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import SandboxHandle, SandboxResources, SandboxSpec
from opensandbox.config import ConnectionConfig
from opensandbox.sandbox import Sandbox as OpenSandboxClient

from sandgauge_emitter.gym import GymSandboxInstrumentor
from support.gym_scenarios.fake_provider import FakeProvider

ROUNDS, STARTS = 25, 20
ROLLOUTS_PER_S, LAG_S = 200, 3.0
SPEC = SandboxSpec(image="ubuntu:22.04", resources=SandboxResources(cpu=2, memory_mib=4096, disk_gib=20))
_SUBMITTED = {"cpu": "2", "memory": "4096Mi", "ephemeral-storage": "20Gi"}
_CONNECTION = ConnectionConfig(domain="http://opensandbox.example:8080")
_TICK_S = 0.005
# In which the exporter's thread has sent what was made, so that it slows no round that is measured.
_SETTLE_S = 0.8


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that one sandbox takes."""

    start: float
    stop: float

    @property
    def both(self) -> float:
        return self.start + self.stop


class SubmittingProvider(FakeProvider):
    """Hands each sandbox to OpenSandbox's client, as Gym's own provider does, so that there is all to record."""

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        await OpenSandboxClient.create(
            spec.image, resource=_SUBMITTED, resource_requests=_SUBMITTED, connection_config=_CONNECTION
        )
        self._created += 1
        return self._handle(f"fake-{self._created}")


async def _make_nothing(_client: type, *_arguments: Any, **_named: Any) -> None:
    pass


def main() -> None:
    """Measure, and print each figure on a line."""
    OpenSandboxClient.create = classmethod(_make_nothing)  # type: ignore[method-assign]  # what is left is the emitter's
    instrumentor = GymSandboxInstrumentor()
    asyncio.run(_starts())  # whatever is loaded late is there from now on
    instrumentor.uninstrument()
    times: dict[str, list[Times]] = {"off": [], "on": []}
    late: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(ROUNDS):
        for state, measured in times.items():
            _switch(instrumentor, state)
            time.sleep(_SETTLE_S)
            measured.append(asyncio.run(_starts()))
    for state in late:
        _switch(instrumentor, state)
        time.sleep(_SETTLE_S)
        late[state] = sorted(asyncio.run(_paced_rollouts()))
    _print_cost("start", [one.start for one in times["off"]], [one.start for one in times["on"]])
    _print_cost("stop", [one.stop for one in times["off"]], [one.stop for one in times["on"]])
    _print_cost("start and stop", [one.both for one in times["off"]], [one.both for one in times["on"]])
    for state, ticks in late.items():
        middle, tail, most = (ticks[int(len(ticks) * share)] * 1e3 for share in (0.5, 0.99, 0.9999))
        print(
            f"loop lag at {ROLLOUTS_PER_S} starts/s, emitter {state}: {middle:.1f}, p99 {tail:.1f}, most {most:.1f} ms"
        )


def _print_cost(what: str, off: Sequence[float], on: Sequence[float]) -> None:
    """Print the medians and what is between them; where there is next to nothing without it, the ratio says little."""
    without, with_it = statistics.median(off) * 1e6, statistics.median(on) * 1e6
    print(
        f"{what}: the emitter costs {with_it - without:.1f} us "
        f"(off {without:.1f}, on {with_it:.1f}, {with_it / without:.1f} times; at best {min(on) * 1e6:.1f})"
    )


def _switch(instrumentor: GymSandboxInstrumentor, state: str) -> None:
    if instrumentor.is_instrumented_by_opentelemetry != (state == "on"):
        (instrumentor.instrument if state == "on" else instrumentor.uninstrument)()


async def _starts() -> Times:
    provider = SubmittingProvider()
    sandboxes = [AsyncSandbox(provider, SPEC, owns_provider=False) for _ in range(STARTS)]
    before = time.perf_counter()
    for sandbox in sandboxes:
        await sandbox.start()
    between = time.perf_counter()
    for sandbox in sandboxes:
        await sandbox.stop()
    return Times(start=(between - before) / STARTS, stop=(time.perf_counter() - between) / STARTS)


async def _paced_rollouts() -> list[float]:
    """Start and stop sandboxes at an even pace, and return by how many seconds each tick of the loop was late."""
    late: list[float] = []

    async def roll_out(number: int) -> None:
        await asyncio.sleep(number / ROLLOUTS_PER_S)
        async with AsyncSandbox(SubmittingProvider(), SPEC) as sandbox:
            await sandbox.start()

    async def tick() -> None:
        while True:
            due = time.perf_counter() + _TICK_S
            await asyncio.sleep(_TICK_S)
            late.append(time.perf_counter() - due)

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*map(roll_out, range(int(ROLLOUTS_PER_S * LAG_S))))
    ticking.cancel()
    return late
