"""What the emitter adds to stock Gym: in every scenario and set-up one request and one start for each wish."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandgauge_schemas import names
from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.scenario_run import GROUPS_ENABLED, LENS_ABSENT, LENS_AND_HOST, TelemetrySetup, run_scenarios
from support.simulated_osb import osb_in_thread
from support.span_trees import masked, span_trees

pytestmark = pytest.mark.integration

NO_HOST = TelemetrySetup(lens=False, host=False)
WORLDS = {
    "3.13-no-host": ("3.13", NO_HOST),
    "3.13-lens-absent": ("3.13", LENS_ABSENT),
    "3.13-lens-and-host": ("3.13", LENS_AND_HOST),
    "3.13-groups-enabled": ("3.13", GROUPS_ENABLED),
    "3.12-no-host": ("3.12", NO_HOST),
    "3.12-groups-enabled": ("3.12", GROUPS_ENABLED),
}
REQUEST, START, EXEC, STOP, ROLLOUT = (
    names.SPAN_GYM_SANDBOX_REQUEST,
    names.SPAN_GYM_SANDBOX_START,
    names.SPAN_GYM_SANDBOX_EXEC,
    names.SPAN_GYM_SANDBOX_STOP,
    names.SPAN_GYM_ROLLOUT,
)
REQUEST_ID, ROLLOUT_ID, RUN_ID = names.NEMO_GYM_SANDBOX_REQUEST_ID, names.NEMO_GYM_ROLLOUT_ID, names.NEMO_RUN_ID
SANDBOX_ID, PROVIDER = names.NEMO_GYM_SANDBOX_ID, names.NEMO_GYM_SANDBOX_PROVIDER
SANDBOX = PROVIDER.removesuffix("provider")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One logical request and what came of it; keys below `nemo.gym.sandbox.`, `*` for an id that was generated."""

    requested: dict[str, Any] = field(default_factory=dict)
    sandbox_id: str | None = "fake-1"
    failed: bool = False
    provider: str = "fake"
    rollout_id: str | None = None
    submitted: dict[str, Any] = field(default_factory=dict)
    collection: str | None = None
    service: str | None = None
    started: bool = True

    def request(self) -> dict[str, Any]:
        declared = {f"{SANDBOX}requested.{key}": value for key, value in self.requested.items()}
        group = {
            names.NEMO_GYM_SANDBOX_COLLECTION_ID: self.collection,
            names.NEMO_GYM_SANDBOX_SERVICE_NAME: self.service,
        }
        return self._keys() | {names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: 1} | known(group) | declared

    def start(self) -> dict[str, Any] | None:
        sent = {f"{SANDBOX}submitted.{key}": value for key, value in self.submitted.items()}
        scope = {names.NEMO_GYM_SANDBOX_SCOPE: "the control plane"} if self.submitted else {}
        return self._keys() | known({SANDBOX_ID: self.sandbox_id}) | sent | scope if self.started else None

    def _keys(self) -> dict[str, Any]:
        return known({PROVIDER: self.provider, ROLLOUT_ID: self.rollout_id})


def known(attributes):
    return {key: value for key, value in attributes.items() if value is not None}


def on_opensandbox(limits=None, requests=None, **more):
    both = (("limits", limits), ("requests", requests))
    sent = {f"{side}.{key}": float(value) for side, shape in both for key, value in (shape or {}).items()}
    submitted = sent | {"sdk_default": not sent}
    return Wish(**{"provider": "opensandbox", "sandbox_id": "*", "submitted": submitted} | more)


WEB = {"requested": {"cpu": 0.5, "memory_mib": 1025}, "collection": "compose-*", "service": "web"}
DB = {"requested": {"memory_mib": 256}, "collection": "compose-*", "service": "db"}
HALF = {"cpu": 0.5, "memory_mib": 1536}
WISHES = {
    "fake_ok": [Wish(requested={"cpu": 0.5, "gpu": 1})],
    "fake_fail": [Wish(sandbox_id=None, failed=True)],
    "cancelled_create": [Wish(sandbox_id=None)],
    "start_again": [Wish(sandbox_id=None, failed=True), Wish(requested={"cpu": 1.0})],
    "refused_start": [Wish()],
    "borrowed": [Wish()],
    "direct": [Wish(requested={"memory_mib": 512})],
    "declared_disk": [Wish(requested={"disk_gib": 10})],
    "opensandbox": [
        on_opensandbox(
            {"cpu": 2, "memory_mib": 4096, "disk_gib": 10},
            {"cpu": 0.5, "memory_mib": 512},
            requested={"cpu": 2.0, "memory_mib": 4096, "disk_gib": 10},
        )
    ],
    "opensandbox_limits": [on_opensandbox(HALF, requested=HALF), on_opensandbox(HALF, HALF, requested=HALF)],
    "opensandbox_defaults": [
        on_opensandbox(),
        # Gym itself fills the shape in where requests shall mirror limits that nobody declared.
        on_opensandbox({"cpu": 1, "memory_mib": 2048}, {"cpu": 1, "memory_mib": 2048}),
        on_opensandbox({"cpu": 1}, {"cpu": 4, "memory_mib": 8192}, requested={"cpu": 1.0}),
    ],
    "opensandbox_retried": [on_opensandbox({"cpu": 1}, requested={"cpu": 1.0})],
    "opensandbox_exhausted": [on_opensandbox({"cpu": 1}, requested={"cpu": 1.0}, sandbox_id=None, failed=True)],
    "compose": [Wish(**WEB), Wish(**DB, sandbox_id="fake-2")],
    "compose_failing": [Wish(**WEB), Wish(**DB, sandbox_id=None, failed=True)],
    "compose_volume": [
        Wish(requested={"cpu": 0.5}, collection="compose-*", service="web", sandbox_id="fake-3"),
        Wish(),
        Wish(requested={"cpu": 0.5}, sandbox_id="fake-2"),
    ],
    "compose_units": [
        Wish(requested={"cpu": 0.5, "memory_mib": 1025}, collection="compose-*", service="main"),
        Wish(requested={"cpu": 0.0}, collection="compose-*", service="unlimited", sandbox_id="fake-2"),
        Wish(collection="compose-*", service="bare", sandbox_id="fake-3"),
    ],
    "compose_refused": [],
    "rollout": [
        wish
        for rollout_id in ("7-0", "7-1")
        for wish in (
            on_opensandbox({"cpu": 1}, requested={"cpu": 1.0}, rollout_id=rollout_id),
            Wish(rollout_id=rollout_id),
            Wish(rollout_id=rollout_id),
        )
    ],
    "other_process": [Wish(rollout_id="8-0"), Wish()],
}


@dataclass(frozen=True)
class World:
    setup: TelemetrySetup
    off: Any
    on: Any
    scope: str

    @property
    def run_id(self):
        return "run-1" if self.setup.host else None


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    """Run every scenario with Gym's switches off and on, each in one process."""
    python, setup = WORLDS[request.param]
    with osb_in_thread() as osb, OtlpSink() as sink:
        off, on = (
            run_scenarios(*WISHES, setup=setup, sink=sink, osb=osb, python=python, environment=environment)
            for environment in ({}, ON)
        )
        yield World(setup, off, on, osb.url)
        assert not sink.violations


def spans(outcome, name):
    return [span for span in outcome.spans() if span.name == name]


def seen(attributes, world):
    """Attributes without what is checked elsewhere, and with generated ids masked."""
    left_out = {REQUEST_ID, RUN_ID}
    told = {key: masked(value) if isinstance(value, str) else value for key, value in attributes.items()}
    if told.get(names.NEMO_GYM_SANDBOX_SCOPE) == world.scope:
        told[names.NEMO_GYM_SANDBOX_SCOPE] = "the control plane"
    return {key: value for key, value in told.items() if key not in left_out}


def comparable(request, start, failed):
    return json.dumps([request, start, failed], sort_keys=True)


@pytest.mark.parametrize("scenario", WISHES)
def test_each_wish_has_exactly_one_request_and_one_start_that_are_joined(world, scenario):
    outcome = world.on.outcomes[scenario]
    requests = {span.attributes[REQUEST_ID]: span for span in spans(outcome, REQUEST)}
    starts = {span.attributes[REQUEST_ID]: span for span in spans(outcome, START)}
    assert len(requests) == len(spans(outcome, REQUEST))
    assert len(starts) == len(spans(outcome, START))
    assert set(starts) <= set(requests)
    told = Counter()
    for request_id, request in requests.items():
        start = starts.get(request_id)
        started = None if start is None else seen(start.attributes, world)
        told[comparable(seen(request.attributes, world), started, start is not None and start.is_error)] += 1
    assert told == Counter(comparable(wish.request(), wish.start(), wish.failed) for wish in WISHES[scenario])


@pytest.mark.parametrize("scenario", WISHES)
def test_the_run_is_on_every_record_where_it_is_known(world, scenario):
    for span in world.on.outcomes[scenario].spans():
        if span.name != ROLLOUT:
            assert span.attributes.get(RUN_ID) == world.run_id


@pytest.mark.parametrize("scenario", WISHES)
def test_the_start_is_gyms_own_where_it_makes_one(world, scenario):
    stock = "nemo.lens.helpers" if world.setup.groups and scenario != "direct" else "sandgauge_emitter"
    assert {span.scope for span in spans(world.on.outcomes[scenario], START)} <= {stock}


@pytest.mark.parametrize("scenario", WISHES)
def test_the_caller_sees_what_it_sees_without_the_emitter(world, scenario):
    off, on = (json.loads(masked(json.dumps(run.outcomes[scenario].seen))) for run in (world.off, world.on))
    assert on == off


def without_ours(tree):
    """A tree as Gym made it: without requests, starts of the emitter's own, and the attributes that it added."""
    ours = (REQUEST_ID, RUN_ID, names.NEMO_GYM_SANDBOX_SCOPE, f"{SANDBOX}submitted.")
    added = ours if tree.name == ROLLOUT else (*ours, ROLLOUT_ID)
    kept = tuple((key, value) for key, value in tree.attributes if not key.startswith(added))
    return type(tree)(
        **{name: getattr(tree, name) for name in ("name", "scope", "kind", "status", "exceptions")},
        attributes=kept,
        children=tuple(sorted(stock_only(tree.children))),
    )


def stock_only(trees):
    return [without_ours(tree) for tree in trees if tree.scope != "sandgauge_emitter"]


@pytest.mark.parametrize("scenario", WISHES)
def test_gyms_own_spans_are_all_still_there_and_no_more(world, scenario):
    off, on = (span_trees(run.outcomes[scenario].otlp_json()) for run in (world.off, world.on))
    assert sorted(stock_only(on)) == off
    assert bool(off) == bool(world.setup.groups) or scenario in ("direct", "compose_refused")


@pytest.mark.parametrize("scenario", WISHES)
def test_commands_and_stops_are_joined_to_the_request_of_their_sandbox(world, scenario):
    outcome = world.on.outcomes[scenario]
    started = {(span.trace_id, span.attributes.get(SANDBOX_ID)): span.attributes for span in spans(outcome, START)}
    roots = {
        span.attributes.get(SANDBOX_ID): span.attributes for span in spans(outcome, START) if not span.parent_span_id
    }
    unjoined = 0
    for span in spans(outcome, EXEC) + spans(outcome, STOP):
        start = started.get((span.trace_id, span.attributes[SANDBOX_ID])) or roots[span.attributes[SANDBOX_ID]]
        if REQUEST_ID not in span.attributes:
            unjoined += 1
        elif scenario != "rollout":  # its fake sandboxes all have one id
            assert span.attributes[REQUEST_ID] == start[REQUEST_ID]
        assert span.attributes.get(ROLLOUT_ID) == start.get(ROLLOUT_ID)
    borrowers = 2  # one command and one stop of a sandbox that the borrowing process might not have made
    assert unjoined == (borrowers if scenario == "borrowed" and world.setup.groups else 0)


@pytest.mark.parametrize("scenario", ["rollout", "other_process"])
def test_requests_and_starts_stand_side_by_side_below_their_rollout(world, scenario):
    outcome = world.on.outcomes[scenario]
    rollouts = {span.span_id: span.attributes[ROLLOUT_ID] for span in spans(outcome, ROLLOUT)}
    for span in spans(outcome, REQUEST) + spans(outcome, START):
        if world.setup.groups:
            assert span.attributes.get(ROLLOUT_ID, rollouts[span.parent_span_id]) == rollouts[span.parent_span_id]
        else:
            assert not span.parent_span_id


@pytest.mark.parametrize("scenario", ["compose", "compose_failing", "compose_volume", "compose_units"])
def test_a_collection_asks_for_all_services_before_anything_starts(world, scenario):
    outcome = world.on.outcomes[scenario]
    services = [span for span in spans(outcome, REQUEST) if names.NEMO_GYM_SANDBOX_SERVICE_NAME in span.attributes]
    assert max(span.end_ns for span in services) <= min(span.start_ns for span in spans(outcome, START))
    assert len({span.attributes[names.NEMO_GYM_SANDBOX_COLLECTION_ID] for span in services}) == 1


def test_a_request_comes_before_its_start(world):
    for scenario in WISHES:
        outcome = world.on.outcomes[scenario]
        requests = {span.attributes[REQUEST_ID]: span for span in spans(outcome, REQUEST)}
        for start in spans(outcome, START):
            assert requests[start.attributes[REQUEST_ID]].end_ns <= start.start_ns


def test_nothing_is_said_and_nothing_arrives_beside_the_scenarios(world):
    # OpenTelemetry would warn of an attribute's type, for example.
    assert not re.findall(r"^[A-Z]+ (?:sandgauge|opentelemetry).*", world.on.stderr, re.MULTILINE)
    assert not world.on.stray_spans
    assert not [
        span for outcome in world.off.outcomes.values() for span in outcome.spans() if "sandgauge" in span.scope
    ]
