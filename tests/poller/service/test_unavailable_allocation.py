"""A control plane that cannot tell the allocation: one record that says why, and nothing made up."""

import pytest

from sandgauge_demo.deployment import Route
from sandgauge_schemas import names
from support.feed import feed, start_span

ALLOCATION, SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE

DOCKER_WITHOUT_LIMITS = """\
Container ID:   41477b23ddb3
Name:           sandbox-x
Status:         running
Running:        True
OOMKilled:      False

Resources:
  PIDs Limit:   256

Network:
  bridge: 172.17.0.2"""

NOT_AN_INSPECT_TEXT = """\
### hello ###

Resources:
  CPU:          9.00 cores"""

NOT_FOUND = '{"code":"DOCKER::SANDBOX_NOT_FOUND","message":"Sandbox x not found."}'


@pytest.fixture(
    params=[
        ({"status": 404, "body": NOT_FOUND, "content_type": "application/json"}, "not_found", None),
        ({"status": 500, "body": "boom"}, "http_error", None),
        ({"status": 200, "body": NOT_AN_INSPECT_TEXT}, "unrecognized_format", None),
        ({"status": 200, "body": ""}, "unrecognized_format", None),
        ({"status": 200, "body": DOCKER_WITHOUT_LIMITS}, "no_supported_quantity", "41477b23ddb3"),
    ],
    ids=["404", "500", "garbage", "empty", "no-supported-quantity"],
)
def case(request):
    return request.param


def test_one_unavailable_record_however_often_it_is_asked(osb, make_poller, otlp_sink, case):
    fault, error_type, placement = case
    sandbox_id = osb.create(limits={"cpu": "500m", "memory": "128Mi"})
    osb.fault(Route.INSPECT, **fault)
    with make_poller(allocation={"refresh_interval": "1s"}) as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        osb.wait_for(2, Route.INSPECT)
        otlp_sink.wait_for(lambda seen: len(seen.spans(SAMPLE)) >= 2)
    (record,) = otlp_sink.spans(ALLOCATION)
    attributes = record.attributes
    assert attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "unavailable"
    assert attributes[names.ERROR_TYPE] == error_type
    assert attributes.get(names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_ID) == placement
    prefixes = (
        names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED,
        names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS,
        names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS,
    )
    assert not [key for key in attributes if key.startswith(prefixes)]
    # Where no container is, none is called once that is known; nothing else about an allocation keeps a reading back.
    _, *readings = [span.attributes.get(names.ERROR_TYPE) for span in otlp_sink.spans(SAMPLE)]
    assert set(readings) == {"not_found" if error_type == "not_found" else None}


def test_placement_stays_known_when_quantities_get_lost(osb, make_poller, otlp_sink):
    sandbox_id = osb.create(limits={"cpu": "500m", "memory": "128Mi"})
    with make_poller(allocation={"refresh_interval": "1s"}) as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        otlp_sink.wait_for(lambda seen: len(seen.spans(ALLOCATION)) == 1)
        osb.fault(Route.INSPECT, status=200, body="gibberish")
        otlp_sink.wait_for(lambda seen: len(seen.spans(ALLOCATION)) == 2)
    known, lost = (span.attributes for span in otlp_sink.spans(ALLOCATION))
    assert lost[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "unavailable"
    designator = names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_ID
    assert lost[designator] == known[designator]
    assert names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT not in lost


def test_quantities_arrive_exactly(osb, make_poller, otlp_sink):
    limits = {
        "cpu": "100m",
        "memory": "1536Ki",
        "ephemeral-storage": "8Gi",
        "nvidia.com/gpu": "2",
        "example.com/widget": "3",
    }
    kubernetes = osb.create(runtime="kubernetes", limits=limits, requests={"memory": "129M"})
    with make_poller() as poller:
        feed(poller.endpoint, start_span(kubernetes))
        otlp_sink.wait_for(lambda seen: len(seen.spans(ALLOCATION)) == 1)
    (record,) = otlp_sink.spans(ALLOCATION)
    prefix = names.allocation_component_limits_prefix(0)
    found = {key[len(prefix) + 1 :]: value for key, value in record.attributes.items() if key.startswith(prefix)}
    assert found == {"cpu": 0.1, "memory_mib": 1.5, "disk_gib": 8.0, "gpu": 2}
    requested = record.attributes[f"{names.allocation_component_requests_prefix(0)}.memory_mib"]
    assert requested == 129_000_000 / 1048576
