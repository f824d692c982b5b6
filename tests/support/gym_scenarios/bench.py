"""What the emitter costs Gym: the time of a start, and how late the event loop runs; off and on by turns."""

import asyncio
import statistics
import time

from nemo_gym.sandbox.api import AsyncSandbox

from sandgauge_emitter.gym import GymSandboxInstrumentor
from support.gym_scenarios.fake_provider import SPEC, FakeProvider

ROUNDS, STARTS = 20, 20
ROLLOUTS_PER_S, LAG_S = 200, 3.0
_TICK_S = 0.005
# In which the exporter's thread has sent what was made, so that it slows no round that is measured.
_SETTLE_S = 0.8


def main() -> None:
    """Measure, and print each figure on a line."""
    instrumentor = GymSandboxInstrumentor()
    asyncio.run(_starts())  # whatever is loaded late is there from now on
    instrumentor.uninstrument()
    starts: dict[str, list[float]] = {"off": [], "on": []}
    late: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(ROUNDS):
        for state, times in starts.items():
            _switch(instrumentor, state)
            time.sleep(_SETTLE_S)
            times.append(asyncio.run(_starts()))
    for state in late:
        _switch(instrumentor, state)
        time.sleep(_SETTLE_S)
        late[state] = sorted(asyncio.run(_paced_rollouts()))
    for state, times in starts.items():
        middle, best = statistics.median(times) * 1e6, min(times) * 1e6
        print(f"start and stop, emitter {state}: median {middle:.0f} us, best {best:.0f} us")
    for state, ticks in late.items():
        middle, tail, most = (ticks[int(len(ticks) * share)] * 1e3 for share in (0.5, 0.99, 0.9999))
        print(
            f"loop lag at {ROLLOUTS_PER_S} starts/s, emitter {state}: {middle:.1f}, p99 {tail:.1f}, most {most:.1f} ms"
        )


def _switch(instrumentor: GymSandboxInstrumentor, state: str) -> None:
    if instrumentor.is_instrumented_by_opentelemetry != (state == "on"):
        (instrumentor.instrument if state == "on" else instrumentor.uninstrument)()


async def _starts() -> float:
    """Return the seconds that one start and stop takes."""
    provider = FakeProvider()
    before = time.perf_counter()
    for _ in range(STARTS):
        async with AsyncSandbox(provider, SPEC, owns_provider=False) as sandbox:
            await sandbox.start()
    return (time.perf_counter() - before) / STARTS


async def _paced_rollouts() -> list[float]:
    """Start and stop sandboxes at an even pace, and return by how many seconds each tick of the loop was late."""
    late: list[float] = []

    async def roll_out(number: int) -> None:
        await asyncio.sleep(number / ROLLOUTS_PER_S)
        async with AsyncSandbox(FakeProvider(), SPEC) as sandbox:
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
