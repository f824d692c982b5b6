"""What becomes of real sandboxes, as the poller tells it: paused, deleted, starved, wedged, ended, and a server gone.

Two pollers watch the same sandboxes at once, one by their direct endpoints and one through the server's proxy.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from sandgauge_schemas import names
from support.feed import feed, start_span, stop_span
from support.opensandbox_server import OpenSandboxServer
from support.otlp_proto import SeenSpan
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.waiting import wait_until

pytestmark = pytest.mark.integration

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
INTERVAL_S = 1.0
PATIENCE_S = 90.0
"""For what is awaited, on a machine that is busy with other work too."""
WAYS = {"direct": "auto", "proxied": "true"}
UNTIL_TOLD = "until test -s /end; do sleep 0.1; done"
ENTRYPOINTS = {
    "ends well": f"{UNTIL_TOLD}; exit 0",
    "ends badly": f"{UNTIL_TOLD}; exit 3",
    # A line that never ends is kept whole until memory runs out; by `exec` it is the container's first process.
    "eats memory": f"{UNTIL_TOLD}; exec tail /dev/zero",
}
FAILURES = 3
"""Of the killed daemon, in a row: each is followed by twice the wait of the one before."""
LIVES = ("healthy", "paused", "deleted", "execd killed", "execd stopped", *ENTRYPOINTS)
BY_ITSELF = {"deleted": "gone", "ends well": "terminated", "ends badly": "failed", "eats memory": "failed"}
"""The lives that are over without a stop span, and the reason of their end."""


@dataclass
class Watch:
    """One poller's records of every life."""

    sink: OtlpSink
    ids: dict[str, str]

    def spans(self, name: str, life: str) -> list[SeenSpan]:
        """Return the records of a life, by the start of the reading."""
        found = [span for span in self.sink.spans(name) if span.attributes[names.NEMO_GYM_SANDBOX_ID] == self.ids[life]]
        return sorted(found, key=lambda span: span.start_ns)

    def errors(self, life: str) -> list[str | None]:
        """Return what came of each reading of a life: an error type, or None."""
        return [span.attributes.get(names.ERROR_TYPE) for span in self.spans(SAMPLE, life)]

    def wait_for_errors(self, life: str, error: str | None, count: int, *, after_ns: int) -> None:
        """Return once so many readings of a life that began after a moment came out so."""
        self.sink.wait_for(
            lambda _: (
                sum(
                    span.attributes.get(names.ERROR_TYPE) == error and span.start_ns > after_ns
                    for span in self.spans(SAMPLE, life)
                )
                >= count
            ),
            PATIENCE_S,
        )


@dataclass
class Story:
    """What happened, and when (ns since the epoch)."""

    watches: dict[str, Watch]
    moments: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def mark(self, moment: str) -> int:
        self.moments[moment] = time.time_ns()
        return self.moments[moment]

    def wait_for_errors(self, life: str, error: str | None, count: int, after_ns: int) -> None:
        for watch in self.watches.values():
            watch.wait_for_errors(life, error, count, after_ns=after_ns)


@pytest.fixture(scope="module")
def story(opensandbox_server: OpenSandboxServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    server = opensandbox_server
    with ThreadPoolExecutor(4) as pool:
        ids = dict(zip(LIVES, pool.map(lambda life: create(server, life), LIVES), strict=True))
    with ExitStack() as stack:
        pollers, watches = [], {}
        for way, use_server_proxy in WAYS.items():
            sink = stack.enter_context(OtlpSink())
            deployment = {"name": "real", "endpoint": server.endpoint, "api_key": server.api_key}
            config = {
                "deployments": [{**deployment, "use_server_proxy": use_server_proxy}],
                "sampling": {"collection_interval": f"{INTERVAL_S}s", "min_interval": f"{INTERVAL_S}s"},
                "export": {"endpoint": sink.endpoint},
                "tracking": {"orphan_grace": "2s"},
            }
            pollers.append(stack.enter_context(RunningPoller(tmp_path_factory.mktemp(way), config)))
            watches[way] = Watch(sink, ids)
        for poller in pollers:
            feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in ids.values()))
        told = Story(watches)
        for life in LIVES:
            told.wait_for_errors(life, None, 1, 0)
        live(told, server, ids)
        for poller in pollers:
            feed(poller.endpoint, *(stop_span(ids[life]) for life in LIVES if life not in BY_ITSELF))
        for watch in watches.values():
            watch.sink.wait_for(lambda seen: len(seen.spans(SUMMARY)) >= len(LIVES), PATIENCE_S)
        yield told
        assert [poller.complaints() for poller in pollers] == [[], []]
        assert [violation for watch in watches.values() for violation in watch.sink.violations] == []


def create(server: OpenSandboxServer, life: str) -> str:
    entrypoint = ["sh", "-c", ENTRYPOINTS.get(life, "sleep 600")]
    return server.create("500m", "64Mi", entrypoint=entrypoint)


def live(story: Story, server: OpenSandboxServer, ids: dict[str, str]) -> None:
    """Let everything happen, the lives side by side; at last the server itself is away for a while."""
    lives = {
        "paused": lambda: pause(story, server, ids["paused"]),
        "deleted": lambda: server.delete(ids["deleted"]),
        "execd killed": lambda: kill_execd(story, server, ids["execd killed"]),
        "execd stopped": lambda: stop_execd(story, server, ids["execd stopped"]),
        **{life: lambda life=life: end(story, server, life, ids[life]) for life in ENTRYPOINTS},
    }
    with ThreadPoolExecutor(len(lives)) as pool:
        for one in [pool.submit(happen) for happen in lives.values()]:
            one.result()
    for watch in story.watches.values():
        watch.sink.wait_for(lambda seen: len(seen.spans(SUMMARY)) >= len(BY_ITSELF), PATIENCE_S)
    restart(story, server)


def pause(story: Story, server: OpenSandboxServer, sandbox_id: str) -> None:
    server.request("POST", f"/v1/sandboxes/{sandbox_id}/pause").raise_for_status()
    story.wait_for_errors("paused", "paused", 2, story.mark("paused"))
    story.mark("resuming")
    server.request("POST", f"/v1/sandboxes/{sandbox_id}/resume").raise_for_status()
    story.wait_for_errors("paused", None, 2, story.mark("resumed"))


def kill_execd(story: Story, server: OpenSandboxServer, sandbox_id: str) -> None:
    server.signal_execd(sandbox_id, "KILL")
    for watch in story.watches.values():
        before = len(watch.spans(SAMPLE, "execd killed"))
        watch.sink.wait_for(
            lambda _, w=watch, b=before: len(w.spans(SAMPLE, "execd killed")) >= b + FAILURES, PATIENCE_S
        )


def stop_execd(story: Story, server: OpenSandboxServer, sandbox_id: str) -> None:
    server.signal_execd(sandbox_id, "STOP")
    story.wait_for_errors("execd stopped", "timeout", 2, story.mark("execd stopped"))
    server.signal_execd(sandbox_id, "CONT")
    story.wait_for_errors("execd stopped", None, 2, story.mark("execd continued"))


def end(story: Story, server: OpenSandboxServer, life: str, sandbox_id: str) -> None:
    server.inside(sandbox_id, "echo now > /end")
    wait_until(lambda: not server.is_running(sandbox_id), timeout_s=PATIENCE_S, what=f"the end of what {life}")
    state = "{{.State.OOMKilled}} {{.State.ExitCode}}"
    story.notes[life] = server.daemon.docker("inspect", "--format", state, f"sandbox-{sandbox_id}")


def restart(story: Story, server: OpenSandboxServer) -> None:
    server.kill()
    killed = story.mark("server killed")
    story.watches["proxied"].wait_for_errors("healthy", "connection", 2, after_ns=killed)
    server.start()
    back = story.mark("server back")
    story.wait_for_errors("healthy", None, 2, back)


@pytest.fixture(params=list(WAYS))
def watch(story: Story, request: pytest.FixtureRequest) -> Watch:
    return story.watches[request.param]


def summary(watch: Watch, life: str) -> dict[str, object]:
    (only,) = watch.spans(SUMMARY, life)
    return only.attributes


def seconds(span: SeenSpan) -> float:
    return (span.end_ns - span.start_ns) / 1e9


@pytest.mark.parametrize("life", LIVES)
def test_each_end_has_its_reason_and_comes_once(watch, life):
    assert summary(watch, life)[names.NEMO_GYM_SANDBOX_END_REASON] == BY_ITSELF.get(life, "stopped")
    assert summary(watch, life)[names.NEMO_GYM_SANDBOX_LEAKED] is False
    assert summary(watch, life)[names.NEMO_GYM_SANDBOX_SUMMARY_RESETS] == 0


def test_a_paused_sandbox_is_recorded_as_such_and_its_daemon_left_alone(watch, story):
    during = [
        span
        for span in watch.spans(SAMPLE, "paused")
        if story.moments["paused"] < span.start_ns < story.moments["resuming"]
    ]
    first = next(at for at, span in enumerate(during) if span.attributes.get(names.ERROR_TYPE) == "paused")
    # The first reading after the pause may still find out the hard way; after that only the control plane is asked.
    assert first <= 1
    assert {span.attributes.get(names.ERROR_TYPE) for span in during[first:]} == {"paused"}
    assert all(seconds(span) < 2 for span in during[first:])
    assert None in watch.errors("paused")[-3:]


def test_a_killed_daemon_leaves_the_sandbox_active_and_its_readings_missed(watch, story):
    errors = watch.errors("execd killed")
    assert set(errors[-FAILURES:]) <= {"connection", "http_error"}
    assert summary(watch, "execd killed")[names.NEMO_GYM_SANDBOX_READINGS_MISSED] >= FAILURES


def test_a_halted_daemon_costs_each_reading_its_two_seconds_and_no_more(watch, story):
    continued = story.moments["execd continued"]
    before = [span for span in watch.spans(SAMPLE, "execd stopped") if span.start_ns < continued]
    timeouts = [span for span in before if span.attributes.get(names.ERROR_TYPE)]
    assert len(timeouts) >= 2
    assert {span.attributes[names.ERROR_TYPE] for span in timeouts} == {"timeout"}
    # A busy machine makes some longer and none shorter.
    assert min(seconds(span) for span in timeouts) == pytest.approx(2.0, abs=0.2)
    assert watch.errors("execd stopped")[-1] is None


def test_memory_that_ran_out_is_told_as_far_as_docker_knows_it(watch, story):
    oom_killed, exit_code = story.notes["eats memory"].split()
    assert exit_code == "137"
    assert summary(watch, "eats memory")[names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is (oom_killed == "true")
    for life, code in (("ends well", "0"), ("ends badly", "3")):
        assert story.notes[life] == f"false {code}"
        assert summary(watch, life)[names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is False


def test_a_server_that_was_away_ends_nothing_and_readings_go_on_when_it_is_back(watch, story):
    back = story.moments["server back"]
    first = next(
        span
        for span in watch.spans(SAMPLE, "healthy")
        if span.start_ns > back and not span.attributes.get(names.ERROR_TYPE)
    )
    assert (first.start_ns - back) / 1e9 <= INTERVAL_S + 1.0 + lateness_s(story.watches["direct"])


def lateness_s(watch):
    """Return how late a reading was at most that no server can hold up: what the machine itself made of an interval."""
    starts = sorted(span.start_ns / 1e9 for span in watch.spans(SAMPLE, "healthy"))
    # The first gap runs up to the sandbox's own phase.
    return max(later - earlier for earlier, later in pairwise(starts[1:])) - INTERVAL_S


def test_direct_readings_go_on_while_the_server_is_away(story):
    away = [
        span
        for span in story.watches["direct"].spans(SAMPLE, "healthy")
        if story.moments["server killed"] < span.start_ns < story.moments["server back"]
    ]
    assert away
    assert not [span for span in away if span.attributes.get(names.ERROR_TYPE)]
