"""Kills and beginnings out of the daemon's events, over breaks of the stream."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.events import ContainerEvents, EventWatch
from support.stub_engine import StubEngine

T0 = 1_795_000_000_000_000_000
SECOND = 10**9
ID = "ab" * 32


def event(action, at_s, id_=ID, **attributes):
    actor = {"ID": id_, "Attributes": attributes}
    return {"Type": "container", "Action": action, "Actor": actor, "timeNano": T0 + round(at_s * SECOND)}


@pytest.mark.parametrize(
    ("told", "kills", "main_killed"),
    [
        ([], 0, False),
        ([("oom", 1, None)], 1, False),  # a child, and the container lives
        ([("oom", 1, None), ("oom", 1.1, None), ("oom", 30, None)], 3, False),
        ([("oom", 1, None), ("die", 1.2, "137")], 1, True),
        ([("die", 1, "137"), ("oom", 1.2, None)], 1, True),  # the two come from different watchers
        ([("oom", 1, None), ("die", 60, "137")], 1, False),  # deleted long after a child was killed
        ([("oom", 1, None), ("die", 1.2, "0")], 1, False),
        ([("die", 1, "137")], 0, False),
        ([("oom", 1, None), ("start", 1.1, None), ("die", 1.2, "137")], 1, False),  # another life
        ([("oom", 1, None), ("die", 1.1, "137"), ("start", 3, None)], 1, True),  # what was seen stays seen
    ],
)
def test_a_kill_and_an_end_together_are_that_of_the_main_process(told, kills, main_killed):
    seen = ContainerEvents()
    for action, at_s, exit_code in told:
        seen.take(action, T0 + round(at_s * SECOND), exit_code)
    assert (seen.kills, seen.main_killed) == (kills, main_killed)


@pytest.fixture
async def engine(tmp_path):
    async with StubEngine(tmp_path / "docker.sock") as stub:
        yield stub


@asynccontextmanager
async def watching(stub):
    """Follow the stub's events without waiting between two tries."""
    clock = Clock(now_ns=lambda: T0, sleep=lambda _: asyncio.sleep(0.01))
    engine = Engine(stub.endpoint, None, timeout_s=60.0, clock=clock)
    watch = EventWatch(engine, clock)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await engine.close()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # what a stream brings has no event of its own
            await asyncio.sleep(0.01)


async def test_what_a_broken_stream_told_before_is_counted_once(engine):
    engine.events = [
        [event("start", 1), event("oom", 2)],
        # the daemon tells again what came since the time that it is asked from
        [event("oom", 2), event("oom", 3), event("die", 3.1, exitCode="137")],
    ]
    async with watching(engine) as watch:
        await until(lambda: len(engine.since) == 3)
        seen = watch.of(ID)
        assert (seen.kills, seen.main_killed, seen.started_ns) == (2, True, T0 + SECOND)
        assert watch.since_ns == T0
        assert watch.of("cd" * 32).kills == 0
        watch.forget(ID)
        assert watch.of(ID).kills == 0
    assert engine.since == ["1795000000.000000000", "1795000002.000000000", "1795000003.100000000"]


async def test_kills_count_whatever_the_daemon_has_for_a_clock(engine):
    an_hour_behind, set_back = event("oom", -3600), event("oom", -7200)
    engine.events = [[an_hour_behind, event("oom", 10**9)], [set_back], [set_back, event("oom", -7000)]]
    async with watching(engine) as watch:
        await until(lambda: watch.of(ID).kills == 4)
        assert watch.since_ns == T0


async def test_oddities_in_the_stream_are_passed_over(engine):
    odd = ["", "nonsense", "[]", "null", {"Action": "oom"}, {**event("oom", 2), "Actor": None}]
    odd += [{**event("oom", 3), "timeNano": "3"}, event("oom", 4, id_=7), event("die", 5, exitCode=137)]
    engine.events = [[*odd, event("oom", 6)]]
    async with watching(engine) as watch:
        await until(lambda: watch.of(ID).kills)
        assert (watch.of(ID).kills, watch.of(ID).main_killed) == (1, False)


async def test_a_line_beyond_every_bound_ends_one_stream_and_no_more(engine):
    engine.events = [["x" * 5_000_000], [event("oom", 6)]]
    async with watching(engine) as watch:
        await until(lambda: watch.of(ID).kills)


async def test_events_that_may_not_be_read_are_told_once_and_count_nothing(engine, caplog):
    engine.refused = ("/events",)
    async with watching(engine) as watch:
        await until(lambda: sum(path.endswith("/events") for path in engine.asked) >= 3)
        assert watch.since_ns is None
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "no out-of-memory kill is counted" in caplog.text
