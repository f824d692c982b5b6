"""Lives of simulated sandboxes below one poller: what befalls them, step by step beside what must be recorded."""

import json
from pathlib import Path

import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, Route
from sandgauge_schemas import names
from support.lives import end_of, leaked
from support.stories import KEY, Stories

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lifecycle"
EXECD = FIXTURES.with_name("execd")
JSON = "application/json"
SCOPES = (
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE,
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE,
    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE,
)
NO_POD = '{"code":"KUBERNETES::SANDBOX_NOT_FOUND","message":"No pod found for sandbox"}'
SECONDS = 1_000_000_000
STORIES = Stories()


@STORIES.tell
def a_paused_container_is_not_read_until_it_is_resumed(world):
    life = world.docker().begin()
    life.osb.pause(life.id)
    life.wait_for("paused", 1)
    calls = life.osb.count(Route.EXECD, life.id)
    life.wait_for("paused", 2)
    assert life.osb.count(Route.EXECD, life.id) == calls
    life.osb.resume(life.id)
    life.wait_for(None, 2)
    summary = life.end()
    assert (end_of(summary), leaked(summary)) == ("stopped", False)
    assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 0


@STORIES.tell
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


@STORIES.tell
def a_record_without_a_pod_is_no_end(world):
    life = world.kubernetes().start()
    life.wait(lambda: len(life.allocations()) == 1)
    life.osb.fault(Route.INSPECT, life.id, status=404, body=NO_POD, content_type=JSON)
    life.wait(lambda: len(life.allocations()) == 2)
    lost, known = life.allocations()[1], life.allocations()[0]
    assert lost[names.ERROR_TYPE] == "not_found"
    assert lost[names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID] == known[names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_ID]
    # Who has the pod's address by now answers as the pod did: it is not asked.
    life.wait_for("not_found", 1)
    calls = life.osb.count(Route.EXECD, life.id)
    life.wait_for("not_found", 1)
    assert life.osb.count(Route.EXECD, life.id) == calls
    # Twice more than five seconds apart: the word of inspect is never that of GET sandbox.
    life.wait_for_status_questions(2)
    life.osb.clear_faults(Route.INSPECT, life.id)
    life.wait(lambda: len(life.allocations()) == 3)
    life.wait_for(None, 1)
    assert life.summaries() == []
    assert end_of(life.end()) == "stopped"


@STORIES.tell
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
        life.osb.wait_for(number + 1, Route.EXECD, life.id, timeout_s=60)
    life.wait(lambda: len(life.samples()) >= len(answers))
    used = [span.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB] for span in life.samples()]
    assert used[: len(answers)] == [answer["mem_used_mib"] for answer in answers]
    summary = life.end()
    statistics = {
        word: summary[f"{names.PREFIX_NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB}.{word}"]
        for word in ("min", "max", "last")
    }
    assert statistics == {"min": 41, "max": 1010, "last": 60}
    assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 1
    assert summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is True


@STORIES.tell
def a_killed_daemon_is_no_end(world):
    life = world.docker().begin()
    life.osb.kill_execd(life.id)
    life.wait_for("connection", 3)
    summary = life.end()
    assert end_of(summary) == "stopped"
    assert summary[names.NEMO_GYM_SANDBOX_READINGS_MISSED] >= 3


@STORIES.tell
def a_halted_daemon_costs_two_seconds_a_reading_and_comes_back(world):
    life = world.proxied().begin()
    life.osb.stop_execd(life.id)
    life.wait_for("timeout", 2)
    life.osb.continue_execd(life.id)
    life.wait_for(None, 1)
    took = [(span.end_ns - span.start_ns) / SECONDS for span in life.samples() if names.ERROR_TYPE in span.attributes]
    # A busy machine makes some longer and none shorter.
    assert min(took) == pytest.approx(2.0, abs=0.2)


@STORIES.tell
def a_daemon_that_does_not_listen_yet_is_waited_for(world):
    connection_failed, could_not_connect, *_ = json.loads((FIXTURES / "start-race.json").read_text())
    life = world.proxied()
    fault = {"status": 502, "content_type": JSON, "times": 1}
    life.osb.fault(Route.PROXY, life.id, body=json.dumps(connection_failed["body"]), **fault)
    life.start()
    life.osb.wait_for(1, Route.PROXY, life.id, timeout_s=60)
    life.osb.fault(Route.PROXY, life.id, body=json.dumps(could_not_connect["body"]), **fault)
    life.wait_for(None, 1)
    assert life.errors()[:3] == ["http_error", "http_error", None]
    summary = life.end()
    assert end_of(summary) == "stopped"
    # The two, and what the back-off after the second left out.
    assert 2 <= summary[names.NEMO_GYM_SANDBOX_READINGS_MISSED] <= 4


@STORIES.tell
def the_numbers_of_a_machine_are_told_as_the_machines(world):
    expected = [("node", "total_exceeds_limit", "node")] * 3
    expected += [("sandbox", "total_matches_limit", "unknown"), ("unknown", "no_limit", "unknown")]
    lines = [json.loads(line) for line in (EXECD / "node-scope.jsonl").read_text().splitlines()]
    lives = []
    for line in lines:
        memory = {} if line["limit_mib"] is None else {"memory": f"{line['limit_mib']}Mi"}
        lives.append(world.kubernetes(limits={"cpu": "1", **memory}))
        lives[-1].osb.fault(Route.EXECD, lives[-1].id, status=200, body=json.dumps(line["answer"]), content_type=JSON)
        lives[-1].start()
    for life, line, scopes in zip(lives, lines, expected, strict=True):
        life.wait_for(None, 3)
        last = life.samples()[-1].attributes
        assert tuple(last[key] for key in SCOPES) == scopes
        assert last[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB] == line["answer"]["mem_used_mib"]
        summary = life.end()
        assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE] == scopes[0]
        assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE] == scopes[2]


@STORIES.tell
def a_refusal_names_who_refused(world):
    *_, keyless, tokenless, _ = json.loads((FIXTURES / "start-race.json").read_text())
    for deployment, life in (("docker", world.docker), ("proxied", world.proxied)):
        refused = life(environment={"EXECD_ACCESS_TOKEN": "of-the-user"}).start()
        refused.wait_for("unauthorized", 1)
        assert any(f"{deployment}: the daemon of a sandbox refused" in one for one in world.messages())
    by_the_server = world.proxied()
    body = json.dumps(keyless["body"])
    by_the_server.osb.fault(Route.PROXY, by_the_server.id, status=401, body=body, content_type=JSON)
    by_the_server.start()
    by_the_server.wait_for("unauthorized", 1)
    assert any("proxied: the control plane's proxy refused a read" in one for one in world.messages())
    assert not any("of-the-user" in one for one in world.messages())
    assert "X-EXECD-ACCESS-TOKEN" in tokenless["body"]["error"]


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
