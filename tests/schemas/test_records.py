import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_poller.export.messages import export_request
from sandgauge_schemas import names
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.quantity import Quantity, parse_quantity
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    Sidecar,
    StartRecord,
    Statistics,
    Submission,
    SummaryRecord,
    UsageRecord,
)
from sandgauge_schemas.resources import LARGEST_AMOUNT, SandboxResourceAmounts, SandboxResources
from support import record_strategies
from support.conformance import trace_violations
from support.otlp_proto import encoded_span, spans_of

RECORDS = {
    names.SPAN_GYM_SANDBOX_REQUEST: (RequestRecord, record_strategies.requests),
    names.SPAN_GYM_SANDBOX_START: (StartRecord, record_strategies.starts),
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION: (AllocationRecord, record_strategies.allocation_records),
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE: (SampleRecord, record_strategies.samples),
    f"{names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE} of a usage source": (UsageRecord, record_strategies.usages),
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY: (SummaryRecord, record_strategies.summaries),
}
each_record = pytest.mark.parametrize("span", RECORDS)
SANDBOX = "nemo.gym.sandbox"


@each_record
@given(data=st.data())
def test_a_record_comes_back_equal_from_its_attributes(span, data):
    kind, strategy = RECORDS[span]
    record = data.draw(strategy)
    assert kind.from_attributes(record.to_attributes()) == record


@each_record
@given(data=st.data())
def test_a_record_on_the_wire_keeps_the_contract_and_comes_back_equal(span, data):
    kind, strategy = RECORDS[span]
    record = data.draw(strategy)
    payload = encoded_span(
        name=span.partition(" ")[0],
        trace_id=b"\x01" * 16,
        parent_span_id=b"\x02" * 8,
        span_id=b"\x03" * 8,
        start_ns=1,
        end_ns=2,
        attributes=record.to_attributes(),
        error=False,
    )
    request = ExportTraceServiceRequest.FromString(export_request([payload]))
    assert trace_violations(request) == []
    (seen,) = spans_of(request)
    assert kind.from_attributes(seen.attributes) == record


@each_record
@given(data=st.data(), wrong=st.sampled_from([None, "", [1, 2], {"a": 1}, b"x", math.nan, math.inf, 10**400]))
def test_a_value_that_cannot_be_counts_as_absent(span, data, wrong):
    kind, strategy = RECORDS[span]
    attributes = data.draw(strategy).to_attributes()
    key = data.draw(st.sampled_from(sorted(attributes)))
    without = {name: value for name, value in attributes.items() if name != key}
    if wrong != 10**400 or not isinstance(attributes[key], int):  # a whole number's bound is the decoder's business
        assert kind.from_attributes(attributes | {key: wrong}) == kind.from_attributes(without)


@each_record
@given(data=st.data())
def test_a_value_of_another_type_counts_as_absent(span, data):
    kind, strategy = RECORDS[span]
    attributes = data.draw(strategy).to_attributes()
    key = data.draw(st.sampled_from(sorted(attributes)))
    without = {name: value for name, value in attributes.items() if name != key}
    others = {str: 7, bool: 1, int: True, float: True, tuple: "text"}
    other = others[next(kind for kind in others if isinstance(attributes[key], kind))]
    assert kind.from_attributes(attributes | {key: other}) == kind.from_attributes(without)


@each_record
@given(
    data=st.data(),
    values=st.lists(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())),
)
def test_no_attributes_whatever_are_an_error(span, data, values):
    kind, strategy = RECORDS[span]
    keys = sorted(data.draw(strategy).to_attributes())
    kind.from_attributes(dict(zip(keys, values, strict=False)))


def test_what_is_not_known_is_absent_and_zero_is_a_value():
    assert SandboxResourceAmounts(cpu=0.0, gpu=0).to_attributes("p") == {"p.cpu": 0.0, "p.gpu": 0}
    assert SandboxResourceAmounts().to_attributes("p") == {}
    assert not SandboxResourceAmounts()
    assert SandboxResourceAmounts(gpu=0)
    assert JoinKeys(sandbox_id="s").to_attributes() == {f"{SANDBOX}.id": "s"}


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("cpu", "100m", 0.1),
        ("memory_mib", "1536Ki", 1.5),
        ("memory_mib", "8Gi", 8192.0),
        ("memory_mib", "129M", 123.02398681640625),
    ],
)
def test_worked_quantities_go_out_as_the_contract_says(resource, quantity, expected):
    parsed = parse_quantity(quantity)
    assert isinstance(parsed, Quantity)
    amount = parsed.to_cores() if resource == "cpu" else parsed.to_mebibytes()
    found = SandboxResourceAmounts(**{resource: amount}).to_attributes("p")
    assert found == {f"p.{resource}": expected}
    assert isinstance(found[f"p.{resource}"], float)


@pytest.mark.parametrize(
    ("kind", "scope", "id_"),
    [
        ("kubernetes", "http://osb.example:8080", "namespaces/training/pods/sandbox-7f3a"),
        ("docker-container", "unix:///var/run/docker.sock", "ab" * 32),
        ("ecs-task", "training", "arn:aws:ecs:eu-west-1:123456789012:task/training/0b1c2d3e"),
        ("provider-sandbox", "https://sandboxes.example", "i3kd81hx"),
    ],
)
def test_every_kind_of_designator_is_whole_or_absent(kind, scope, id_):
    record = AllocationRecord(
        keys=JoinKeys(sandbox_id="s", provider="p"),
        status=ReadingStatus(source="docker.inspect", error_type="no_supported_quantity"),
        allocation=Allocation(designator=Identity(kind, scope, id_)),
    )
    attributes = record.to_attributes()
    prefix = f"{SANDBOX}.allocation.designator"
    parts = {f"{prefix}.kind": kind, f"{prefix}.scope": scope, f"{prefix}.id": id_}
    assert {key: value for key, value in attributes.items() if key.startswith(prefix)} == parts
    assert AllocationRecord.from_attributes(attributes) == record
    for part in parts:
        torn = {key: value for key, value in attributes.items() if key != part}
        assert AllocationRecord.from_attributes(torn).allocation.designator is None


def test_a_request_with_sidecars_keeps_them_apart_from_the_main_shape():
    record = RequestRecord(
        keys=JoinKeys(request_id="r", provider="opensandbox"),
        requested=SandboxResources(cpu=2, memory_mib=4096, gpu=1, gpu_type="a100"),
        sidecars=(Sidecar(name="egress", resources=SandboxResources(memory_mib=256)),),
    )
    assert record.to_attributes() == {
        f"{SANDBOX}.request.id": "r",
        f"{SANDBOX}.provider": "opensandbox",
        f"{SANDBOX}.requested.count": 1,
        f"{SANDBOX}.requested.cpu": 2.0,
        f"{SANDBOX}.requested.memory_mib": 4096,
        f"{SANDBOX}.requested.gpu": 1,
        f"{SANDBOX}.requested.gpu_type": "a100",
        f"{SANDBOX}.requested.sidecar_count": 1,
        f"{SANDBOX}.requested.sidecar.0.name": "egress",
        f"{SANDBOX}.requested.sidecar.0.memory_mib": 256,
    }


def test_a_declared_shape_has_whole_memory_and_an_observed_one_a_fraction():
    declared = SandboxResources(memory_mib=512).to_attributes("p")["p.memory_mib"]
    observed = SandboxResourceAmounts(memory_mib=512).to_attributes("p")["p.memory_mib"]
    assert (type(declared), type(observed)) == (int, float)


def test_memory_with_a_fraction_is_no_declared_shape():
    read = SandboxResources.from_attributes({"p.memory_mib": 1.5, "p.disk_gib": 2.0, "p.cpu": 0.5}, "p")
    assert read == SandboxResources(disk_gib=2, cpu=0.5)


@pytest.mark.parametrize("key", ["cpu", "memory_mib", "disk_gib", "gpu"])
@pytest.mark.parametrize("value", [-1, -0.5, 2**63, 1e300, -math.inf])
@pytest.mark.parametrize("kind", [SandboxResourceAmounts, SandboxResources])
def test_an_amount_that_cannot_be_is_absent(kind, key, value):
    assert kind.from_attributes({f"p.{key}": value}, "p") == kind()


def test_a_forged_count_costs_no_more_than_the_bound():
    forged = {f"{SANDBOX}.requested.sidecar_count": 2**62, f"{SANDBOX}.allocation.component_count": 2**62}
    assert len(RequestRecord.from_attributes(forged).sidecars) == 256
    assert len(Allocation.from_attributes(forged).components) == 256
    negative = {f"{SANDBOX}.allocation.component_count": -3}
    assert Allocation.from_attributes(negative).components == ()


def test_an_unavailable_reading_always_has_an_error_type():
    assert ReadingStatus(source="opensandbox.execd").to_attributes() == {
        f"{SANDBOX}.resource.status": "ok",
        f"{SANDBOX}.resource.source": "opensandbox.execd",
    }
    assert ReadingStatus.from_attributes({f"{SANDBOX}.resource.status": "unavailable"}).error_type == "no_reading"
    ok = {f"{SANDBOX}.resource.status": "ok", "error.type": "timeout"}
    assert ReadingStatus.from_attributes(ok).error_type is None


def test_placement_is_whole_or_absent():
    prefix = f"{SANDBOX}.allocation.host"
    assert Allocation.from_attributes({f"{prefix}.kind": "docker-host", f"{prefix}.id": "h"}).host is None


def test_statistics_are_whole_or_absent():
    whole = Statistics(1, 2, 3, 4).to_attributes("p")
    assert whole == {"p.min": 1.0, "p.mean": 2.0, "p.max": 3.0, "p.last": 4.0}
    del whole["p.last"]
    assert Statistics.from_attributes(whole, "p") is None


def test_components_keep_their_order_and_their_sides():
    allocation = Allocation(
        components=(
            ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(cpu=0.5, memory_mib=1.5)),
            ComponentAllocation(name="egress", requests=SandboxResourceAmounts(gpu=2)),
        )
    )
    assert allocation.to_attributes() == {
        f"{SANDBOX}.allocation.component_count": 2,
        f"{SANDBOX}.allocation.component.0.name": "sandbox",
        f"{SANDBOX}.allocation.component.0.limits.cpu": 0.5,
        f"{SANDBOX}.allocation.component.0.limits.memory_mib": 1.5,
        f"{SANDBOX}.allocation.component.1.name": "egress",
        f"{SANDBOX}.allocation.component.1.requests.gpu": 2,
    }


def test_a_submission_left_to_the_sdk_says_so_and_has_no_numbers():
    assert Submission(sdk_default=True).to_attributes() == {f"{SANDBOX}.submitted.sdk_default": True}


@pytest.mark.parametrize(("given_interval", "read"), [(0, 0), (2.5, 2.5), (-1, None), (math.nan, None), ("2", None)])
def test_an_interval_hint_may_be_zero_and_never_negative(given_interval, read):
    assert StartRecord.from_attributes({f"{SANDBOX}.sample_interval_s": given_interval}).sample_interval_s == read


@pytest.mark.parametrize(
    "shape",
    [
        {"cpu": -1},
        {"cpu": math.nan},
        {"cpu": math.inf},
        {"cpu": 1e300},
        {"memory_mib": -1},
        {"memory_mib": 10**400},
        {"disk_gib": LARGEST_AMOUNT + 1},
        {"gpu": -1},
    ],
)
def test_a_shape_that_cannot_be_is_refused_by_name(shape):
    with pytest.raises(ValueError, match=f"^{next(iter(shape))}: must be a number from 0 to"):
        SandboxResources(**shape)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"cpu": "2"}, "cpu: str is not int or float"),
        ({"cpu": True}, "cpu: bool is not int or float"),
        ({"memory_mib": 512.0}, "memory_mib: float is not int"),
        ({"disk_gib": "10"}, "disk_gib: str is not int"),
        ({"gpu": 0.5}, "gpu: float is not int"),
        ({"gpu_type": 5}, "gpu_type: int is not a string"),
    ],
)
def test_a_shape_of_the_wrong_type_is_refused_by_name(shape, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        SandboxResources(**shape)


@given(record=record_strategies.requests | record_strategies.starts)
def test_attributes_survive_json(record):
    attributes = json.loads(json.dumps(record.to_attributes()))
    assert type(record).from_attributes(attributes) == record
