"""Control planes that fail in every way at once, one poller: nothing escapes, each failure has its name, none grows."""

import time

import pytest

from sandgauge_schemas import names
from support.fault_matrix import CONTROL_PLANE_FAULTS, ROUTES, break_control_plane, deployments
from support.feed import feed, start_span
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.sandbox_records import SAMPLE, SandboxRecords

pytestmark = pytest.mark.load

ALLOCATION = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION
STATUS = names.NEMO_GYM_SANDBOX_RESOURCE_STATUS
LIMITS = {"cpu": "500m", "memory": "128Mi"}
CASES = list(CONTROL_PLANE_FAULTS)
HEALTHY = "in-health"
KNOWN, NEWCOMERS = 6, 2
MAX_REQUESTS_PER_SECOND = 20
WATCHED_S = 4.0
SETTLED_S = 5.0
"""After so long all that fails is in its back-off, and waits for its turn."""


class Scene:
    """What was seen of each deployment, in health and out of it; times are those of the journals."""

    def __init__(self, sink, osbs):
        self.sink = sink
        self.readings = SandboxRecords(sink).of
        self.osbs = osbs
        self.healthy_from = self.broken_from = self.cleared_at = 0.0
        self.known = {}
        self.newcomers = {}

    def asked(self, name, begin, end):
        """Return when the control plane was asked by its own routes, in order."""
        return sorted(one.at for route in ROUTES for one in self.osbs[name].requests(route) if begin <= one.at < end)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with OtlpSink() as sink, deployments([*CASES, HEALTHY]) as osbs:
        poller = RunningPoller(
            tmp_path_factory.mktemp("control-plane-faults"),
            {
                "deployments": [
                    {
                        "name": name,
                        "endpoint": osb.url,
                        "use_server_proxy": False,
                        "max_requests_per_second": MAX_REQUESTS_PER_SECOND,
                    }
                    for name, osb in osbs.items()
                ],
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
                "allocation": {"refresh_interval": "1s"},
                "export": {"endpoint": sink.endpoint},
            },
        )
        scene = Scene(sink, osbs)
        with poller:
            _play(scene, poller)
        assert poller.complaints() == []
        assert sink.violations == []
        yield scene


def _play(scene, poller):
    for name in scene.osbs:
        scene.known[name] = _start(scene, poller, name, KNOWN)
    everyone = {id_ for ids in scene.known.values() for id_ in ids}
    scene.sink.wait_for(lambda _: all(len(scene.readings(id_)) >= 2 for id_ in everyone))
    scene.healthy_from = time.monotonic()
    time.sleep(WATCHED_S)  # what is counted is what happens in this time
    scene.broken_from = time.monotonic()
    for name in CASES:
        break_control_plane(scene.osbs[name], name)
    for name in scene.osbs:
        scene.newcomers[name] = _start(scene, poller, name, NEWCOMERS)
    time.sleep(SETTLED_S + WATCHED_S)
    scene.cleared_at = time.monotonic()
    for name in CASES:
        scene.osbs[name].clear_faults()
    scene.sink.wait_for(lambda _: all(_good(scene, id_) for ids in scene.newcomers.values() for id_ in ids))
    for name in scene.osbs:
        scene.osbs[name].wait_for(1, ROUTES[0])


def _start(scene, poller, name, count):
    osb = scene.osbs[name]
    ids = [osb.create(limits=LIMITS) for _ in range(count)]
    scope = {names.NEMO_GYM_SANDBOX_SCOPE: osb.url}
    feed(poller.endpoint, *(start_span(id_, attributes=scope) for id_ in ids))
    return ids


def _good(scene, sandbox_id):
    return all(
        any(span.attributes[STATUS] == "ok" for span in scene.readings(sandbox_id, name))
        for name in (SAMPLE, ALLOCATION)
    )


@pytest.mark.parametrize("name", CASES)
def test_what_could_not_be_asked_is_unavailable_with_its_error_type(scene, name):
    error_type = CONTROL_PLANE_FAULTS[name][1]
    for sandbox_id in scene.newcomers[name]:
        for kind in (SAMPLE, ALLOCATION):
            failed = [s for s in scene.readings(sandbox_id, kind) if s.attributes[STATUS] == "unavailable"]
            assert {span.attributes[names.ERROR_TYPE] for span in failed} == {error_type}


@pytest.mark.parametrize("name", CASES)
def test_the_pollers_own_metrics_name_it_too(scene, name):
    reads = {}
    for point in scene.sink.points(names.METRIC_SANDGAUGE_POLLER_READS):
        if point.attributes[names.DEPLOYMENT] == name:
            reads[point.attributes[names.KIND], point.attributes[names.OUTCOME]] = point.value
    for kind in ("sample", "allocation", "status"):
        assert {outcome for found, outcome in reads if found == kind} == {"ok", CONTROL_PLANE_FAULTS[name][1]}


@pytest.mark.parametrize("name", CASES)
def test_sandboxes_that_are_reached_directly_are_read_on(scene, name):
    for sandbox_id in scene.known[name]:
        readings = scene.readings(sandbox_id)
        assert {span.attributes[STATUS] for span in readings} == {"ok"}
        assert len(readings) >= (SETTLED_S + 2 * WATCHED_S) * 0.8


@pytest.mark.parametrize("name", CASES)
def test_a_known_allocation_stays_in_force_while_nothing_is_said_of_it(scene, name):
    expected = 1 if CONTROL_PLANE_FAULTS[name][1] != "unrecognized_format" else 3
    for sandbox_id in scene.known[name]:
        assert len(scene.readings(sandbox_id, ALLOCATION)) <= expected


@pytest.mark.parametrize("name", CASES)
def test_failures_never_add_to_its_load(scene, name):
    # A refresh each second, as in health; one question an interval of all that wait for a word; the newcomers' readings
    # in their back-off; and what falls across the ends of the times watched.
    in_health = scene.asked(name, scene.healthy_from, scene.healthy_from + WATCHED_S)
    steady = scene.asked(name, scene.broken_from + SETTLED_S, scene.broken_from + SETTLED_S + WATCHED_S)
    assert len(in_health) == pytest.approx(KNOWN * WATCHED_S, abs=KNOWN)
    assert 0 < len(steady) <= (KNOWN + NEWCOMERS) * WATCHED_S + WATCHED_S + 2 * NEWCOMERS + KNOWN


@pytest.mark.parametrize("name", CASES)
def test_no_second_sees_more_than_its_rate(scene, name):
    times = scene.asked(name, 0, time.monotonic())
    # Starts are spaced by the poller; a busy machine may let two seconds' arrivals touch.
    assert max(sum(begin <= at < begin + 0.9 for at in times) for begin in times) <= MAX_REQUESTS_PER_SECOND + 2


@pytest.mark.parametrize("name", CASES)
def test_all_is_well_within_an_interval_of_its_return(scene, name):
    wall = time.time_ns() - round((time.monotonic() - scene.cleared_at) * 1e9)
    for sandbox_id in scene.newcomers[name]:
        good = [span.start_ns for span in scene.readings(sandbox_id) if span.attributes[STATUS] == "ok"]
        # An interval, the two seconds of a question that was hanging, and a busy machine.
        assert min(good) - wall < (1.0 + 2.0 + 1.0) * 1e9


def test_the_one_in_health_notices_nothing(scene):
    for sandbox_id in scene.known[HEALTHY] + scene.newcomers[HEALTHY]:
        for kind in (SAMPLE, ALLOCATION):
            assert {span.attributes[STATUS] for span in scene.readings(sandbox_id, kind)} == {"ok"}


def test_no_sandbox_is_given_up(scene):
    assert scene.sink.spans(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY) == []
