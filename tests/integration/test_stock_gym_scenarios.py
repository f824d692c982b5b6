"""What stock Gym itself emits, in every scenario and telemetry set-up: the base line without Sandgauge's emitter."""

import json

import pytest

from sandgauge_demo.deployment import Route
from support.otlp_json import captured
from support.otlp_sink import OtlpSink
from support.scenario_run import GROUPS_ENABLED, LENS_ABSENT, LENS_AND_HOST, run_scenarios
from support.simulated_osb import osb_in_thread
from support.span_trees import SpanTree, masked, span_trees
from support.stock_gym import PYTHONS, stock_gym

pytestmark = pytest.mark.integration

SETUPS = {"lens-absent": LENS_ABSENT, "lens-and-host": LENS_AND_HOST, "groups-enabled": GROUPS_ENABLED}
REFUSED = "SandboxCreateError('no capacity')"

SEEN = {
    "fake_ok": {"same": True, "return_code": 0},
    "fake_fail": {"raised": REFUSED},
    "cancelled_create": {"cancelled": True},
    "start_again": {"raised": REFUSED},
    "refused_start": {
        "raised": [
            "ValueError('Sandbox.start() requires a SandboxSpec')",
            "RuntimeError('Sandbox is already started')",
            "RuntimeError('Sandbox has been stopped')",
        ]
    },
    "borrowed": {},
    "direct": {"sandbox_id": "fake-1"},
    "opensandbox": {"ids": ["*"]},
    "opensandbox_limits": {"ids": ["*", "*"]},
    "opensandbox_defaults": {"ids": ["*", "*", "*"]},
    "opensandbox_retried": {"ids": ["*"]},
    "opensandbox_exhausted": {"raised": "SandboxApiException('Create sandbox failed: HTTP 503')"},
    "compose": {"project": "compose-*", "ids": {"web": "fake-1", "db": "fake-2"}},
    "compose_failing": {"project": "compose-*", "raised": REFUSED},
    "compose_volume": {"project": "compose-*", "ids": {"web": "fake-3"}},
    "rollout": {"ids": {"7-0": "*", "7-1": "*"}},
    "other_process": {
        "with_prefix": {"path": "/verify", "rollout_id": "8-0"},
        "without": {"path": "/verify", "rollout_id": None},
    },
}


def on(provider, sandbox_id=None, **more):
    identified = {} if sandbox_id is None else {"nemo.gym.sandbox.id": sandbox_id}
    return tuple(sorted({"nemo.gym.sandbox.provider": provider, **identified, **more}.items()))


def start(sandbox_id, provider="fake"):
    return SpanTree("gym.sandbox.start", on(provider, sandbox_id))


def stop(sandbox_id, provider="fake"):
    return SpanTree("gym.sandbox.stop", on(provider, sandbox_id))


def command(sandbox_id):
    return SpanTree("gym.sandbox.exec", on("fake", sandbox_id, **{"nemo.gym.sandbox.return_code": "0"}))


def failed_start(provider, error, message):
    return SpanTree("gym.sandbox.start", on(provider), status=(2, message), exceptions=((error, message),))


def remote_rollout(rollout_id):
    attributes = (("nemo.gym.rollout.id", rollout_id), ("nemo.gym.server.name", "swe_agent"))
    return SpanTree("gym.rollout", attributes, children=(start("fake-1"), stop("fake-1")))


NO_CAPACITY = failed_start("fake", "nemo_gym.sandbox.providers.base.SandboxCreateError", "no capacity")
ON_OPENSANDBOX = [start("*", "opensandbox"), stop("*", "opensandbox")]
CAPTURED = (
    "fake_ok",
    "fake_fail",
    "cancelled_create",
    "borrowed",
    "opensandbox",
    "opensandbox_defaults",
    "compose",
    "rollout",
)
WRITTEN = {
    "start_again": [NO_CAPACITY, start("fake-1"), stop("fake-1")],
    "refused_start": [start("fake-1"), stop("fake-1")],
    "direct": [],
    "opensandbox_limits": ON_OPENSANDBOX * 2,
    "opensandbox_retried": ON_OPENSANDBOX,
    "opensandbox_exhausted": [
        failed_start(
            "opensandbox",
            "opensandbox.exceptions.sandbox.SandboxApiException",
            "Create sandbox failed: HTTP 503 | request_id=*",
        )
    ],
    "compose_failing": [start("fake-1"), NO_CAPACITY, stop("fake-1")],
    "compose_volume": [
        *(start("fake-1"), command("fake-1"), command("fake-1"), stop("fake-1")),
        *(start("fake-2"), command("fake-2"), stop("fake-2")),
        *(start("fake-3"), command("fake-3"), command("fake-3"), command("fake-3"), stop("fake-3")),
    ],
    "other_process": [remote_rollout("8-0"), remote_rollout("8-1")],
}
EXPECTED = {case: span_trees(captured(case)) for case in CAPTURED} | {
    case: sorted(trees) for case, trees in WRITTEN.items()
}


@pytest.fixture(
    scope="module",
    params=[(python, setup) for python in PYTHONS for setup in SETUPS],
    ids="-".join,
)
def world(request):
    """Run every scenario once in one process."""
    python, setup = request.param
    with osb_in_thread() as osb, OtlpSink() as sink:
        run = run_scenarios(*SEEN, setup=SETUPS[setup], sink=sink, osb=osb, python=python)
        yield SETUPS[setup], run, osb
        assert not sink.violations


@pytest.mark.parametrize("scenario", SEEN)
def test_the_caller_sees_the_same_whatever_the_telemetry(world, scenario):
    _, run, _ = world
    assert json.loads(masked(json.dumps(run.outcomes[scenario].seen))) == SEEN[scenario]


@pytest.mark.parametrize("scenario", SEEN)
def test_stock_spans_are_those_captured_where_the_groups_are_enabled_and_else_none(world, scenario):
    setup, run, _ = world
    assert span_trees(run.outcomes[scenario].otlp_json()) == (EXPECTED[scenario] if setup.groups else [])


def test_start_and_stop_name_the_sandbox_that_the_control_plane_made(world):
    setup, run, _ = world
    for scenario in ("opensandbox", "opensandbox_limits", "opensandbox_defaults", "opensandbox_retried"):
        outcome = run.outcomes[scenario]
        for name in ("gym.sandbox.start", "gym.sandbox.stop"):
            ids = [span.attributes["nemo.gym.sandbox.id"] for span in outcome.spans() if span.name == name]
            assert ids == (outcome.seen["ids"] if setup.groups else [])


def test_the_host_exports_in_every_process_and_nothing_arrives_beside_the_scenarios(world):
    _, run, _ = world
    assert len(run.host_spans) == 2
    assert not run.stray_spans
    assert {span.resource["nemo.run.id"] for span in run.host_spans} == {"run-1"}


def test_gym_tries_three_times_and_deletes_every_sandbox(world):
    _, _, osb = world
    created, refused = 9, 2 + 3
    assert osb.count(Route.CREATE) == created + refused
    assert osb.count(Route.DELETE) == created


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lens", [True, False])
def test_the_environment_has_what_users_install_and_nemo_lens_only_where_wanted(python, lens):
    program = (
        "import importlib.metadata as m, json, platform;"
        "print(json.dumps([platform.python_version(), {d.name: d.version for d in m.distributions()}]))"
    )
    version, installed = json.loads(stock_gym(python, lens=lens).run("-c", program).stdout)
    assert version.startswith(f"{python}.")
    assert installed["nemo-gym"] == "0.7.0"
    assert installed["opensandbox"] == "1.1.1"
    assert installed.get("nemo-lens") == ("0.1.0" if lens else None)
    assert "sandgauge" in installed


@pytest.mark.parametrize("auto_instrumented", [True, False])
def test_code_of_the_test_runs_before_gym_in_every_process_with_auto_instrumentation_or_without(auto_instrumented):
    loader = "opentelemetry.instrumentation.auto_instrumentation"
    first = f"import sys; print('gym', 'nemo_gym' in sys.modules, 'auto', '{loader}' in sys.modules, file=sys.stderr)"
    with osb_in_thread() as osb, OtlpSink() as sink:
        run = run_scenarios(
            "other_process", setup=LENS_ABSENT, sink=sink, osb=osb, first=first, auto_instrumented=auto_instrumented
        )
    assert run.stderr.count(f"gym False auto {auto_instrumented}\n") == 2
