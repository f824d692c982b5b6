"""How big docs/collector.md says that the feed is, beside what really goes to the poller."""

import re

import pytest

from sandgauge_schemas import names
from support.documents import document, section
from support.otlp_json import captured, from_resource, plain, span, traces
from support.otlp_sink import OtlpSink
from support.real_collector import collector, send

pytestmark = pytest.mark.integration

PAGE = " ".join(section(document("collector.md"), "How big").split())
UUID = "4f823037-ae28-400f-b682-c2eafed2979a"
KEYS = {
    names.NEMO_RUN_ID: "run-2026-11-30-grpo-swe",
    names.NEMO_GYM_ROLLOUT_ID: "1234-15",
    names.NEMO_GYM_SANDBOX_REQUEST_ID: UUID.replace("-", ""),
    names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox",
}
SANDBOX = {**KEYS, names.NEMO_GYM_SANDBOX_ID: UUID}
AMOUNTS = {"cpu": 2.0, "memory_mib": 8192.0, "disk_gib": 20.0}


def amounts(kind):
    """Return what a sandbox of three resources says under `requested` or `submitted.limits`."""
    return {f"nemo.gym.sandbox.{kind}.{resource}": amount for resource, amount in AMOUNTS.items()}


LIFE = [
    (names.SPAN_GYM_SANDBOX_REQUEST, KEYS | amounts("requested") | {names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: 1}),
    (
        names.SPAN_GYM_SANDBOX_START,
        SANDBOX
        | amounts("submitted.requests")
        | amounts("submitted.limits")
        | {
            names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT: False,
            names.NEMO_GYM_SANDBOX_SCOPE: "https://opensandbox.training.svc.cluster.local:8080",
            names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 10.0,
        },
    ),
    (names.SPAN_GYM_SANDBOX_STOP, SANDBOX),
    (names.SPAN_GYM_ROLLOUT, {names.NEMO_RUN_ID: KEYS[names.NEMO_RUN_ID], names.NEMO_GYM_ROLLOUT_ID: "1234-15"}),
]


def feed_bytes(directory, *requests):
    """Return how many bytes the requests are in the feed; the queue counts the same."""
    with OtlpSink() as poller, collector(directory, poller=poller.endpoint) as running:
        assert [send(running, request) for request in requests] == [200] * len(requests)
        poller.wait_for(lambda sink: len(sink.spans()) == len(LIFE))
        return sum(len(one.body) for one in poller.requests())


def stated(pattern):
    (figure,) = re.findall(pattern, PAGE)
    return int(figure.replace(",", ""))


def test_a_sandbox_costs_the_feed_what_the_page_says(tmp_path):
    gym = plain(captured("rollout")["resourceSpans"][0]["resource"]["attributes"])
    spans = [span(name, attributes) for name, attributes in LIFE]
    alone = feed_bytes(tmp_path / "alone", *(traces(from_resource(gym, one)) for one in spans))
    together = feed_bytes(tmp_path / "together", traces(from_resource(gym, *spans)))
    each_alone = stated(r"costs it about ([\d,]+) bytes")
    assert alone == pytest.approx(each_alone, rel=0.1)
    assert together == pytest.approx(stated(r"together they are ([\d,]+) bytes"), rel=0.1)
    assert stated(r"holds ([\d,]+) sandboxes") == pytest.approx(2**30 / each_alone, rel=0.01)
