"""Whole set-ups with one thing broken in each: the doctor names that, says how to cure it, and complains of nothing."""

import json
import resource
import socket
import sqlite3
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
import yaml

from sandgauge_demo.deployment import DeploymentSettings, ExecdKind, Route
from sandgauge_poller.doctor.examination import examine
from sandgauge_poller.doctor.finding import Verdict
from sandgauge_poller.ingest.refusal import JSON
from sandgauge_poller.ingest.understanding import understand
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.database import STORE_FILE, Database
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.store import EventRow, insert_events
from sandgauge_schemas import names
from support.otlp_json import from_resource, span, traces
from support.simulated_osb import osb_in_thread

KEY = "k3y-of-the-control-plane"
LIMITS = {"cpu": "500m", "memory": "512Mi"}


class SetUp:
    """One with which all is well: an OpenSandbox that runs a sandbox, a Collector, and a store with a start span."""

    def __init__(self, folder, osb, sink, patch, open_until_the_end):
        self.folder, self.osb, self.patch, self.open_until_the_end = folder, osb, patch, open_until_the_end
        self.state = folder / "state"
        self.sandbox_id = osb.create(limits=LIMITS, execd_kind=ExecdKind.GUEST)
        self.deployment = {"name": "training", "endpoint": osb.url, "api_key": KEY}
        self.configuration = {
            "ingest": {"endpoint": "127.0.0.1:0"},
            "status": {"endpoint": "127.0.0.1:0"},
            "deployments": [self.deployment],
            "sampling": {"timeout": "10s"},
            "allocation": {"timeout": "10s"},
            "tracking": {"max_sandboxes": 100},
            "export": {"endpoint": sink.endpoint},
            "state": {"directory": str(self.state)},
        }
        self.keep_start("sandgauge_emitter", {names.NEMO_GYM_SANDBOX_REQUEST_ID: "r-1"})

    def keep_start(self, scope, attributes):
        """Put a start span into the store, as a poller that has ended would have."""
        start = span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: self.sandbox_id, **attributes})
        body = json.dumps(traces(from_resource({}, start, scope=scope))).encode()
        rows = [
            EventRow(event, SandboxKey("training", self.sandbox_id))
            for event, _ in understand(JSON, body, time.time_ns()).events
        ]
        database = Database(self.state)
        database.submit(lambda connection: insert_events(connection, rows)).result(60)
        assert database.close(60)

    def in_store(self, statement):
        with closing(sqlite3.connect(self.state / STORE_FILE)) as connection, connection:
            connection.execute(statement)

    def findings(self):
        path = self.folder / "sandgauge.yaml"
        path.write_text(yaml.safe_dump(self.configuration))
        return list(examine(path, {}, self.folder))


@pytest.fixture
def set_up(tmp_path, otlp_sink, monkeypatch):
    settings = DeploymentSettings(api_key=KEY, proxy_needs_key=True, metrics_delay_s=0.0)
    with osb_in_thread(settings) as osb, ExitStack() as stack:
        yield SetUp(tmp_path, osb, otlp_sink, monkeypatch, stack)


def a_key_that_is_none(s):
    s.configuration["sampling"]["colection_interval"] = "10s"


def a_folder_that_is_a_file(s):
    (s.folder / "file").write_text("")
    s.configuration["state"]["directory"] = str(s.folder / "file")


def a_newer_store(s):
    s.in_store(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")


def no_span_at_all(s):
    s.in_store("DELETE FROM event")


def gym_without_the_emitter(s):
    s.in_store("DELETE FROM event")
    s.keep_start("nemo.lens.helpers", {})


def few_open_files(s):
    s.patch.setattr(resource, "getrlimit", lambda _: (256, 300))


def a_taken_port(s):
    taken = s.open_until_the_end.enter_context(socket.create_server(("127.0.0.1", 0)))
    s.configuration["ingest"]["endpoint"] = f"127.0.0.1:{taken.getsockname()[1]}"


def one_control_plane_twice(s):
    other = s.osb.url.replace("127.0.0.1", "localhost")
    s.configuration["deployments"].append({**s.deployment, "name": "other", "endpoint": other})


def nobody_at_the_endpoint(s):
    s.deployment["endpoint"] = "http://127.0.0.1:9"


def a_wrong_key(s):
    s.deployment["api_key"] = "wr0ng"


def a_clock_that_is_off(s):
    date = format_datetime(datetime.fromtimestamp(time.time() + 7200, UTC), usegmt=True)
    s.osb.fault(Route.LIST, status=200, body='{"items": []}', headers={"Date": date})


def a_daemon_that_died(s):
    s.osb.kill_execd(s.sandbox_id)


def a_control_plane_that_does_not_inspect(s):
    s.osb.fault(Route.INSPECT, status=500, body="boom")


def a_host_that_may_not_be_called(s):
    s.deployment["use_server_proxy"] = "false"
    s.osb.fault(Route.ENDPOINT, status=200, body='{"endpoint": "10.1.2.3:44772"}')


def numbers_of_the_node(s):
    s.osb.change(s.sandbox_id, execd_kind=ExecdKind.RUNC)


def too_few_slots(s):
    s.deployment |= {"use_server_proxy": "true", "max_concurrent_proxied_reads": 1}
    s.configuration["sampling"]["collection_interval"] = "2s"
    s.osb.create(limits=LIMITS, execd_kind=ExecdKind.GUEST)


def a_usage_source_that_is_away(s):
    s.configuration["usage"] = [{"kind": "docker", "endpoint": f"unix://{s.folder}/docker.sock"}]


def no_broker(s):
    s.configuration["ingest"]["kafka"] = {"brokers": ["127.0.0.1:9"]}


def no_collector(s):
    s.configuration["export"]["endpoint"] = "http://127.0.0.1:9"


FAIL, WARN = Verdict.FAIL, Verdict.WARN
BROKEN = {
    a_key_that_is_none: (FAIL, "configuration", "sampling.colection_interval", "collection_interval"),
    a_folder_that_is_a_file: (FAIL, "state folder", "cannot be written", "name another folder as state.directory"),
    a_newer_store: (FAIL, "state folder", "is of a newer Sandgauge", "run that Sandgauge again"),
    no_span_at_all: (WARN, "start spans", "no lifecycle span came in", "let the Collector send to ingest.endpoint"),
    gym_without_the_emitter: (WARN, "start spans", "1 stock Gym's alone", "install sandgauge[gym] where Gym runs"),
    few_open_files: (WARN, "open files", "the limit is 300", "raise the hard limit"),
    a_taken_port: (FAIL, "ingest.endpoint", "is taken by another program", "stop what listens there"),
    one_control_plane_twice: (WARN, "scopes", "training and other seem to be one control plane", "keep one of them"),
    nobody_at_the_endpoint: (FAIL, "deployment training", "unreachable", "start the control plane"),
    a_wrong_key: (FAIL, "deployment training", "refuses the api_key", "write the server's own key as api_key"),
    a_clock_that_is_off: (WARN, "deployment training", "ahead of this machine's", "set both by NTP"),
    a_daemon_that_died: (WARN, "deployment training", "cannot be read directly (connection)", "start what is asked"),
    a_control_plane_that_does_not_inspect: (WARN, "deployment training", "what is in force", "control plane's log"),
    a_host_that_may_not_be_called: (FAIL, "deployment training", "endpoint_not_allowed", "allowed_endpoint_hosts"),
    numbers_of_the_node: (WARN, "deployment training", "describe its node", "name a usage source"),
    too_few_slots: (WARN, "deployment training", "2 sandboxes running: its 1 pro", "max_concurrent_proxied_reads to 2"),
    a_usage_source_that_is_away: (FAIL, "usage source unix://", "cannot be opened", "or name a proxy's"),
    no_broker: (FAIL, "Kafka", "127.0.0.1:9 cannot be used", "start a broker there"),
    no_collector: (FAIL, "Collector (traces)", "no answer", "name its address as export.endpoint"),
}
ALSO = {
    a_daemon_that_died: "a reading through the proxy failed",
    no_collector: "Collector (metrics): no answer",
}
"""What the same thing breaks beside it."""


def test_there_are_more_than_ten():
    assert len(BROKEN) >= 10


def test_nothing_is_wrong_with_what_they_begin_from(set_up):
    findings = set_up.findings()
    assert [str(finding) for finding in findings if finding.verdict is not Verdict.PASS] == []
    said = "\n".join(map(str, findings))
    assert "1 the emitter's own" in said
    assert "a running sandbox can be read through the proxy" in said
    assert "a running sandbox can be read directly" in said
    assert "the memory that a running sandbox tells is its own" in said


@pytest.mark.parametrize("broken", BROKEN, ids=lambda function: function.__name__)
def test_what_is_broken_is_named_with_its_cure_and_nothing_else_is(set_up, broken):
    verdict, what, detail, cure = BROKEN[broken]
    broken(set_up)
    complaints = [finding for finding in set_up.findings() if finding.verdict is not Verdict.PASS]
    others = [complaint for complaint in complaints if broken in ALSO and ALSO[broken] in str(complaint)]
    assert len(others) == (broken in ALSO)
    (found,) = [complaint for complaint in complaints if complaint not in others]
    assert found.verdict is verdict
    assert found.what.startswith(what)
    assert detail in found.detail
    assert cure in found.cure
