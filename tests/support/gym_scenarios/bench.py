"""What the emitter costs Gym: the time of a start and a stop, and how late the event loop runs; off and on by turns."""

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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
    """Measure, and print each figure on a line: medians, which leave what else the machine does out."""
    OpenSandboxClient.create = classmethod(_make_nothing)  # type: ignore[method-assign]  # what is left is the emitter's
    instrumentor = GymSandboxInstrumentor()
    asyncio.run(_lives())  # whatever is loaded late is there from now on
    instrumentor.uninstrument()
    rounds: dict[str, list[list[Times]]] = {"off": [], "on": []}
    late: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(ROUNDS):
        for state, measured in rounds.items():
            _switch(instrumentor, state)
            time.sleep(_SETTLE_S)
            measured.append(asyncio.run(_lives()))
    for state in late:
        _switch(instrumentor, state)
        time.sleep(_SETTLE_S)
        late[state] = sorted(asyncio.run(_paced_rollouts()))
    first = {state: [lives[0] for lives in measured] for state, measured in rounds.items()}
    later = {state: [one for lives in measured for one in lives[1:]] for state, measured in rounds.items()}
    _print_cost("start", later, lambda one: one.start)
    _print_cost("stop", later, lambda one: one.stop)
    _print_cost("start and stop", later, lambda one: one.start + one.stop)
    _print_cost(f"start after {_SETTLE_S} s without any", first, lambda one: one.start)
    for state, ticks in late.items():
        middle, tail, most = (ticks[int(len(ticks) * share)] * 1e3 for share in (0.5, 0.99, 0.9999))
        print(
            f"loop lag at {ROLLOUTS_PER_S} starts/s, emitter {state}: {middle:.1f}, p99 {tail:.1f}, most {most:.1f} ms"
        )


def _print_cost(what: str, times: Mapping[str, Sequence[Times]], seconds: Callable[[Times], float]) -> None:
    off, on = (statistics.median(map(seconds, times[state])) * 1e6 for state in ("off", "on"))
    print(f"{what}: the emitter costs {on - off:.1f} us (off {off:.1f}, on {on:.1f}, which is {on / off:.0f} times it)")


def _switch(instrumentor: GymSandboxInstrumentor, state: str) -> None:
    if instrumentor.is_instrumented_by_opentelemetry != (state == "on"):
        (instrumentor.instrument if state == "on" else instrumentor.uninstrument)()


async def _lives() -> list[Times]:
    """Start and stop one sandbox after another."""
    provider = SubmittingProvider()
    times = []
    for _ in range(STARTS):
        sandbox = AsyncSandbox(provider, SPEC, owns_provider=False)
        asked = time.perf_counter()
        await sandbox.start()
        started = time.perf_counter()
        await sandbox.stop()
        times.append(Times(start=started - asked, stop=time.perf_counter() - started))
    return times


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
