"""Lives of simulated sandboxes, all at once below one poller, each told step by step beside what must be recorded.

The poller runs as in a company's network: the environment names a proxy, which nothing may use.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, DeploymentSettings, Route, Runtime, SimulatedNode
from sandgauge_schemas import names
from support.canary import Canary
from support.lives import Life
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_thread

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lifecycle"
JSON = "application/json"
KEY = "k3y-of-the-control-plane"
INTERVAL_S = 1.0
GRACE_S = 4.0
NO_POD = '{"code":"KUBERNETES::SANDBOX_NOT_FOUND","message":"No pod found for sandbox"}'
SECONDS = 1_000_000_000


@dataclass
class World:
    """Three control planes, one poller that reads directly on the first two and by the proxy on the last."""

    osbs: dict[str, SimulatedOsb]
    poller: RunningPoller
    sink: OtlpSink

    def docker(self, **spec):
        return self._life("docker", spec)

    def kubernetes(self, **spec):
        return self._life("kubernetes", {"node": "node-1", **spec})

    def proxied(self, **spec):
        return self._life("proxied", spec)

    def _life(self, deployment, spec):
        return Life(self.osbs[deployment], self.poller.endpoint, self.sink, **spec)


STORIES: dict[str, Callable[[World], None]] = {}


def story(tell: Callable[[World], None]) -> Callable[[World], None]:
    """Tell this one beside all others; its assertions are the test of its name."""
    STORIES[tell.__name__] = tell
    return tell


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    nodes = (SimulatedNode(name="node-1"), SimulatedNode(name="node-2"))
    settings = {
        "docker": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05),
        "kubernetes": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05, runtime=Runtime.KUBERNETES, nodes=nodes),
        "proxied": DeploymentSettings(api_key=KEY, metrics_delay_s=0.05, proxy_needs_key=True),
    }
    with (
        OtlpSink() as sink,
        osb_in_thread(settings["docker"]) as docker,
        osb_in_thread(settings["kubernetes"]) as kubernetes,
        osb_in_thread(settings["proxied"]) as proxied,
        Canary() as canary,
        pytest.MonkeyPatch.context() as environment,
    ):
        osbs = {"docker": docker, "kubernetes": kubernetes, "proxied": proxied}
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment.setenv(name, canary.url)
            environment.setenv(name.lower(), canary.url)
        environment.setenv("NO_PROXY", "10.0.0.0/8,.internal")
        poller = RunningPoller(
            tmp_path_factory.mktemp("lifecycle"),
            {
                "deployments": [
                    {
                        "name": name,
                        "endpoint": osb.url,
                        "api_key": KEY,
                        "use_server_proxy": "true" if name == "proxied" else "false",
                        "max_requests_per_second": 200,
                    }
                    for name, osb in osbs.items()
                ],
                "sampling": {"collection_interval": f"{INTERVAL_S}s", "min_interval": "500ms"},
                "allocation": {"refresh_interval": "1s"},
                "tracking": {"orphan_grace": f"{GRACE_S}s", "summary_delay": "3s"},
                "export": {"endpoint": sink.endpoint},
            },
        )
        with poller:
            yield World(osbs, poller, sink)
            assert canary.calls == 0
        assert poller.complaints() == []
        assert sink.violations == []


@pytest.fixture(scope="module")
def told(world):
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(tell, world) for name, tell in STORIES.items()}


def end_of(summary):
    return summary[names.NEMO_GYM_SANDBOX_END_REASON]


def leaked(summary):
    return summary[names.NEMO_GYM_SANDBOX_LEAKED]


@story
def a_paused_container_is_not_read_until_it_is_resumed(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.pause(life.id)
    life.wait_for("paused", 1)
    calls = life.osb.count(Route.EXECD, life.id)
    life.wait_for("paused", 2)
    assert life.osb.count(Route.EXECD, life.id) == calls
    life.osb.resume(life.id)
    life.wait_for(None, 2)
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    assert (end_of(summary), leaked(summary)) == ("stopped", False)
    assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 0


@story
def a_resumed_pod_may_be_on_another_node(world):
    life = world.kubernetes().start()
    life.wait(lambda: len(life.allocations()) == 1)
    life.wait_for(None, 1)
    life.osb.pause(life.id)
    life.wait_for("paused", 1)
    life.osb.resume(life.id, node="node-2")
    life.wait(lambda: life.allocations()[-1].get(names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID) == "node-2")
    life.wait_for(None, 1)
    life.osb.delete(life.id)
    life.stop()
    assert life.allocations()[0][names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID] == "node-1"
    assert life.summary()[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 1


@story
def a_record_without_a_pod_is_no_end(world):
    life = world.kubernetes().start()
    life.wait(lambda: len(life.allocations()) == 1)
    life.osb.fault(Route.INSPECT, life.id, status=404, body=NO_POD, content_type=JSON)
    life.wait(lambda: len(life.allocations()) == 2)
    lost, known = life.allocations()[1], life.allocations()[0]
    assert lost[names.ERROR_TYPE] == "not_found"
    assert lost[names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID] == known[names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID]
    # Twice more than five seconds apart: the word of inspect is never that of GET sandbox.
    life.wait_for_status_questions(2)
    life.osb.clear_faults(Route.INSPECT, life.id)
    life.wait(lambda: len(life.allocations()) == 3)
    life.wait_for(None, 1)
    assert life.summaries() == []
    life.osb.delete(life.id)
    life.stop()
    assert end_of(life.summary()) == "stopped"


@story
def stopping_is_no_end_before_the_record_is_gone(world):
    life = world.kubernetes().start()
    life.wait_for(None, 1)
    life.osb.change(life.id, state="Stopping", execd_alive=False)
    life.wait_for_status_questions(2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    assert end_of(life.summary()) == "gone"


@story
def a_restart_under_the_same_id_is_one_sandbox_and_its_readings_go_on(world):
    answers = [json.loads(line)["answer"] for line in (FIXTURES / "oom-restart.jsonl").read_text().splitlines()]
    life = world.kubernetes(limits={"cpu": "1", "memory": "1Gi"})
    for number, answer in enumerate(answers):
        times = None if answer is answers[-1] else 1
        body = json.dumps(answer)
        life.osb.fault(Route.EXECD, life.id, status=200, body=body, content_type=JSON, times=times)
        if number == 0:
            life.start(**{names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 2.0})
        if number == 4:
            life.osb.change(life.id, restarts=1, oom_killed=True)
        life.osb.wait_for(number + 1, Route.EXECD, life.id, timeout_s=30)
    life.wait(lambda: len(life.samples()) >= len(answers))
    used = [span.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB] for span in life.samples()]
    assert used[: len(answers)] == [answer["mem_used_mib"] for answer in answers]
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    statistics = {
        word: summary[f"{names.PREFIX_NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB}.{word}"]
        for word in ("min", "max", "last")
    }
    assert statistics == {"min": 41, "max": 1010, "last": 60}
    assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 1
    assert summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is True


@story
def an_expiry_in_the_past_ends_nothing_that_still_runs(world):
    record = json.loads((FIXTURES / "expires-in-past.json").read_text())
    life = world.docker()
    body = json.dumps({**record, "id": life.id})
    life.osb.fault(Route.GET, life.id, status=200, body=body, content_type=JSON)
    life.start()
    life.osb.wait_for(1, Route.GET, life.id, timeout_s=30)
    life.wait_for(None, 3)
    assert life.summaries() == []
    life.osb.delete(life.id)
    life.osb.clear_faults(Route.GET, life.id)
    summary = life.summary()
    assert end_of(summary) == "expired"
    assert leaked(summary) is False


@story
def what_expires_is_told_as_expired(world):
    life = world.docker(timeout_s=6.0).start()
    life.wait_for(None, 1)
    assert end_of(life.summary()) == "expired"


@story
def a_renewed_sandbox_lives_on(world):
    life = world.docker(timeout_s=8.0).start()
    life.osb.wait_for(1, Route.GET, life.id, timeout_s=30)
    life.osb.change(life.id, expires_at=4_000_000_000.0)
    # The question just after the first expiry learns of the second.
    life.wait_for_status_questions(1)
    life.wait_for(None, 2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    assert end_of(life.summary()) == "gone"


@story
def a_deletion_without_a_stop_span_is_found_out(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.delete(life.id)
    summary = life.summary()
    assert (end_of(summary), leaked(summary)) == ("gone", False)


@story
def a_killed_daemon_is_no_end(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.kill_execd(life.id)
    life.wait_for("connection", 3)
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    assert end_of(summary) == "stopped"
    assert summary[names.NEMO_GYM_SANDBOX_READINGS_MISSED] >= 3


@story
def a_halted_daemon_costs_two_seconds_a_reading_and_comes_back(world):
    life = world.proxied().start()
    life.wait_for(None, 1)
    life.osb.stop_execd(life.id)
    life.wait_for("timeout", 2)
    life.osb.continue_execd(life.id)
    life.wait_for(None, 1)
    took = [(span.end_ns - span.start_ns) / SECONDS for span in life.samples() if names.ERROR_TYPE in span.attributes]
    assert took == pytest.approx([2.0] * len(took), abs=0.2)


@story
def an_entrypoint_killed_for_memory_has_failed(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.end(life.id, exit_code=137, oom_killed=True)
    summary = life.summary()
    assert (end_of(summary), summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED]) == ("failed", True)


@story
def an_entrypoint_that_ends_well_is_terminated(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.end(life.id)
    summary = life.summary()
    assert (end_of(summary), summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED]) == ("terminated", False)


@story
def what_failed_and_runs_again_is_read_again(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.osb.change(life.id, state="Failed", exit_code=1)
    assert end_of(life.summary()) == "failed"
    life.osb.change(life.id, state="Running", exit_code=0)
    life.wait_for(None, 2)
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary(2)
    assert (end_of(summary), leaked(summary)) == ("stopped", False)


@story
def a_failed_deletion_ends_nothing(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.stop(failed=True)
    life.wait_for(None, int(GRACE_S / INTERVAL_S) + 2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    assert (end_of(summary), leaked(summary)) == ("stopped", False)


@story
def what_outlives_its_stop_has_leaked_and_is_summed_up_again(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.stop()
    first = life.summary()
    assert (end_of(first), leaked(first)) == ("stopped", False)
    life.wait_for(None, 2)
    life.osb.delete(life.id)
    second = life.summary(2)
    assert (end_of(second), leaked(second)) == ("gone", True)
    assert second[names.NEMO_GYM_SANDBOX_READINGS_COUNT] > first[names.NEMO_GYM_SANDBOX_READINGS_COUNT]
    life.wait(lambda: cpu_counts(world, life).count(None) == 2)
    assert cpu_counts(world, life)[-1] is None


@story
def what_outlives_its_rollout_has_leaked(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.finish_rollout()
    life.wait_for_status_questions(1)
    life.wait_for(None, int(GRACE_S / INTERVAL_S) + 2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    assert (end_of(summary), leaked(summary)) == ("stopped", True)
    assert summary[names.NEMO_GYM_ROLLOUT_ID] == f"rollout-of-{life.id}"


@story
def what_stops_soon_after_its_rollout_has_not_leaked(world):
    life = world.docker().start()
    life.wait_for(None, 1)
    life.finish_rollout()
    life.osb.delete(life.id)
    life.stop()
    assert leaked(life.summary()) is False


@story
def a_daemon_that_does_not_listen_yet_is_waited_for(world):
    connection_failed, could_not_connect, *_ = json.loads((FIXTURES / "start-race.json").read_text())
    life = world.proxied()
    fault = {"status": 502, "content_type": JSON, "times": 1}
    life.osb.fault(Route.PROXY, life.id, body=json.dumps(connection_failed["body"]), **fault)
    life.start()
    life.osb.wait_for(1, Route.PROXY, life.id, timeout_s=30)
    life.osb.fault(Route.PROXY, life.id, body=json.dumps(could_not_connect["body"]), **fault)
    life.wait_for(None, 1)
    assert life.errors()[:3] == ["http_error", "http_error", None]
    life.osb.delete(life.id)
    life.stop()
    summary = life.summary()
    assert end_of(summary) == "stopped"
    # The two, and what the back-off after the second left out.
    assert 2 <= summary[names.NEMO_GYM_SANDBOX_READINGS_MISSED] <= 4


@story
def a_refusal_names_who_refused(world):
    *_, keyless, tokenless, _ = json.loads((FIXTURES / "start-race.json").read_text())
    for deployment, life in (("docker", world.docker), ("proxied", world.proxied)):
        refused = life(environment={"EXECD_ACCESS_TOKEN": "of-the-user"}).start()
        refused.wait_for("unauthorized", 1)
        assert any(f"{deployment}: the daemon of a sandbox refused" in one for one in messages(world))
    by_the_server = world.proxied()
    body = json.dumps(keyless["body"])
    by_the_server.osb.fault(Route.PROXY, by_the_server.id, status=401, body=body, content_type=JSON)
    by_the_server.start()
    by_the_server.wait_for("unauthorized", 1)
    assert any("proxied: the control plane's proxy refused a read" in one for one in messages(world))
    assert not any("of-the-user" in one for one in messages(world))
    assert "X-EXECD-ACCESS-TOKEN" in tokenless["body"]["error"]


def cpu_counts(world, life):
    """Return the values of one of its series in order of time; None is a closing point."""
    points = sorted(world.sink.points(names.METRIC_GYM_SANDBOX_CPU_COUNT), key=lambda point: point.time_ns)
    return [point.value for point in points if point.attributes[names.NEMO_GYM_SANDBOX_ID] == life.id]


def messages(world):
    return [entry["message"] for entry in world.poller.log()]


@pytest.mark.parametrize("name", STORIES)
def test_story(told, name):
    told[name].result(timeout=120)


def test_the_key_goes_to_the_control_plane_alone(world, told):
    for one in told.values():
        one.exception(timeout=120)
    header = API_KEY_HEADER.lower()
    keys = {True: set(), False: set()}
    for request in (request for osb in world.osbs.values() for request in osb.requests()):
        keys[request.route == Route.EXECD].add(request.headers.get(header))
    assert keys == {True: {None}, False: {KEY}}
