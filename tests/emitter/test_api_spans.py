"""The spans that the neutral API makes: one for a request, one for each start, with what joins them."""

import logging
import threading
import time
from dataclasses import dataclass

from opentelemetry.sdk.trace import SpanLimits

import sandgauge_emitter
from sandgauge_emitter import api
from sandgauge_emitter import spans as emission
from sandgauge_schemas import names
from sandgauge_schemas.records import RequestRecord, StartRecord
from sandgauge_schemas.resources import SandboxResources
from support.emitted import only

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START


def test_a_request_is_there_before_anything_else_happens(on):
    request = sandgauge_emitter.record_request(provider="opensandbox", rollout_id="3-1", run_id="run-7")
    span = only(on.spans())
    assert (span.name, span.scope) == (REQUEST, "sandgauge_emitter")
    assert span.start_ns == span.end_ns
    assert span.attributes == {
        names.NEMO_RUN_ID: "run-7",
        names.NEMO_GYM_ROLLOUT_ID: "3-1",
        names.NEMO_GYM_SANDBOX_REQUEST_ID: request.request_id,
        names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox",
        names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: 1,
    }


def test_a_start_joins_request_and_sandbox(on):
    request = sandgauge_emitter.record_request(
        provider="opensandbox", rollout_id="3-1", run_id="run-7", sample_interval_s=5
    )
    request.started(
        "sbx-1",
        submitted_requests={"cpu": 1},
        submitted_limits=SandboxResources(cpu=2, memory_mib=512, disk_gib=10, gpu=1, gpu_type="h100"),
        sdk_default=False,
        scope="http://user:pa55@osb.example:8080/v1?key=pa55",
    )
    recorded, started = only(on.spans(REQUEST)), only(on.spans(START))
    assert recorded.end_ns <= started.end_ns
    assert started.start_ns == recorded.start_ns
    assert not started.is_error
    assert started.attributes == {
        names.NEMO_RUN_ID: "run-7",
        names.NEMO_GYM_ROLLOUT_ID: "3-1",
        names.NEMO_GYM_SANDBOX_REQUEST_ID: request.request_id,
        names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox",
        names.NEMO_GYM_SANDBOX_ID: "sbx-1",
        names.NEMO_GYM_SANDBOX_SCOPE: "http://osb.example:8080/v1",
        names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 5.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_CPU: 1.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU: 2.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB: 512.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_DISK_GIB: 10.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU: 1,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU_TYPE: "h100",
        names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT: False,
    }


def test_a_host_that_keeps_few_attributes_keeps_the_join_keys(make_host):
    host = make_host()
    host.provider._span_limits = SpanLimits(max_span_attributes=16)
    sandgauge_emitter.configure(enabled=True)
    request = sandgauge_emitter.record_request(
        provider="kubernetes", run_id="r", rollout_id="1-1", resources={"cpu": 1}, sidecars=[("s", {"cpu": 1})] * 50
    )
    read = RequestRecord.from_attributes(only(host.spans()).attributes)
    assert read.keys.request_id == request.request_id
    assert (read.keys.run_id, read.keys.rollout_id, read.keys.provider) == ("r", "1-1", "kubernetes")
    assert read.requested == SandboxResources(cpu=1.0)


def test_a_collection_names_its_services(on):
    sandgauge_emitter.record_request(provider="opensandbox", collection_id="project-1", service_name="database")
    attributes = only(on.spans()).attributes
    assert attributes[names.NEMO_GYM_SANDBOX_COLLECTION_ID] == "project-1"
    assert attributes[names.NEMO_GYM_SANDBOX_SERVICE_NAME] == "database"


def test_a_failure_has_a_type_and_no_sandbox(on):
    sandgauge_emitter.record_request(provider="opensandbox").failed("SandboxCreateError")
    assert StartRecord.from_attributes(only(on.spans(START)).attributes).keys.sandbox_id is None
    span = on.finished()[-1]
    assert span.status.description == "SandboxCreateError"
    assert not span.status.is_ok
    (event,) = span.events
    assert (event.name, dict(event.attributes)) == ("exception", {"exception.type": "SandboxCreateError"})


def test_a_request_for_several_has_a_start_for_each_and_more_are_recorded_too(on, caplog):
    request = sandgauge_emitter.record_request(provider="opensandbox", count=2)
    with caplog.at_level(logging.DEBUG, "sandgauge_emitter"):
        request.failed("timeout")
        for index in range(4):
            request.started(f"sbx-{index}")
    assert only(on.spans(REQUEST)).attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] == 2
    started = [span.attributes.get(names.NEMO_GYM_SANDBOX_ID) for span in on.spans(START)]
    assert started == [None, "sbx-0", "sbx-1", "sbx-2", "sbx-3"]
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG


def test_a_clock_that_is_set_back_gives_no_negative_time(on, monkeypatch):
    @dataclass
    class Clock:
        now_ns: int

        def time_ns(self):
            return self.now_ns

    clock = Clock(time.time_ns())
    for module in (api, emission):
        monkeypatch.setattr(module, "time", clock)
    request = sandgauge_emitter.record_request(provider="opensandbox")
    clock.now_ns -= 10**9
    request.started("sbx-1")
    started = only(on.spans(START))
    assert started.start_ns == started.end_ns


def test_threads_share_one_request(on):
    request = sandgauge_emitter.record_request(provider="p", count=200)

    def start(first):
        for index in range(first, first + 20):
            request.started(f"sbx-{index}")

    threads = [threading.Thread(target=start, args=(first,)) for first in range(0, 200, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in on.spans(START)} == {f"sbx-{i}" for i in range(200)}


def test_a_request_shows_its_id_alone(on):
    request = sandgauge_emitter.record_request(provider="pa55")
    assert repr(request) == f"SandboxRequest(request_id={request.request_id!r})"
