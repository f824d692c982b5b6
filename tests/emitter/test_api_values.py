"""What the neutral API takes of what it is given: nothing is made up, and what cannot be true is left out."""

import logging

import pytest

import sandgauge_emitter
from sandgauge_schemas import names
from sandgauge_schemas.records import Sidecar
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.emitted import only, requested, resource_keys

START = names.SPAN_GYM_SANDBOX_START


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, {}),
        ({}, {}),
        (SandboxResources(), {}),
        (SandboxResources(disk_gib=10), {"disk_gib": 10}),
        (SandboxResourceAmounts(cpu=0.0), {"cpu": 0.0}),
        ({"cpu": 0, "memory_mib": None, "gpu": 0, "gpu_type": ""}, {"cpu": 0.0, "gpu": 0}),
        ({"cpu": 0.5, "memory_mib": 512.0, "disk_gib": 1}, {"cpu": 0.5, "memory_mib": 512, "disk_gib": 1}),
    ],
)
def test_what_is_not_declared_is_absent_and_a_declared_zero_is_zero(on, caplog, resources, expected):
    sandgauge_emitter.record_request(provider="docker", resources=resources)
    found = requested(only(on.spans()))
    assert found == expected
    assert {key: type(value) for key, value in found.items()} == {key: type(value) for key, value in expected.items()}
    assert not caplog.records


@pytest.mark.parametrize(
    "resources",
    [
        {"memory_mib": 512.5},
        {"cpu": float("nan")},
        {"cpu": float("inf")},
        {"cpu": -1},
        {"cpu": "2"},
        {"cpu": True},
        {"gpu": 0.5},
        {"gpu": 10**400},
        {"disk_gib": 2**63},
        {"gpu_type": "\ud800"},
        {"gpu_type": "x" * 2000},
        {"memory": "pa55"},
        "pa55",
    ],
)
def test_a_value_that_cannot_be_true_is_left_out_and_said_without_quoting_it(on, caplog, resources):
    sandgauge_emitter.record_request(provider="docker", resources=resources)
    assert requested(only(on.spans())) == {}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "resources" in record.getMessage()
    assert "pa55" not in record.getMessage()


def test_nothing_submitted_is_nothing_submitted(on):
    sandgauge_emitter.record_request(provider="opensandbox").started("sbx-1", sdk_default=True)
    submitted = resource_keys(only(on.spans(START)), "nemo.gym.sandbox.submitted")
    assert submitted == {"sdk_default": True}


def test_sidecars_stand_beside_the_main_shape(on):
    sandgauge_emitter.record_request(
        provider="kubernetes",
        resources={"cpu": 4},
        sidecars=[
            ("egress", {"cpu": 0.1, "memory_mib": 64}),
            Sidecar(name="cache", resources=SandboxResources(gpu=1)),
            ("bare", None),
        ],
    )
    assert requested(only(on.spans())) == {
        "cpu": 4.0,
        "sidecar_count": 3,
        "sidecar.0.name": "egress",
        "sidecar.0.cpu": 0.1,
        "sidecar.0.memory_mib": 64,
        "sidecar.1.name": "cache",
        "sidecar.1.gpu": 1,
        "sidecar.2.name": "bare",
    }


def test_more_sidecars_than_a_reader_takes_are_cut(on, caplog):
    sandgauge_emitter.record_request(provider="kubernetes", sidecars=[("s", None)] * 300)
    (span,) = on.finished()
    assert span.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT] == 256
    assert "only the first 256 sidecars" in caplog.text


@pytest.mark.parametrize("provider", [None, "", "\ud800"])
def test_without_a_provider_nothing_is_recorded(on, caplog, provider):
    sandgauge_emitter.record_request(provider=provider).started("sbx-1")
    assert not on.spans()
    assert "provider" in caplog.text


@pytest.mark.parametrize("given", ["no image: registry.example/pa55", "", "x" * 200, None, ValueError("pa55")])
def test_what_looks_like_a_message_is_no_error_type(on, given):
    sandgauge_emitter.record_request(provider="opensandbox").failed(given)
    assert on.finished()[-1].status.description == "_OTHER"
    assert "pa55" not in on.finished()[-1].to_json()


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None, True])
def test_a_count_that_is_none_is_said_and_taken_as_one(on, caplog, count):
    sandgauge_emitter.record_request(provider="opensandbox", count=count)
    assert only(on.spans()).attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] == 1
    assert "count" in caplog.text


@pytest.mark.parametrize("sandbox_id", [None, "", "\ud800"])
def test_a_start_without_an_id_is_not_recorded_for_it_would_say_not_created(on, caplog, sandbox_id):
    sandgauge_emitter.record_request(provider="opensandbox").started(sandbox_id)
    assert not on.spans(START)
    assert "sandbox_id" in caplog.text


def test_ids_of_other_types_are_taken_as_text(on):
    sandgauge_emitter.record_request(provider="opensandbox", rollout_id=17).started(1234)
    attributes = only(on.spans(START)).attributes
    assert attributes[names.NEMO_GYM_ROLLOUT_ID] == "17"
    assert attributes[names.NEMO_GYM_SANDBOX_ID] == "1234"


@pytest.mark.parametrize("interval", [-1, float("nan"), "10s"])
def test_an_interval_that_is_none_is_absent(on, caplog, interval):
    sandgauge_emitter.record_request(provider="opensandbox", sample_interval_s=interval).started("sbx-1")
    assert names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S not in only(on.spans(START)).attributes
    assert "sample_interval_s" in caplog.text


def test_an_interval_of_nothing_is_a_wish(on):
    sandgauge_emitter.record_request(provider="opensandbox", sample_interval_s=0).started("sbx-1")
    assert only(on.spans(START)).attributes[names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S] == 0.0


def test_a_scope_that_is_no_url_is_left_out(on, caplog):
    sandgauge_emitter.record_request(provider="opensandbox").started("sbx-1", scope="user:pa55@osb.example")
    assert names.NEMO_GYM_SANDBOX_SCOPE not in only(on.spans(START)).attributes
    assert "scope is not a URL" in caplog.text
    assert "pa55" not in caplog.text
