"""A run in which much goes wrong, through the real Collector and the poller: each fault is found once, and no other."""

import json
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest

from sandgauge_demo.deployment import DeploymentSettings, ExecdKind, Route, UsagePoint
from sandgauge_report.findings import FindingKind
from sandgauge_report.sizing import FEWEST_READINGS
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord, Submission
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.joined_pipeline import joined_pipeline
from support.otlp_json import from_resource, key_values, span, traces
from support.real_collector import send
from support.sandbox_records import SandboxRecords

pytestmark = pytest.mark.integration

RUN = "run-mixed"
SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
SHAPE = SandboxResourceAmounts(cpu=1.0, memory_mib=1024.0)
ASKED = SandboxResources(cpu=1.0, memory_mib=1024)
SDK_DEFAULT = SandboxResourceAmounts(cpu=1.0, memory_mib=2048.0)
BUSY_SHARE = 0.6
"""Of the memory limit: neither close to it nor far below."""

_PATIENCE_S = 60


@dataclass
class Story:
    """A rollout of one sandbox: what is asked for, sent, given and used. What is None is left to the SDK's default."""

    rollout_id: str
    asked: SandboxResources = ASKED
    sent: SandboxResourceAmounts | None = SHAPE
    given: SandboxResourceAmounts | None = None
    used_mib: float | None = None
    execd: ExecdKind = ExecdKind.GUEST
    sandbox_id: str | None = None
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def keys(self):
        request_id = f"request-{self.rollout_id}"
        return JoinKeys(
            run_id=RUN,
            rollout_id=self.rollout_id,
            request_id=request_id,
            sandbox_id=self.sandbox_id,
            provider="opensandbox",
        )

    def create(self, osb):
        limits = self.given or self.sent or SDK_DEFAULT
        used = BUSY_SHARE * limits.memory_mib if self.used_mib is None else self.used_mib
        self.sandbox_id = osb.create(
            limits={"cpu": f"{limits.cpu:g}", "memory": f"{limits.memory_mib:g}Mi"},
            execd_kind=self.execd,
            usage=(UsagePoint(0.0, 0.5, used),),
        )

    def span(self, name, attributes=None, **fields):
        now_ns = time.time_ns()
        times = {"startTimeUnixNano": str(now_ns - 1_000_000), "endTimeUnixNano": str(now_ns)}
        return {**span(name, attributes or self.keys.to_attributes(), trace_id=self.trace_id), **times, **fields}

    def request_span(self):
        record = RequestRecord(keys=self.keys, requested=self.asked)
        return self.span(names.SPAN_GYM_SANDBOX_REQUEST, record.to_attributes())

    def start_span(self, **fields):
        sent = Submission(sdk_default=True) if self.sent is None else Submission(limits=self.sent)
        record = StartRecord(keys=self.keys, submission=sent if self.sandbox_id else Submission())
        return self.span(names.SPAN_GYM_SANDBOX_START, record.to_attributes(), **fields)

    def rollout_span(self):
        attributes = {names.NEMO_RUN_ID: RUN, names.NEMO_GYM_ROLLOUT_ID: self.rollout_id}
        return self.span(names.SPAN_GYM_ROLLOUT, attributes)


STORIES = {
    FindingKind.SDK_DEFAULT: Story("0-0", asked=SandboxResources(), sent=None),
    FindingKind.CLAMPED: Story("0-1", asked=SandboxResources(cpu=4.0, memory_mib=8192)),
    FindingKind.CHANGED_BY_CLUSTER: Story("1-0", given=SandboxResourceAmounts(cpu=1.0, memory_mib=768.0)),
    FindingKind.KILLED_FOR_MEMORY: Story("1-1", used_mib=1000.0),
    FindingKind.NEVER_CREATED: Story("2-0"),
    FindingKind.LEAKED: Story("2-1"),
    FindingKind.OVER_RESERVED: Story(
        "3-0",
        asked=SandboxResources(cpu=1.0, memory_mib=16384),
        sent=SandboxResourceAmounts(cpu=1.0, memory_mib=16384.0),
        used_mib=300.0,
    ),
    FindingKind.NODE_READINGS: Story("3-1", execd=ExecdKind.RUNC),
}
NEVER, KILLED, LEAKED = (
    STORIES[kind] for kind in (FindingKind.NEVER_CREATED, FindingKind.KILLED_FOR_MEMORY, FindingKind.LEAKED)
)
CREATED = [story for story in STORIES.values() if story is not NEVER]


@pytest.fixture(scope="module")
def joined_file(tmp_path_factory):
    """Let the run go by once."""
    with joined_pipeline(
        tmp_path_factory.mktemp("mixed-run"),
        deployment=DeploymentSettings(metrics_delay_s=0.05),
        sampling={"collection_interval": "500ms", "min_interval": "500ms"},
        tracking={"orphan_grace": "2s"},
    ) as running:

        def tell(*spans):
            assert send(running.otelcol, traces(from_resource({names.SERVICE_NAME: "nemo-gym/x"}, *spans))) == 200

        records = SandboxRecords(running.backends)
        tell(*(story.request_span() for story in STORIES.values()))
        for story in CREATED:
            story.create(running.osb)
            tell(story.start_span())
        exception = {"name": "exception", "attributes": key_values({"exception.type": "SandboxCreateError"})}
        tell(NEVER.start_span(status={"code": 2}, events=[exception]), NEVER.rollout_span())

        running.backends.wait_for(
            lambda _: all(len(records.of(story.sandbox_id)) > FEWEST_READINGS for story in CREATED), _PATIENCE_S
        )
        running.osb.end(KILLED.sandbox_id, exit_code=137, oom_killed=True)
        looked = running.osb.count(Route.GET, LEAKED.sandbox_id)
        tell(LEAKED.rollout_span())
        running.backends.wait_for(lambda _: bool(records.of(KILLED.sandbox_id, SUMMARY)), _PATIENCE_S)
        for story in CREATED:
            if story is not LEAKED:
                running.osb.delete(story.sandbox_id)
                tell(story.span(names.SPAN_GYM_SANDBOX_STOP), story.rollout_span())
        # The leak is known once the poller has looked after the rollout's end and the grace.
        running.osb.wait_for(looked + 1, Route.GET, LEAKED.sandbox_id, timeout_s=_PATIENCE_S)
        running.osb.delete(LEAKED.sandbox_id)
        running.backends.wait_for(
            lambda _: all(records.of(story.sandbox_id, SUMMARY) for story in CREATED), _PATIENCE_S
        )
    assert running.complaints() == []
    return running.otelcol.joined_file


def run_report(joined_file, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "sandgauge_poller", "report", str(joined_file), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_each_fault_is_found_once_on_the_right_rollout_and_nothing_else(joined_file):
    ended = run_report(joined_file, "--format", "json", "--fail-on", "any")
    assert (ended.returncode, ended.stderr) == (1, "")
    found = [
        (one["finding"], one["rollout_id"], one["sandbox_id"], one["run_id"])
        for one in json.loads(ended.stdout)["findings"]
    ]
    expected = [(str(kind), story.rollout_id, story.sandbox_id, RUN) for kind, story in STORIES.items()]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_the_four_quantities_of_each_sandbox_are_as_the_run_had_them(joined_file):
    rows = {row["rollout_id"]: row for row in json.loads(run_report(joined_file, "--format", "json").stdout)["rows"]}
    assert rows.keys() == {story.rollout_id for story in STORIES.values()}
    for story in CREATED:
        row, given = rows[story.rollout_id], story.given or story.sent or SDK_DEFAULT
        memory = {side: (row[side]["memory_mib"] or {}).get("sum") for side in ("requested", "submitted_limits")}
        assert memory == {
            "requested": story.asked.memory_mib,
            "submitted_limits": story.sent and story.sent.memory_mib,
        }
        assert row["allocated_limits"]["memory_mib"]["sum"] == given.memory_mib
        assert row["readings"]["count"] >= FEWEST_READINGS
        assert row["lifetime_s"]["known"] == 1


def test_the_table_tells_how_each_ended(joined_file):
    shown = run_report(joined_file).stdout
    assert "not created: SandboxCreateError" in shown
    assert "out of memory" in shown
    assert "leaked" in shown
