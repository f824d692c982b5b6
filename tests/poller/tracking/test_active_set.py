"""The active set is a function of the set of events, in whatever order and however often they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import RolloutEvent, SpanEvent, StartEvent, StopEvent
from sandgauge_poller.tracking.active_set import ActiveSet, ChangeKind, SandboxKey
from sandgauge_poller.tracking.routing import RouteOutcome, Routing
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.event_strategies import DEPLOYMENTS, EAST, WEST, meeting_events, routings

A, B = b"\x0a" * 16, b"\x0b" * 16
EAST_ONLY, TWO = Routing(DEPLOYMENTS[:1]), Routing(DEPLOYMENTS[:2])


def start(number, trace_id=A, *, at=1, run_id=None, rollout=None, scope=None, provider="opensandbox", sandbox_id="s"):
    keys = JoinKeys(run_id=run_id, rollout_id=rollout, sandbox_id=sandbox_id, provider=provider)
    record = StartRecord(keys=keys, scope=scope)
    return StartEvent(trace_id=trace_id, span_id=bytes([number]) * 8, start_ns=at, received_ns=9, record=record)


def stop(number, *, at=5, failed=False, scope=None, provider="opensandbox", sandbox_id="s"):
    keys = JoinKeys(sandbox_id=sandbox_id, provider=provider)
    span_id = bytes([number]) * 8
    return StopEvent(trace_id=B, span_id=span_id, start_ns=at, received_ns=9, keys=keys, scope=scope, failed=failed)


def rollout(number, rollout_id, trace_id=A, *, at=1, run_id=None):
    keys = JoinKeys(run_id=run_id, rollout_id=rollout_id)
    return RolloutEvent(trace_id=trace_id, span_id=bytes([number]) * 8, start_ns=at, received_ns=9, keys=keys)


def applied(routing, events, capacity=100):
    active = ActiveSet(routing, capacity)
    changes = [change for event in events for change in active.apply(event)]
    return active, changes


def state(active):
    return {s.key: (s.deployment, s.outcome, s.lifecycle, s.rollout, s.keys) for s in active}


def first(events: list[SpanEvent]):
    return min(events, key=lambda event: event.order, default=None)


def is_of(rollout, start, naming):
    """Say whether a rollout span is about the rollout of a sandbox with that start and that naming start."""
    if naming is None:
        return rollout.trace_id == start.trace_id
    run_id = naming.record.keys.run_id or start.record.keys.run_id
    in_run = run_id is not None and rollout.keys.run_id == run_id
    same_group = in_run or rollout.trace_id in (start.trace_id, naming.trace_id)
    return same_group and rollout.keys.rollout_id == naming.record.keys.rollout_id


def meant(routing, events):
    """Say what the set of events means, without regard to any order."""

    def owner(keys, scope):
        return routing.route(keys.provider, scope).owner

    starts = [event for event in events if isinstance(event, StartEvent)]
    found = {}
    for key in {SandboxKey(owner(e.record.keys, e.record.scope), e.record.keys.sandbox_id) for e in starts}:
        own = [
            e
            for e in starts
            if (owner(e.record.keys, e.record.scope), e.record.keys.sandbox_id) == (key.owner, key.sandbox_id)
        ]
        naming = [event for event in own if event.record.keys.rollout_id]
        stops = [
            event
            for event in events
            if isinstance(event, StopEvent)
            and not event.failed
            and event.keys.sandbox_id == key.sandbox_id
            and owner(event.keys, event.scope) in routing.stop_owners(key.owner)
        ]
        rollouts = [e for e in events if isinstance(e, RolloutEvent) and is_of(e, first(own), first(naming))]
        named = {(event.record.keys.run_id, event.record.keys.rollout_id) for event in naming}
        found[key] = (first(own), first(naming), first(stops), len(named) > 1, first(rollouts))
    return found


@given(routing=routings, events=meeting_events, data=st.data())
def test_no_order_and_no_repetition_changes_what_the_events_mean(routing, events, data):
    again = data.draw(st.lists(st.sampled_from(events), max_size=6) if events else st.just([]))
    arrived = data.draw(st.permutations([*events, *again]))
    active, changes = applied(routing, arrived)
    assert state(active) == state(applied(routing, events)[0])
    found = {
        s.key: (s.lifecycle.start, s.lifecycle.naming_start, s.lifecycle.stop, s.lifecycle.conflicting, s.rollout)
        for s in active
    }
    assert found == meant(routing, events)
    conflicts = [change.sandbox.key for change in changes if change.kind is ChangeKind.CONFLICTED]
    assert sorted(conflicts, key=str) == sorted((s.key for s in active if s.lifecycle.conflicting), key=str)
    begun = [change.sandbox.key for change in changes if change.kind is ChangeKind.STARTED]
    assert len(begun) == len(set(begun)) == len(active)
    ended = {change.sandbox.key for change in changes if change.kind is ChangeKind.STOPPED}
    assert ended == {s.key for s in active if s.lifecycle.stop}


@given(routing=routings, events=meeting_events, data=st.data())
def test_nothing_is_kept_of_a_sandbox_that_is_discarded(routing, events, data):
    active, _ = applied(routing, events)
    gone = data.draw(st.sets(st.sampled_from([s.key for s in active]))) if len(active) else set()
    for key in gone:
        active.discard(active.get(key))
    assert {s.key for s in active} == set(meant(routing, events)) - gone
    changed = [change for event in events if not isinstance(event, StartEvent) for change in active.apply(event)]
    assert not {change.sandbox.key for change in changed} & gone
    for sandbox in list(active):
        active.discard(sandbox)
    assert (len(active), active._by_rollout, active._by_id) == (0, {}, {})


@pytest.mark.parametrize("events", [[start(1), stop(2)], [stop(2), start(1)]])
def test_a_stop_counts_before_and_after_its_start(events):
    active, changes = applied(EAST_ONLY, events)
    (sandbox,) = active
    assert sandbox.lifecycle.stop == stop(2)
    assert [change.kind for change in changes] == [ChangeKind.STARTED, ChangeKind.STOPPED]


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        ([start(1), stop(2, failed=True)], [ChangeKind.STARTED, ChangeKind.STOP_FAILED]),
        ([stop(2, failed=True), start(1)], [ChangeKind.STARTED]),
    ],
)
def test_a_stop_that_failed_ends_nothing_and_a_sandbox_that_is_known_hears_of_it(events, kinds):
    active, changes = applied(EAST_ONLY, events)
    assert [s.lifecycle.stop for s in active] == [None]
    assert [change.kind for change in changes] == kinds


def test_the_sandboxes_of_one_id_are_found_until_they_are_done_with():
    active, _ = applied(TWO, [start(1, scope=EAST), start(2, scope=WEST), start(3, scope=EAST, sandbox_id="t")])
    east, west = active.with_id("s")
    assert {east.deployment, west.deployment} == {d.name for d in DEPLOYMENTS[:2]}
    active.discard(east)
    assert active.with_id("s") == (west,)
    assert active.with_id("u") == ()


def test_a_stop_without_a_start_is_no_sandbox():
    active, changes = applied(EAST_ONLY, [stop(1), stop(2)])
    assert (len(active), changes) == (0, [])


@pytest.mark.parametrize("provider", ["opensandbox", None])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_stop_that_names_no_deployment_ends_the_sandbox_in_whichever_it_lives(provider, late):
    events = [start(1, scope=EAST), start(2, scope=WEST, sandbox_id="t")]
    events.insert(late, stop(3, provider=provider))
    active, _ = applied(TWO, events)
    stopped = {s.key: s.lifecycle.stop is not None for s in active}
    assert stopped == {SandboxKey("east", "s"): True, SandboxKey("west", "t"): False}


def test_a_stop_that_names_a_deployment_ends_no_namesake_in_another():
    active, _ = applied(TWO, [start(1, scope=EAST), start(2, scope=WEST), stop(3, scope=WEST)])
    assert {s.key.owner: s.lifecycle.stop is not None for s in active} == {"east": False, "west": True}


def test_without_a_match_a_sandbox_is_inventory_alone():
    active, _ = applied(TWO, [start(1), start(2, provider="fake", sandbox_id="f")])
    assert {s.key: (s.deployment, s.outcome) for s in active} == {
        SandboxKey("provider:opensandbox", "s"): (None, RouteOutcome.UNMATCHED),
        SandboxKey("provider:fake", "f"): (None, RouteOutcome.NOT_CONFIGURED),
    }


@pytest.mark.parametrize("late", [False, True])
def test_the_rollout_of_the_trace_names_a_start_that_names_none(late):
    events = [rollout(1, "7-0", run_id="run-1"), start(2)]
    active, _ = applied(EAST_ONLY, reversed(events) if late else events)
    (sandbox,) = active
    assert (sandbox.keys.run_id, sandbox.keys.rollout_id) == ("run-1", "7-0")


def test_a_start_that_names_its_rollout_needs_no_other_word():
    active, _ = applied(EAST_ONLY, [start(2, rollout="8-0"), rollout(1, "7-0", run_id="run-1")])
    (sandbox,) = active
    assert (sandbox.keys.run_id, sandbox.keys.rollout_id) == (None, "8-0")


@pytest.mark.parametrize(
    ("run_id", "names", "found"),
    [
        ("run-1", {"trace_id": B, "run_id": "run-1", "rollout_id": "7-0"}, True),
        ("run-1", {"trace_id": A, "run_id": None, "rollout_id": "7-0"}, True),
        (None, {"trace_id": A, "run_id": "run-1", "rollout_id": "7-0"}, True),
        # ids repeat between runs, and a trace may hold a whole run
        ("run-1", {"trace_id": B, "run_id": "run-2", "rollout_id": "7-0"}, False),
        ("run-1", {"trace_id": B, "run_id": None, "rollout_id": "7-0"}, False),
        (None, {"trace_id": B, "run_id": None, "rollout_id": "7-0"}, False),
        ("run-1", {"trace_id": A, "run_id": "run-1", "rollout_id": "7-1"}, False),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_the_rollout_of_a_sandbox_that_names_it_is_that_of_its_run_or_of_its_trace(run_id, names, found, late):
    ended = rollout(1, names["rollout_id"], names["trace_id"], run_id=names["run_id"])
    events = [start(2, run_id=run_id, rollout="7-0"), ended]
    active, changes = applied(EAST_ONLY, reversed(events) if late else events)
    (sandbox,) = active
    assert sandbox.rollout == (ended if found else None)
    if not late:
        assert [change.kind for change in changes] == [ChangeKind.STARTED, *[ChangeKind.KEYS_LEARNT] * found]


def test_a_sandbox_that_learns_its_name_looks_for_its_rollout_again():
    mine, other = rollout(1, "7-0", B, run_id="run-1"), rollout(2, "9-0", A)
    active, _ = applied(EAST_ONLY, [mine, other, start(3)])
    (sandbox,) = active
    assert sandbox.rollout == other
    active.apply(start(4, at=2, run_id="run-1", rollout="7-0"))
    assert sandbox.rollout == mine


def test_of_two_starts_that_disagree_the_earliest_wins_and_the_conflict_is_told_once():
    later, earlier = start(1, A, at=4, rollout="8-0"), start(2, B, at=3, rollout="7-0")
    active, changes = applied(EAST_ONLY, [later, earlier, later, earlier])
    (sandbox,) = active
    assert (sandbox.lifecycle.start, sandbox.keys.rollout_id) == (earlier, "7-0")
    assert [change.kind for change in changes].count(ChangeKind.CONFLICTED) == 1


def test_starts_at_one_time_are_settled_by_their_ids():
    low, high = start(1, A, rollout="7-0"), start(2, A, rollout="8-0")
    for events in ([low, high], [high, low]):
        (sandbox,) = applied(EAST_ONLY, events)[0]
        assert sandbox.keys.rollout_id == "7-0"


def test_a_start_without_times_comes_after_every_other():
    timeless, timed = start(1, A, at=None, rollout="8-0"), start(2, A, at=2**63, rollout="7-0")
    (sandbox,) = applied(EAST_ONLY, [timeless, timed])[0]
    assert sandbox.keys.rollout_id == "7-0"


def test_what_waits_for_a_sandbox_is_bounded():
    capacity = 5
    strangers = [stop(1, sandbox_id=f"s-{number}") for number in range(100)]
    others = [rollout(1, "7-0", trace_id=number.to_bytes(16, "big")) for number in range(100)]
    active, _ = applied(EAST_ONLY, [*strangers, *others], capacity=capacity)
    assert (len(active._waiting_stops), len(active._rollouts)) == (4 * capacity, 4 * capacity)
    active.apply(start(2, sandbox_id="s-99"))
    (sandbox,) = active
    assert sandbox.lifecycle.stop == strangers[99]
