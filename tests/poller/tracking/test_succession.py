"""Sandboxes that come from another poller and go to another."""

import pytest

from sandgauge_poller.ingest.events import RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking import progress_rows, store
from sandgauge_poller.tracking.active_set import ActiveSet, ChangeKind, SandboxKey
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.elsewhere import Seen
from sandgauge_poller.tracking.phase import phase
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.progress_rows import ProgressRow
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_poller.tracking.succession import Succession
from sandgauge_poller.tracking.tally import dump_tally
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.tracking_part import save_progress

ROUTING = Routing([DeploymentNames("training", "opensandbox", frozenset())])
KEY = SandboxKey("training", "s")


def span(number):
    return {"trace_id": bytes([number]) * 16, "span_id": bytes([number]) * 8, "received_ns": 1}


def start(number, sandbox_id="s"):
    return StartEvent(**span(number), record=StartRecord(keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox")))


def stop(number, sandbox_id="s"):
    return StopEvent(**span(number), keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox"))


class Poller:
    def __init__(self, folder, capacity=10):
        self.database = Database(folder)
        self.active = ActiveSet(ROUTING, capacity)
        self.changes = []
        self.succession = Succession(self.database, self.active, self.changes.append)

    async def take_over(self, *events, seen=(), done=()):
        return await self.succession.take_over(events, dict(seen), dict(done), 100)

    async def restarted(self, folder):
        assert self.database.close(60)
        poller = Poller(folder)
        await poller.succession.begin()
        return poller


@pytest.fixture
async def poller(tmp_path):
    made = Poller(tmp_path)
    await made.succession.begin()
    yield made
    made.database.close(60)


async def test_a_sandbox_comes_with_what_was_seen_of_it(poller):
    seen = Progress(readings=7)
    assert await poller.take_over(start(1), stop(2), seen={KEY: Seen(seen, 50)}) == 0
    sandbox = poller.active.get(KEY)
    assert sandbox.progress == seen
    assert sandbox.lifecycle.stop is not None
    assert [change.kind for change in poller.changes] == [ChangeKind.RESTORED]


@pytest.mark.parametrize(("until_ns", "readings"), [(49, 5), (51, 7)])
async def test_what_was_seen_last_counts_whoever_saw_it(poller, tmp_path, until_ns, readings):
    await poller.take_over(start(1))
    await poller.database.write(
        lambda connection: save_progress(connection, KEY, Progress(readings=5, last_reading_ns=50), 0)
    )
    poller = await poller.restarted(tmp_path)
    await poller.take_over(start(1), seen={KEY: Seen(Progress(readings=7), until_ns)})
    assert poller.active.get(KEY).progress.readings == readings
    poller.database.close(60)


async def test_what_is_done_with_stays_so(poller):
    await poller.take_over(start(1), start(2, "t"), done={KEY: 5})
    assert [sandbox.key.sandbox_id for sandbox in poller.active] == ["t"]
    await poller.take_over(start(3))
    assert poller.active.get(KEY) is None


async def test_what_is_let_go_is_followed_no_more_and_can_come_back(poller, tmp_path):
    await poller.take_over(start(1), seen={KEY: Seen(Progress(readings=7), 50)})
    await poller.succession.let_go([poller.active.get(KEY)])
    assert len(poller.active) == 0
    await poller.take_over(start(1))
    assert poller.active.get(KEY).progress.readings == 7


async def test_the_counts_of_what_is_let_go_outlive_the_tidying_up(poller):
    await poller.take_over(start(1), seen={KEY: Seen(Progress(readings=7), 50)})
    row = ProgressRow(KEY, phase(KEY.sandbox_id), dump_tally(Progress(readings=8)), progress=None)
    await poller.database.write(lambda connection: progress_rows.save(connection, [row], 60))
    await poller.succession.let_go([poller.active.get(KEY)])
    await poller.database.write(progress_rows.prune)
    await poller.take_over(start(1))
    assert poller.active.get(KEY).progress.readings == 8


async def test_after_a_restart_nothing_is_followed_but_rollouts_are_known(poller, tmp_path):
    await poller.take_over(start(1))
    rollout = RolloutEvent(**{**span(1), "span_id": b"\x09" * 8}, keys=JoinKeys(rollout_id="r"))
    row = store.EventRow(rollout, None)
    await poller.database.write(lambda connection: store.insert_events(connection, [row]))
    poller = await poller.restarted(tmp_path)
    assert len(poller.active) == 0
    await poller.take_over(start(1))
    assert poller.active.get(KEY).keys.rollout_id == "r"
    poller.database.close(60)


async def test_what_is_beyond_the_capacity_is_left_out(tmp_path):
    poller = Poller(tmp_path, capacity=2)
    assert await poller.take_over(start(1, "a")) == 0
    assert await poller.take_over(start(2, "b"), start(3, "c"), start(4, "d")) == 2
    assert len(poller.active) == 2
    poller.database.close(60)
