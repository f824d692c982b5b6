from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_emitter.gym import submission
from sandgauge_emitter.gym.creation import CREATION, Creation
from sandgauge_schemas.records import JoinKeys, Submission
from sandgauge_schemas.resources import SandboxResourceAmounts

SHAPE = {"cpu": "100m", "memory": "1536Ki", "ephemeral-storage": "8Gi", "gpu": "2", "gpu_type": "H100"}
AMOUNTS = SandboxResourceAmounts(cpu=0.1, memory_mib=1.5, disk_gib=8.0, gpu=2, gpu_type="H100")
NOTHING = SandboxResourceAmounts()


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        (SHAPE, None, Submission(limits=AMOUNTS, sdk_default=False)),
        (SHAPE, SHAPE, Submission(limits=AMOUNTS, requests=AMOUNTS, sdk_default=False)),
        ({}, SHAPE, Submission(requests=AMOUNTS, sdk_default=False)),
        ({}, None, Submission(sdk_default=True)),
        (None, {}, Submission(sdk_default=True)),
        ({"vendor.example/fpga": "1"}, None, Submission(sdk_default=False)),
        ({"nvidia.com/gpu": "1"}, None, Submission(limits=SandboxResourceAmounts(gpu=1), sdk_default=False)),
        ({"cpu": "0"}, None, Submission(limits=SandboxResourceAmounts(cpu=0.0), sdk_default=False)),
    ],
)
def test_what_the_client_is_handed_is_what_was_submitted(limits, requests, expected):
    assert submission.submission(limits, requests) == expected


@pytest.mark.parametrize("shape", [{"cpu": "fast"}, {"memory": "8 GB"}, {"gpu": "0.5"}, {"gpu": "many"}, {"cpu": "-1"}])
def test_a_quantity_that_cannot_be_read_is_absent_and_said(caplog, shape):
    assert submission.submission(shape, None) == Submission(sdk_default=False)
    assert "cannot be read" in caplog.text
    assert next(iter(shape.values())) not in caplog.text


@given(st.dictionaries(st.sampled_from(list(SHAPE)), st.text()))
def test_any_text_gives_a_submission(shape):
    read = submission.submission(shape, shape)
    assert read.sdk_default == (not shape)


def connection(url):
    return SimpleNamespace(get_base_url=lambda: url)


@pytest.mark.parametrize(
    ("url", "scope"),
    [
        ("http://opensandbox.example:8080/v1", "http://opensandbox.example:8080"),
        ("https://user:pa55@opensandbox.example/prefix/v1?key=pa55", "https://opensandbox.example/prefix/v1"),
        ("https://user:pa55@opensandbox.example/prefix/v1", "https://opensandbox.example/prefix"),
        ("opensandbox.example", None),
    ],
)
def test_the_scope_is_the_url_that_the_user_wrote_without_its_secrets(caplog, url, scope):
    creation = Creation(JoinKeys(), None)
    token = CREATION.set(creation)
    try:
        call = {"resource": {"cpu": "1"}, "connection_config": connection(url)}
        assert submission.create(lambda **kwargs: kwargs, None, (), call) == call
    finally:
        CREATION.reset(token)
    assert creation.scope == scope
    assert creation.submission.limits.cpu == 1.0
    assert "pa55" not in caplog.text


def test_a_later_try_counts_and_an_ended_creation_is_left_alone():
    creation = Creation(JoinKeys(), None)
    token = CREATION.set(creation)
    try:
        for cpu in ("1", "2"):
            submission.create(dict, None, (), {"resource": {"cpu": cpu}})
        creation.is_open = False
        submission.create(dict, None, (), {"resource": {"cpu": "3"}})
    finally:
        CREATION.reset(token)
    assert creation.submission.limits.cpu == 2.0


def test_a_call_outside_any_creation_is_only_passed_on():
    assert submission.create(lambda image: image, None, ("img:1",), {}) == "img:1"


def test_what_cannot_be_read_is_noted_each_time(monkeypatch):
    notes = []
    monkeypatch.setattr(submission, "complain", notes.append)
    for _ in range(2):
        submission.submission({"cpu": "fast", "gpu_type": "g" * 2000}, None)
    assert [note.split()[0] for note in notes] == ["a", "gpu_type", "a", "gpu_type"]
