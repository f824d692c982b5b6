"""Hypothesis strategies for lifecycle events: a small world, so that they meet, and whole events for the store."""

from dataclasses import replace

from hypothesis import strategies as st

from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.records import JoinKeys, StartRecord
from support import record_strategies

EAST, WEST, DOCKER = "http://east:8080", "http://west:8080", "http://docker:2375"
DEPLOYMENTS = [
    DeploymentNames("east", "opensandbox", frozenset({EAST})),
    DeploymentNames("west", "opensandbox", frozenset({WEST})),
    DeploymentNames("local", "docker", frozenset({DOCKER})),
]
routings = st.lists(st.sampled_from(DEPLOYMENTS), unique=True, max_size=3).map(Routing)

_few_times = st.none() | st.integers(1, 4)
_keys = st.builds(
    JoinKeys,
    run_id=st.none() | st.just("run-1"),
    rollout_id=st.none() | st.sampled_from(["7-0", "8-0"]),
    sandbox_id=st.sampled_from(["a", "b"]),
    provider=st.none() | st.sampled_from(["opensandbox", "docker", "fake"]),
)
_scopes = st.none() | st.sampled_from([EAST, f"{WEST}/v1/", "http://elsewhere", DOCKER])
_common = {
    "trace_id": st.sampled_from([b"\x01" * 16, b"\x02" * 16, b"\x03" * 16]),
    "span_id": st.just(b""),
    "start_ns": _few_times,
    "end_ns": _few_times,
    "received_ns": st.just(9),
}
_meeting = (
    st.builds(StartEvent, **_common, record=st.builds(StartRecord, keys=_keys, scope=_scopes))
    | st.builds(StopEvent, **_common, keys=_keys, scope=_scopes, failed=st.booleans())
    | st.builds(
        RolloutEvent,
        **_common,
        keys=st.builds(
            JoinKeys, run_id=st.sampled_from([None, "run-1", "run-2"]), rollout_id=st.sampled_from(["7-0", "9-0"])
        ),
    )
)


def _with_span_ids(events: list[LifecycleEvent]) -> list[LifecycleEvent]:
    return [replace(event, span_id=number.to_bytes(8, "big")) for number, event in enumerate(events, start=1)]


meeting_events = st.lists(_meeting, max_size=8).map(_with_span_ids)
"""Events of few sandboxes, traces, deployments and times; no two of one span."""

_times = st.none() | st.integers(946_684_800_000_000_000, 2**63 - 1)
_any = {
    "trace_id": st.binary(min_size=16, max_size=16),
    "span_id": st.binary(min_size=8, max_size=8),
    "parent_span_id": st.none() | st.binary(min_size=8, max_size=8).filter(any),
    "start_ns": _times,
    "end_ns": _times,
    "received_ns": st.integers(1, 2**62),
}
any_events = (
    st.builds(RequestEvent, **_any, record=record_strategies.requests)
    | st.builds(
        StartEvent,
        **_any,
        record=record_strategies.starts,
        instrumentation=st.none() | record_strategies.texts,
        sender=st.none() | record_strategies.texts,
    )
    | st.builds(
        StopEvent,
        **_any,
        keys=record_strategies.join_keys,
        scope=st.none() | record_strategies.texts,
        failed=st.booleans(),
    )
    | st.builds(
        RolloutEvent,
        **_any,
        keys=st.builds(JoinKeys, run_id=st.none() | record_strategies.texts, rollout_id=record_strategies.texts),
    )
)
"""Whole events of every kind."""
