"""Daemons that answer anything at all: each reading is bounded, one record each, and nobody else notices."""

import gzip
import json
import math
import statistics
import time
from itertools import cycle, pairwise

import pytest

from sandgauge_schemas import names
from support.feed import feed, start_span
from support.fuzz_run import peak_memory
from support.hostile_daemons import HostileDaemons, response, says, says_for_ever, says_nothing
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.sandbox_records import SandboxRecords

pytestmark = pytest.mark.load

STATUS, ERROR = names.NEMO_GYM_SANDBOX_RESOURCE_STATUS, names.ERROR_TYPE
NUMBERS = {
    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT: 2.0,
    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE: 12.5,
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB: 2048.0,
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB: 90.5,
}
GOOD = {"cpu_count": 2, "cpu_used_pct": 12.5, "mem_total_mib": 2048, "mem_used_mib": 90.5, "timestamp": 1795000001000}
A_GIGABYTE = 10**9
BLOCK = b"1" * 2**16
WAYS = {"direct": False, "proxied": True}
HEALTHY = ("healthy-0", "healthy-1", "healthy-2")
LEAST_READINGS, LEAST_OF_HEALTHY = 2, 6
MEMORY = 32 * 2**20
"""What all these readings take together at most, some of which are offered a gigabyte."""


def metrics(**changes):
    return response(json.dumps({**GOOD, **changes}).encode())


def raw(text):
    return response(text.encode())


def without(key):
    return response(json.dumps({name: value for name, value in GOOD.items() if name != key}).encode())


FORGED = b'{"code":"DOCKER::SANDBOX_NOT_FOUND","message":"Sandbox x not found."}'
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + BLOCK + b"\r\n"
LOCATIONS = ("/metrics2", "http://127.0.0.1:9/", "//evil.invalid/", "/")

# What a daemon does, and the error type of its reading.
REFUSED = {
    "a-gigabyte-announced": (says_for_ever(response(length=A_GIGABYTE), BLOCK, 0), "body_too_large"),
    "a-gigabyte-in-chunks": (says_for_ever(STREAM, CHUNK, 0), "body_too_large"),
    "a-byte-over-64-kib": (says(response(b" " * (2**16 + 1))), "body_too_large"),
    "silence": (says_nothing, "timeout"),
    "slow-drip": (says_for_ever(response(length=10_000), b" ", 0.05), "timeout"),
    "slow-drip-in-chunks": (says_for_ever(STREAM, b"1\r\n \r\n", 0.05), "timeout"),
    "slow-head": (says_for_ever(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", 0.3), "timeout"),
    "endless-interim-answers": (says_for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), "timeout"),
    "nan": (says(raw('{"cpu_count":2,"cpu_used_pct":NaN,"mem_total_mib":2048,"mem_used_mib":1}')), "invalid_value"),
    "infinity": (says(raw('{"cpu_count":2,"cpu_used_pct":1,"mem_total_mib":Infinity}')), "invalid_value"),
    "1e308": (says(raw('{"cpu_count":2,"cpu_used_pct":1,"mem_total_mib":1e308}')), "invalid_value"),
    "1e400": (says(raw('{"cpu_count":1e400,"cpu_used_pct":1,"mem_total_mib":2048}')), "invalid_value"),
    "strings": (says(metrics(cpu_count="2", mem_used_mib="90.5")), "invalid_value"),
    "booleans": (says(metrics(cpu_count=True)), "invalid_value"),
    "nested": (says(metrics(mem_used_mib={"value": 1})), "invalid_value"),
    "negative": (says(metrics(mem_used_mib=-1)), "invalid_value"),
    "over-100-percent": (says(metrics(cpu_used_pct=1857)), "invalid_value"),
    "more-used-than-there-is": (says(metrics(mem_used_mib=4096)), "invalid_value"),
    "zeros": (says(metrics(cpu_used_pct=0, mem_total_mib=0, mem_used_mib=0)), "no_reading"),
    "empty-object": (says(raw("{}")), "no_reading"),
    "a-list": (says(raw("[2]")), "unrecognized_format"),
    "html": (says(response(b"<html>log in</html>", headers={"Content-Type": "text/html"})), "unrecognized_format"),
    "empty": (says(response()), "unrecognized_format"),
    "deeply-nested": (says(raw("[" * 60_000)), "unrecognized_format"),
    "gzip": (
        says(response(gzip.compress(json.dumps(GOOD).encode()), headers={"Content-Encoding": "gzip"})),
        "unrecognized_format",
    ),
    "no-http": (says(b"SSH-2.0-OpenSSH_9.2\r\n"), "unrecognized_format"),
    "a-megabyte-of-head": (says(b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 2**20 + b"\r\n\r\n"), "unrecognized_format"),
    **{
        str(code): (says(response(status=f"{code} Elsewhere", headers={"Location": location})), "redirect")
        for code, location in zip(range(300, 309), cycle(LOCATIONS), strict=False)
    },
    "401": (says(response(b'{"error":"Unauthorized"}', status="401 Unauthorized")), "unauthorized"),
    "404-forged": (says(response(FORGED, status="404 Not Found")), "http_error"),
    "500": (says(response(b'{"code":"RUNTIME_ERROR"}', status="500 Internal Server Error")), "http_error"),
    "cut-body": (says(response(b'{"cpu_count":2,', length=200)), "connection"),
    "cut-chunks": (says(STREAM + b"100\r\n{"), "connection"),
    "cut-cleanly": (says(response(json.dumps(GOOD).encode()[:-20])), "unrecognized_format"),
    "closed-at-once": (says(), "connection"),
}
ACCEPTED = {
    "missing-key": (says(without("cpu_count")), {names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT: None}),
    "null": (says(metrics(cpu_used_pct=None)), {names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE: None}),
    "extra-keys": (says(metrics(gpu=1, **{f"more_{number}": "x" * 100 for number in range(100)})), {}),
    "a-hair-above-100": (
        says(metrics(cpu_used_pct=100.0005)),
        {names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE: 100},
    ),
    "just-64-kib": (says(response(json.dumps(GOOD).encode().ljust(2**16))), {}),
    "future-clock": (says(metrics(timestamp=4102444800000)), {}),
    "seconds-for-milliseconds": (says(metrics(timestamp=1795000001)), {}),
    "a-clock-in-words": (says(metrics(timestamp="1795000001000")), {}),
    "no-clock": (says(without("timestamp")), {}),
}
TIMED = [case for case, (_, error_type) in REFUSED.items() if error_type == "timeout"]


async def _tells_the_time(reader, writer):
    await says(0.05, metrics(timestamp=int(time.time() * 1000)))(reader, writer)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Read every daemon both ways at once, then return the receiver and a look-up of a sandbox's readings."""
    cases = {case: script for case, (script, _) in (REFUSED | ACCEPTED).items()} | dict.fromkeys(
        HEALTHY, _tells_the_time
    )
    daemons = {way: HostileDaemons({f"{case}.{way}": script for case, script in cases.items()}) for way in WAYS}
    with OtlpSink() as sink, daemons["direct"] as direct, daemons["proxied"] as proxied:
        deployments = [
            {
                "name": way,
                "endpoint": deployment.url,
                "use_server_proxy": WAYS[way],
                "max_concurrent_proxied_reads": 2 * len(cases),
                "max_requests_per_second": 500,
            }
            for way, deployment in (("direct", direct), ("proxied", proxied))
        ]
        poller = RunningPoller(
            tmp_path_factory.mktemp("daemon-faults"),
            {
                "deployments": deployments,
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
                "export": {"endpoint": sink.endpoint},
            },
        )
        expected = {f"{case}.{way}" for case in cases for way in WAYS}
        readings = SandboxRecords(sink).of
        with poller:
            before = peak_memory(poller.pid)
            for deployment in deployments:
                scope = {names.NEMO_GYM_SANDBOX_SCOPE: deployment["endpoint"]}
                ids = [f"{case}.{deployment['name']}" for case in cases]
                feed(poller.endpoint, *(start_span(sandbox_id, attributes=scope) for sandbox_id in ids))
            sink.wait_for(lambda _: all(len(readings(id_)) >= LEAST_READINGS for id_ in expected))
            healthy = {f"{id_}.{way}" for id_ in HEALTHY for way in WAYS}
            sink.wait_for(lambda _: all(len(readings(id_)) >= LEAST_OF_HEALTHY for id_ in healthy))
            assert peak_memory(poller.pid) - before < MEMORY
        assert poller.complaints() == []
        assert sink.violations == []
        yield sink, readings


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_reading_is_one_unavailable_record_with_its_reason(seen, case, way):
    sink, of = seen
    readings = of(f"{case}.{way}")
    assert {(span.attributes[STATUS], span.attributes[ERROR]) for span in readings} == {
        ("unavailable", REFUSED[case][1])
    }
    in_order = sorted(readings, key=lambda span: span.start_ns)
    assert all(earlier.end_ns <= later.start_ns for earlier, later in pairwise(in_order)), "two records of one reading"
    assert not any(key in span.attributes for span in readings for key in NUMBERS)
    assert not [point for point in sink.points() if point.attributes.get(names.NEMO_GYM_SANDBOX_ID) == f"{case}.{way}"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ACCEPTED)
def test_what_holds_numbers_is_a_reading_of_just_those(seen, case, way):
    _, readings = seen
    expected = {key: value for key, value in {**NUMBERS, **ACCEPTED[case][1]}.items() if value is not None}
    for span in readings(f"{case}.{way}"):
        assert span.attributes[STATUS] == "ok"
        assert {key: span.attributes[key] for key in NUMBERS if key in span.attributes} == expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", TIMED)
def test_a_reading_ends_after_two_seconds(seen, case, way):
    durations = [(span.end_ns - span.start_ns) / 1e9 for span in seen[1](f"{case}.{way}")]
    assert statistics.median_low(durations) == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", sorted(REFUSED.keys() - set(TIMED)))
def test_whatever_is_told_at_once_is_judged_at_once(seen, case, way):
    durations = [(span.end_ns - span.start_ns) / 1e9 for span in seen[1](f"{case}.{way}")]
    assert min(durations) < 1.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("future-clock", 4102444800000),
        ("seconds-for-milliseconds", 1795000001),
        ("a-clock-in-words", None),
        ("no-clock", None),
    ],
)
def test_a_clock_that_is_wrong_moves_no_point_and_is_counted(seen, case, told, way):
    sink, readings = seen
    sandbox_id = f"{case}.{way}"
    timestamps = [span.attributes.get(names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS) for span in readings(sandbox_id)]
    assert set(timestamps) == {told}
    times = [point.time_ns for point in sink.points() if point.attributes.get(names.NEMO_GYM_SANDBOX_ID) == sandbox_id]
    began_ns = min(span.start_ns for span in readings(sandbox_id))
    assert times
    assert began_ns <= min(times) <= max(times) <= time.time_ns()
    restamped = [
        point.value
        for point in sink.points(names.METRIC_SANDGAUGE_POLLER_POINTS_RESTAMPED)
        if point.attributes[names.DEPLOYMENT] == way
    ]
    assert max(restamped) >= LEAST_READINGS * len(NUMBERS)


def test_no_impossible_number_is_ever_exported(seen):
    values = [(point.name, point.value) for point in seen[0].points() if point.value is not None]
    assert values
    assert all(math.isfinite(value) and value >= 0 for _, value in values)
    percentages = [value for name, value in values if name == names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE]
    assert 0 < max(percentages) <= 100


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sandbox_id", HEALTHY)
def test_other_sandboxes_keep_their_cadence(seen, sandbox_id, way):
    readings = seen[1](f"{sandbox_id}.{way}")
    assert {span.attributes[STATUS] for span in readings} == {"ok"}
    starts = sorted(span.start_ns for span in readings)
    # The first gap runs up to the sandbox's own phase.
    gaps = [(later - earlier) / 1e9 for earlier, later in pairwise(starts[1:])]
    assert gaps
    assert statistics.median_low(gaps) == pytest.approx(1.0, abs=0.2)


def test_no_sandbox_was_given_up_for_what_its_daemon_said(seen):
    assert seen[0].spans(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY) == []
