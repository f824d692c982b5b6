"""Who makes room when as many sandboxes are known as may be."""

import itertools
import logging
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import NotStoredError, StartEvent
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import ActiveSet, ChangeKind
from sandgauge_poller.tracking.progress import End, Progress, UsageProgress
from sandgauge_poller.tracking.routing import Routing
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_poller.tracking.unseen import Rank
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource, SpanOutcome
from sandgauge_schemas.records import Allocation, JoinKeys, ReadingStatus, StartRecord
from support.event_strategies import DEPLOYMENTS, EAST
from support.tracking_part import tracking

ACCEPTED, REJECTED = SpanOutcome.ACCEPTED, SpanOutcome.REJECTED
ROUTING = Routing(DEPLOYMENTS)
_numbers = itertools.count(1)

SEEN = {
    "a reading": {"first_reading_ns": 1},
    "an allocation": {"allocation": Allocation()},
    "an expiry": {"expires_at_ns": 1},
    "a pause": {"paused": True},
    "usage": {"usage": UsageProgress(source=ResourceSource.DOCKER_STATS, first_reading_ns=1)},
    "quantities that are not supported": {
        "allocation_status": ReadingStatus(source="opensandbox", error_type=ErrorType.NO_SUPPORTED_QUANTITY)
    },
}
NOT_SEEN = {
    "nothing": {},
    "a 'not found'": {"allocation_status": ReadingStatus(source="opensandbox", error_type=ErrorType.NOT_FOUND)},
    "a reading that failed": {"missed": 1, "failed_in_a_row_ns": [1]},
    "usage that failed": {"usage": UsageProgress(source=ResourceSource.DOCKER_STATS, failed_in_a_row_ns=[1])},
}


def start(sandbox_id, run_id=None, scope=EAST):
    """Return a start span of a trace of its own."""
    number = next(_numbers)
    keys = JoinKeys(sandbox_id=sandbox_id, provider="opensandbox", run_id=run_id)
    return StartEvent(
        trace_id=number.to_bytes(16, "big"),
        span_id=b"\x01" * 8,
        received_ns=number,
        record=StartRecord(keys=keys, scope=scope),
    )


@pytest.mark.parametrize("told", SEEN.values(), ids=SEEN)
def test_who_was_seen(told):
    assert Progress(**told).is_seen


@pytest.mark.parametrize("told", NOT_SEEN.values(), ids=NOT_SEEN)
def test_who_was_not_seen(told):
    assert not Progress(**told).is_seen


async def test_the_oldest_of_which_nothing_was_seen_makes_room_and_is_forgotten(tmp_path, caplog):
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=3) as poller:
        spans = {id_: start(id_) for id_ in "abcd"}
        assert await poller.tracker.commit([spans["a"], spans["b"], spans["c"]]) == [ACCEPTED] * 3
        poller.sandbox("a").progress.first_reading_ns = 1
        oldest = poller.sandbox("b")
        with caplog.at_level(logging.WARNING):
            assert await poller.tracker.commit([spans["d"]]) == [ACCEPTED]
        assert poller.ids == {"a", "c", "d"}
        assert [c.sandbox for c in poller.changes if c.kind is ChangeKind.DISPLACED] == [oldest]
        assert "1 sandbox of which nothing was ever seen made room" in caplog.text
        # Its spans were never stored: sent again, they are news.
        assert await poller.tracker.commit([spans["b"], spans["d"]]) == [ACCEPTED, SpanOutcome.REPEATED]
        assert poller.ids == {"a", "b", "d"}
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=3) as poller:
        assert poller.ids == {"a", "b", "d"}


async def test_nobody_makes_room_where_all_were_seen(tmp_path):
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=2) as poller:
        await poller.tracker.commit([start("a"), start("b")])
        for sandbox in poller.active:
            sandbox.progress.first_reading_ns = 1
        assert await poller.tracker.commit([start("c")]) == [REJECTED]
        assert poller.ids == {"a", "b"}


async def test_one_that_does_not_exist_makes_room_before_older_ones(tmp_path):
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=3) as poller:
        await poller.tracker.commit([start("a"), start("b"), start("c")])
        for id_ in "bc":
            poller.sandbox(id_).progress.end = End(EndReason.GONE, 1)
            poller.active.deny(poller.sandbox(id_))
        await poller.tracker.commit([start("d")])
        assert poller.ids == {"a", "c", "d"}
        poller.sandbox("c").progress.first_reading_ns = 1  # a reading that was on its way
        await poller.tracker.commit([start("e")])
        assert poller.ids == {"c", "d", "e"}


async def test_one_that_was_seen_and_is_gone_has_a_summary_to_come(tmp_path):
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=1) as poller:
        await poller.tracker.commit([start("a")])
        sandbox = poller.sandbox("a")
        sandbox.progress.first_reading_ns, sandbox.progress.end = 1, End(EndReason.GONE, 1)
        poller.active.deny(sandbox)
        assert await poller.tracker.commit([start("b")]) == [REJECTED]


async def test_what_no_deployment_takes_makes_room_first_and_displaces_nobody_else(tmp_path):
    nowhere = "http://nowhere"
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=2) as poller:
        await poller.tracker.commit([start("a"), start("u", scope=nowhere)])
        assert await poller.tracker.commit([start("v", scope=nowhere), start("b"), start("w", scope=nowhere)]) == [
            ACCEPTED,
            ACCEPTED,
            REJECTED,
        ]
        assert poller.ids == {"v", "b"}


async def test_a_disk_that_is_full_displaces_nobody(tmp_path, monkeypatch):
    async with tracking(tmp_path / "state", ROUTING, "east", capacity=1) as poller:
        await poller.tracker.commit([start("a", run_id="r")])
        with monkeypatch.context() as patch:
            patch.setattr(store, "insert_events", _full)
            with pytest.raises(NotStoredError):
                await poller.tracker.commit([start("b")])
        assert poller.ids == {"a"}
        assert poller.kinds[-2:] == [ChangeKind.DISPLACED, ChangeKind.RESTORED]
        assert await poller.tracker.commit([start("b")]) == [ACCEPTED]
        assert poller.ids == {"b"}


def _full(*_):
    raise StateError("the disk is full")


@dataclass
class World:
    """What is true of the ids, and what was tracked as each came; oldest first."""

    arrived: list[str] = field(default_factory=list)
    run: dict[str, str | None] = field(default_factory=dict)
    matched: dict[str, bool] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)

    def vouches(self, _, event):
        return event.record.keys.run_id in {self.run[id_] for id_ in self.seen} - {None}

    def rank(self, id_):
        if id_ in self.denied:
            return Rank.DENIED
        if not self.matched[id_]:
            return Rank.UNREAD
        return Rank.VOUCHED if self.run[id_] in {self.run[seen] for seen in self.seen} - {None} else Rank.STRANGER

    def came(self, id_, before, after):
        """Hold what one newcomer changed to what is promised."""
        gone, own = before - after, self.rank(id_)
        may_go = {one for one in before - self.seen if self.rank(one) <= own}
        assert not gone & self.seen
        assert after - before == ({id_} if may_go else set())
        assert len(gone) == bool(may_go)
        for one in gone:
            assert self.rank(one) == min(map(self.rank, may_go))
            if self.rank(one) in (Rank.UNREAD, Rank.STRANGER):
                assert one == min((o for o in may_go if self.rank(o) == self.rank(one)), key=self.arrived.index)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    capacity=st.integers(1, 5),
    steps=st.lists(
        st.tuples(st.just("start"), st.sampled_from([None, "r1", "r2"]), st.booleans())
        | st.tuples(st.sampled_from(["see", "deny"]), st.integers(0, 4), st.none()),
        max_size=40,
    ),
)
def test_one_for_which_the_least_speaks_makes_room_and_nobody_who_was_seen(capacity, steps):
    world = World()
    active = ActiveSet(ROUTING, capacity, world.vouches)
    for number, (kind, what, matched) in enumerate(steps):
        ids = {sandbox.key.sandbox_id for sandbox in active}
        if kind == "start":
            id_ = f"s-{number}"
            world.arrived.append(id_)
            world.run[id_], world.matched[id_] = what, matched
            event = start(id_, run_id=what, scope=EAST if matched else "http://nowhere")
            is_full = len(active) == capacity
            if not is_full or active.make_room(event) is not None:
                active.apply(event)
            if is_full:
                world.came(id_, ids, {sandbox.key.sandbox_id for sandbox in active})
        elif what < len(ids) and world.matched[sorted(ids)[what]]:  # nobody asks for others
            (sandbox,) = active.with_id(sorted(ids)[what])
            id_ = sandbox.key.sandbox_id
            if kind == "see" and id_ not in world.denied:
                sandbox.progress.first_reading_ns = 1
                world.seen.add(id_)
            elif kind == "deny" and id_ not in world.seen:
                active.deny(sandbox)
                world.denied.add(id_)
        assert len(active) <= capacity
