"""Parts of the shipped stack end while its demo runs: nothing of Gym is lost, and what was not read is counted."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from sandgauge_demo.scenario import Fate, PlannedRollout, fleet_rollouts
from sandgauge_schemas import names
from support.compose_stack import DEMO, ComposeStack
from support.feed import GYM
from support.jaeger_api import Trace
from support.otlp_json import from_resource, span, traces
from support.waiting import wait_until

pytestmark = pytest.mark.integration

GYM_SERVICE = "nemo-gym/demo"
POSTS = 40
INTERVAL_S = 5.0
PLAN = {rollout.rollout_id: rollout for rollout in fleet_rollouts()}
RUN = re.compile(r"run (demo-\d+-\d+) has begun")


def test_backends_that_are_down_are_no_matter_to_gym_and_to_the_feed(disturbed_stack):
    stack = disturbed_stack
    stack.compose("stop", "jaeger", "prometheus")
    ids = {f"down-{number}" for number in range(POSTS)}
    for request_id in sorted(ids):
        request = span(names.SPAN_GYM_SANDBOX_REQUEST, {names.NEMO_GYM_SANDBOX_REQUEST_ID: request_id})
        answer = stack.request("POST", "otlp_http", "/v1/traces", json=traces(from_resource(GYM, request)))
        assert answer.status_code == 200
    # One consumer keeps the order, so behind the last of these nothing of them waits.
    wait_until(lambda: feed_is_empty(stack), timeout_s=60, what="an empty queue of the feed", interval_s=0.5)
    stack.compose("start", "jaeger", "prometheus")

    def arrived() -> set[str]:
        found = [Trace.of(shown) for shown in stack.traces(GYM[names.SERVICE_NAME])]
        return {str(span.tags.get(names.NEMO_GYM_SANDBOX_REQUEST_ID)) for trace in found for span in trace.spans}

    wait_until(lambda: answers(stack) and ids <= arrived(), timeout_s=120, what="the spans of meanwhile", interval_s=1)
    wait_until(stack.has_readings, timeout_s=120, what="readings after it", interval_s=1)
    lost = 'sum({__name__=~"otelcol_exporter_(enqueue|send)_failed_spans", exporter="otlp_http/poller"})'
    assert not stack.number(lost)


def answers(stack: ComposeStack) -> bool:
    try:
        return stack.get("jaeger", "/api/traces", params={"service": "none"}).status_code == 200
    except requests.ConnectionError:
        return False


def feed_is_empty(stack: ComposeStack) -> bool:
    """Ask the Collector itself: whoever scrapes it is down."""
    probe = "import urllib.request as r; print(r.urlopen('http://collector:8888/metrics', timeout=5).read().decode())"
    page = stack.compose("exec", "-T", "poller", "python", "-c", probe)
    sizes = re.findall(
        r'^otelcol_exporter_queue_size\{[^}]*exporter="otlp_http/poller"[^}]*\} (\S+)$', page, re.MULTILINE
    )
    return bool(sizes) and all(float(size) == 0 for size in sizes)


def test_a_killed_poller_and_a_killed_collector_cost_no_request_and_no_start(disturbed_stack):
    stack = disturbed_stack
    begun = set(runs(stack))
    wait_until(lambda: set(runs(stack)) > begun, timeout_s=60, what="a run from its beginning", interval_s=0.5)
    hit = set(runs(stack)[-1:])

    stack.compose("kill", "poller")  # by hand, so it stays away until it is started again
    over = rollouts_over(stack)
    # Several, which is longer than the time between two readings.
    wait_until(lambda: rollouts_over(stack) >= over + 4, timeout_s=60, what="rollouts without a poller", interval_s=0.5)
    stack.compose("start", "poller")
    wait_until(lambda: is_ready(stack), timeout_s=60, what="the poller", interval_s=0.5)
    crash(stack, "collector")
    crash(stack, "poller", "collector")
    hit |= set(runs(stack)[-2:])

    wait_until(lambda: all(is_whole(stack, run) for run in hit), timeout_s=150, what=f"all of {hit}", interval_s=2)
    rollouts = [found for run in hit for found in rollouts_of(stack, run).items()]
    assert sum(missed(summary) for _, found in rollouts for summary in found.summaries) > 0
    for rollout_id, found in rollouts:
        if is_steady(PLAN[rollout_id]):
            for summary in found.summaries:
                assert_every_reading_is_told_of(found, summary)


def crash(stack: ComposeStack, *services: str) -> None:
    """Kill services, and wait until Docker has started them again."""
    before = [int(stack.container(service)["RestartCount"]) for service in services]
    stack.kill(*services)

    def restarted() -> bool:
        now = [int(stack.container(service)["RestartCount"]) for service in services]
        return all(count > earlier for count, earlier in zip(now, before, strict=True)) and is_ready(stack)

    wait_until(restarted, timeout_s=90, what=f"a restart of {services}", interval_s=0.5)


@dataclass(slots=True)
class Found:
    """What the traces backend has of a rollout."""

    requests: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    read_from_s: dict[str, float] = field(default_factory=dict)
    stopped_at_s: dict[str, float] = field(default_factory=dict)


def rollouts_of(stack: ComposeStack, run_id: str) -> dict[str, Found]:
    found: dict[str, Found] = defaultdict(Found)
    tags = {names.NEMO_RUN_ID: run_id}
    for shown in stack.traces(GYM_SERVICE, names.SPAN_GYM_ROLLOUT, **tags):
        for one in Trace.of(shown).spans:
            rollout = found[one.tags[names.NEMO_GYM_ROLLOUT_ID]]
            sandbox_id = one.tags.get(names.NEMO_GYM_SANDBOX_ID)
            match one.name:
                case names.SPAN_GYM_SANDBOX_REQUEST:
                    rollout.requests.add(one.tags[names.NEMO_GYM_SANDBOX_REQUEST_ID])
                case names.SPAN_GYM_SANDBOX_START if sandbox_id is None:
                    rollout.failed.add(one.tags[names.NEMO_GYM_SANDBOX_REQUEST_ID])
                case names.SPAN_GYM_SANDBOX_START:
                    rollout.started.add(sandbox_id)
                case names.SPAN_GYM_SANDBOX_STOP:
                    rollout.stopped_at_s[sandbox_id] = one.start_s
                case names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE:
                    earlier = rollout.read_from_s.get(sandbox_id, one.start_s)
                    rollout.read_from_s[sandbox_id] = min(earlier, one.start_s)
                case names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY:
                    rollout.summaries.append(one.tags)
    return found


def is_whole(stack: ComposeStack, run_id: str) -> bool:
    """Whether every rollout of a run has its requests and starts, and a summary of each sandbox that was deleted."""
    found = rollouts_of(stack, run_id)
    return all(
        len(found[rollout.rollout_id].requests) == len(rollout.requests)
        and len(found[rollout.rollout_id].started) == sum(request.sandboxes for request in rollout.requests)
        and len(found[rollout.rollout_id].failed) == fates(rollout).count(Fate.REFUSED)
        and (Fate.FORGOTTEN in fates(rollout) or summarised(found[rollout.rollout_id]))
        for rollout in PLAN.values()
    )


def summarised(found: Found) -> bool:
    return {summary[names.NEMO_GYM_SANDBOX_ID] for summary in found.summaries} == found.started


def fates(rollout: PlannedRollout) -> list[Fate]:
    return [request.fate for request in rollout.requests]


def is_steady(rollout: PlannedRollout) -> bool:
    """Whether its sandboxes are to be read at the same pace all their life."""
    return not {Fate.HALTED, Fate.FORGOTTEN, Fate.OUT_OF_MEMORY} & set(fates(rollout))


def missed(summary: dict[str, Any]) -> int:
    return int(summary[names.NEMO_GYM_SANDBOX_READINGS_MISSED])


def assert_every_reading_is_told_of(found: Found, summary: dict[str, Any]) -> None:
    """Hold that from its first reading on a sandbox was read, or that it was not is counted; phases cost one or two."""
    sandbox_id = summary[names.NEMO_GYM_SANDBOX_ID]
    first = found.read_from_s.get(sandbox_id)
    if first is None:
        assert summary[names.NEMO_GYM_SANDBOX_READINGS_COUNT] == 0
        return
    due = (found.stopped_at_s[sandbox_id] - first) / INTERVAL_S
    assert summary[names.NEMO_GYM_SANDBOX_READINGS_COUNT] + missed(summary) >= due - 1.5, summary


def runs(stack: ComposeStack) -> list[str]:
    return RUN.findall("\n".join(stack.logs("demo-gym")))


def rollouts_over(stack: ComposeStack) -> int:
    return sum("is over" in line for line in stack.logs("demo-gym"))


def is_ready(stack: ComposeStack) -> bool:
    try:
        return stack.get("status", "/readyz").status_code == 200
    except requests.ConnectionError:
        return False


def test_stopped_together_with_its_backends_the_collector_is_not_killed(disturbed_stack):
    """Killed, it loses the lines of the joined file that it still gathers."""
    disturbed_stack.compose(*DEMO, "stop")
    assert disturbed_stack.container("collector")["State"]["ExitCode"] == 0


def test_taken_down_it_leaves_nothing(disturbed_stack):
    disturbed_stack.compose(*DEMO, "down", "--volumes", "--timeout", "5")
    docker = disturbed_stack.docker
    assert docker.run("ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=sandgauge") == ""
    assert docker.run("volume", "ls", "--quiet") == ""  # those without a name too
    assert docker.run("network", "ls", "--quiet", "--filter", "name=sandgauge") == ""
