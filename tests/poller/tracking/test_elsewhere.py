"""Sandboxes that other pollers follow: kept in the store, out of memory, and there when their owner changes."""

import pytest

from sandgauge_poller.ingest.events import RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import ChangeKind
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.names import EndReason, SpanOutcome
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord
from support.tracking_part import tracking

ACCEPTED, REPEATED, REJECTED = SpanOutcome.ACCEPTED, SpanOutcome.REPEATED, SpanOutcome.REJECTED
ROUTING = Routing([DeploymentNames("training", "opensandbox", frozenset())])
MINE, THEIRS = "mine", "theirs"
HOUR = 3600 * 10**9


def span(number, received_ns=1):
    return {"trace_id": bytes([number]) * 16, "span_id": bytes([number]) * 8, "received_ns": received_ns}


def start(number, sandbox_id, received_ns=1, request_id=None):
    keys = JoinKeys(sandbox_id=sandbox_id, provider="opensandbox", request_id=request_id)
    return StartEvent(**span(number, received_ns), record=StartRecord(keys=keys))


def stop(number, sandbox_id, *, failed=False):
    keys = JoinKeys(sandbox_id=sandbox_id, provider="opensandbox")
    return StopEvent(**span(number, 2), keys=keys, failed=failed)


def running(folder, *owned, **settings):
    return tracking(folder, ROUTING, "training", owns=set(owned).__contains__, **settings)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


async def test_only_own_sandboxes_are_followed_and_all_events_are_acknowledged(folder):
    async with running(folder, MINE) as poller:
        events = [start(1, MINE), start(2, THEIRS), stop(3, THEIRS), start(4, "another")]
        assert await poller.tracker.commit(events) == [ACCEPTED] * 4
        assert await poller.tracker.commit(events) == [REPEATED] * 4
        assert poller.ids == {MINE}
        assert {change.sandbox.key.sandbox_id for change in poller.changes} == {MINE}


async def test_sandboxes_of_others_take_no_room(folder):
    async with running(folder, MINE, "one more", capacity=1) as poller:
        others = [start(number, f"{THEIRS}-{number}") for number in range(1, 9)]
        assert await poller.tracker.commit([*others, start(11, MINE)]) == [ACCEPTED] * 9
        poller.sandbox(MINE).progress.first_reading_ns = 1
        assert await poller.tracker.commit([start(12, "one more")]) == [REJECTED]


async def test_a_rollout_is_everybodys(folder):
    async with running(folder, MINE) as poller:
        rollout = RolloutEvent(**{**span(1), "span_id": b"\x09" * 8}, keys=JoinKeys(rollout_id="r"))
        await poller.tracker.commit([rollout, start(1, MINE)])
        assert poller.sandbox(MINE).keys.rollout_id == "r"


async def test_a_new_owner_knows_a_running_sandbox_and_its_request(folder):
    async with running(folder, MINE) as poller:
        keys = JoinKeys(request_id="wish")
        request = RequestEvent(**span(8), record=RequestRecord(keys=keys))
        await poller.tracker.commit([request, start(1, MINE), start(2, THEIRS, request_id="wish")])
        await poller.tracker.prune(HOUR, 1000)
    async with running(folder, MINE, THEIRS) as poller:
        assert poller.ids == {MINE, THEIRS}
        assert poller.sandbox(THEIRS).progress.inherited
        assert not poller.sandbox(MINE).progress.inherited
        assert [change.kind for change in poller.changes] == [ChangeKind.RESTORED] * 2
        assert poller.database.read(lambda connection: store.find_request(connection, "wish")) is not None
    async with running(folder, MINE, THEIRS) as poller:
        assert poller.sandbox(THEIRS).progress.inherited


async def test_a_former_owner_forgets_what_it_saw(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([start(1, MINE)])
        await poller.save(MINE, Progress(readings=5, first_reading_ns=1))
    async with running(folder, THEIRS) as poller:
        assert poller.ids == set()
    async with running(folder, MINE) as poller:
        assert poller.sandbox(MINE).progress == Progress(inherited=True)


async def test_what_has_stopped_stays_with_its_owner(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([start(1, MINE), stop(2, MINE), start(3, THEIRS), stop(4, THEIRS)])
        await poller.save(MINE, Progress(readings=5))
    async with running(folder, THEIRS) as poller:
        assert poller.ids == {MINE}
        assert poller.sandbox(MINE).progress.readings == 5
        await poller.tracker.finish(poller.sandbox(MINE), 9)
    async with running(folder, MINE, THEIRS) as poller:
        assert poller.ids == set()


async def test_what_ended_otherwise_stays_with_its_owner(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([start(1, MINE)])
        await poller.save(MINE, Progress(end=End(EndReason.GONE, 5)))
    async with running(folder, THEIRS) as poller:
        assert poller.ids == {MINE}


async def test_a_stop_that_came_before_its_start_counts_for_a_later_owner_too(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([stop(4, THEIRS)])
        await poller.tracker.commit([start(3, THEIRS)])
    async with running(folder, THEIRS) as poller:
        assert poller.ids == set()
        assert await poller.tracker.commit([start(5, THEIRS)]) == [REPEATED]


async def test_a_failed_stop_ends_nothing(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([start(3, THEIRS), stop(4, THEIRS, failed=True)])
    async with running(folder, THEIRS) as poller:
        assert poller.ids == {THEIRS}


async def test_sandboxes_of_others_are_forgotten_in_a_week(folder):
    async with running(folder, MINE) as poller:
        await poller.tracker.commit([start(3, THEIRS, received_ns=HOUR)])
        await poller.tracker.prune(HOUR + 6 * 24 * HOUR, 1000)
    async with running(folder, THEIRS) as poller:
        assert poller.ids == {THEIRS}
    async with running(folder, MINE) as poller:
        await poller.tracker.prune(HOUR + 6 * 24 * HOUR + 1, 1000)
    async with running(folder, THEIRS) as poller:
        assert poller.ids == set()
