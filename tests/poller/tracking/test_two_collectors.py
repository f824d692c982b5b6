"""What two Collectors deliver, in any order, however often, over restarts: only the set of spans counts."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandgauge_poller.tracking.active_set import ActiveSet, ChangeKind
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas.names import SpanOutcome
from support.event_strategies import meeting_events, routings

CAPACITY = 100


def state(active):
    return {s.key: (s.deployment, s.outcome, untimed(s.lifecycle), at(0, s.rollout), s.keys) for s in active}


def untimed(lifecycle):
    """Leave out when events came in, which is no part of what they say."""
    events = {name: at(0, getattr(lifecycle, name)) for name in ("start", "naming_start", "stop")}
    return replace(lifecycle, **events)


def at(received_ns, event):
    """Return the event as it comes in at another time."""
    return None if event is None else replace(event, received_ns=received_ns)


@asynccontextmanager
async def tracker(folder, routing):
    database = Database(folder)
    active, changes = ActiveSet(routing, CAPACITY), []
    try:
        tracker = Tracker(database, active, changes.append)
        await tracker.restore()
        yield tracker, active, changes
    finally:
        assert database.close(60)


@st.composite
def deliveries(draw, events):
    """Two queues of batches: each event is in one of them or in both, and any may come again."""
    ways = draw(st.lists(st.sampled_from(["first", "second", "both"]), min_size=len(events), max_size=len(events)))
    queues = []
    for own in ("first", "second"):
        carried = [event for event, way in zip(events, ways, strict=True) if way in (own, "both")]
        again = draw(st.lists(st.sampled_from(carried), max_size=3)) if carried else []
        queue, batches = draw(st.permutations([*carried, *again])), []
        while queue:
            size = draw(st.integers(1, len(queue)))
            batches.append(queue[:size])
            queue = queue[size:]
        queues.append(batches)
    return queues


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(routing=routings, events=meeting_events, data=st.data())
async def test_two_collectors_and_restarts_change_nothing(tmp_path_factory, routing, events, data):
    folder, clock = tmp_path_factory.mktemp("state"), count(10)
    outcomes, queues = [], data.draw(deliveries(events))
    while any(queues):
        async with tracker(folder, routing) as (running, active, changes):
            for _ in range(data.draw(st.integers(1, 4))):
                batches = [[at(next(clock), event) for event in queue.pop(0)] for queue in queues if queue]
                answers = await asyncio.gather(*(running.commit(batch) for batch in batches))
                outcomes += [outcome for answer in answers for outcome in answer]
            begun = [change.sandbox.key for change in changes if change.kind is ChangeKind.STARTED]
            restored = [change.sandbox.key for change in changes if change.kind is ChangeKind.RESTORED]
            assert sorted(begun + restored, key=str) == sorted((s.key for s in active), key=str)
    together = ActiveSet(routing, CAPACITY)
    for event in events:
        together.apply(event)
    async with tracker(folder, routing) as (_, active, _):
        assert state(active) == state(together)
    assert outcomes.count(SpanOutcome.ACCEPTED) == len(events)
    assert set(outcomes) <= {SpanOutcome.ACCEPTED, SpanOutcome.REPEATED}
