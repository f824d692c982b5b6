"""Docker's inspect answers: what is taken from them, and what never is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.docker.inspect import parse_container
from sandgauge_poller.reading.docker.limits import read_limits
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import AllocationNote
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.docker_answers import CONTAINER_ID, NEVER, SECRET, inspect_answer

GPU = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
UNSET = {"NanoCpus": 0, "CpuQuota": 0, "CpuPeriod": 0, "CpusetCpus": "", "Memory": 0, "DeviceRequests": None}
STARTED, ENDED = "2026-11-30T07:40:00.123456789Z", "2026-11-30T07:41:00.5Z"
STARTED_NS = 1_796_024_400_123_456_000
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({}, {}),
        (UNSET, {}),
        ({"NanoCpus": 600_000_000}, {"cpu": 0.6}),
        ({"CpuQuota": 20_000, "CpuPeriod": 0}, {"cpu": 0.2}),
        ({"CpuQuota": 150_000, "CpuPeriod": 50_000}, {"cpu": 3.0}),
        ({"CpuQuota": -1, "CpuPeriod": 50_000}, {}),
        ({"CpusetCpus": "0-2,5"}, {"cpu": 4}),
        ({"CpusetCpus": "0, 0,0-1"}, {"cpu": 2}),
        ({"CpusetCpus": "1", "NanoCpus": 2_500_000_000}, {"cpu": 1}),
        ({"CpusetCpus": "0-3", "NanoCpus": 2_500_000_000}, {"cpu": 2.5}),
        ({"Memory": 134_217_728, "MemorySwap": 268_435_456}, {"memory_mib": 128.0}),
        ({"Memory": 1_572_864}, {"memory_mib": 1.5}),
        ({"Memory": -1}, {}),
        # Weights and wishes are no requests.
        ({"CpuShares": 512, "MemoryReservation": 67_108_864, "PidsLimit": 100, "MemorySwap": -1}, {}),
        ({"StorageOpt": {"size": "1G"}}, {"disk_gib": 1.0}),
        ({"StorageOpt": {"Size": "512MiB"}}, {"disk_gib": 0.5}),
        ({"StorageOpt": {"size": "1.5 gb"}}, {"disk_gib": 1.5}),
        ({"StorageOpt": {"size": "1073741824"}}, {"disk_gib": 1.0}),
        ({"StorageOpt": {"size": "0"}}, {}),
        ({"StorageOpt": {"lowerdir": "x"}}, {}),
        ({"StorageOpt": None}, {}),
        ({"DeviceRequests": [GPU | {"Count": 2}]}, {"gpu": 2}),
        ({"DeviceRequests": [GPU | {"Count": -1}]}, {}),
        ({"DeviceRequests": [GPU | {"Count": 2}, GPU | {"Count": -1}]}, {}),
        ({"DeviceRequests": [GPU | {"DeviceIDs": ["0", "1", "1"]}, GPU | {"Count": 1}]}, {"gpu": 3}),
        ({"DeviceRequests": [GPU | {"DeviceIDs": ["GPU-0aa1b2c3-4455-6677-8899-aabbccddeeff"]}]}, {"gpu": 1}),
        ({"DeviceRequests": [GPU | {"DeviceIDs": ["MIG-0aa1b2c3-4455-6677-8899-aabbccddeeff"]}]}, {}),
        ({"DeviceRequests": [GPU | {"DeviceIDs": ["0:1"]}]}, {}),
        ({"DeviceRequests": [GPU]}, {}),
        ({"DeviceRequests": [GPU | {"Count": 4, "Capabilities": [["tpu"]]}]}, {}),
        ({"DeviceRequests": [GPU | {"Count": 1, "Capabilities": [["tpu"], ["nvidia", "gpu"]]}]}, {"gpu": 1}),
        ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["vendor.example/device=0"], "Capabilities": None}]}, {}),
    ],
)
def test_limits_are_those_that_docker_enforces(host, expected):
    assert read_limits(host) == (SandboxResourceAmounts(**expected), frozenset())


@pytest.mark.parametrize(
    "odd",
    [
        {"NanoCpus": "600000000"},
        {"NanoCpus": True},
        {"NanoCpus": 10**30},
        {"CpuQuota": 0.5},
        {"CpusetCpus": "0-"},
        {"CpusetCpus": "3-1"},
        {"CpusetCpus": "0-99999"},
        {"CpusetCpus": [0]},
        {"StorageOpt": {"size": "lots"}},
        {"StorageOpt": {"size": 1}},
        {"StorageOpt": "1G"},
        {"DeviceRequests": {}},
        {"DeviceRequests": [1]},
        {"DeviceRequests": [GPU | {"Capabilities": ["gpu"]}]},
        {"DeviceRequests": [GPU | {"Count": "1"}]},
        {"DeviceRequests": [GPU | {"DeviceIDs": "0"}]},
    ],
)
def test_a_limit_in_another_form_is_absent_and_noted_and_hides_no_other(odd):
    expected = SandboxResourceAmounts(memory_mib=64.0)
    assert read_limits({"Memory": 64 * 2**20, **odd}) == (expected, {AllocationNote.UNREADABLE_QUANTITY})


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"Status": "created", "StartedAt": NEVER}, (SandboxState.PENDING, False, None)),
        ({"Status": "running"}, (SandboxState.RUNNING, False, STARTED_NS)),
        ({"Status": "paused"}, (SandboxState.PAUSED, False, STARTED_NS)),
        ({"Status": "restarting", "OOMKilled": True, "FinishedAt": ENDED}, (SandboxState.PENDING, True, STARTED_NS)),
        ({"Status": "removing"}, (SandboxState.STOPPING, False, STARTED_NS)),
        ({"Status": "exited", "FinishedAt": ENDED}, (SandboxState.TERMINATED, False, STARTED_NS)),
        ({"Status": "exited", "ExitCode": 143, "FinishedAt": ENDED}, (SandboxState.FAILED, False, STARTED_NS)),
        (
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True, "FinishedAt": ENDED},
            (SandboxState.FAILED, True, STARTED_NS),
        ),
        ({"Status": "dead", "ExitCode": 137, "FinishedAt": ENDED}, (SandboxState.FAILED, False, STARTED_NS)),
        ({"Status": "hibernating"}, (SandboxState.UNKNOWN, False, STARTED_NS)),
        # A child was killed; from version 24 on the flag says so at once.
        ({"Status": "running", "OOMKilled": True}, (SandboxState.RUNNING, True, STARTED_NS)),
        # It was started again after an end: older daemons still show why that end came.
        ({"Status": "running", "OOMKilled": True, "FinishedAt": ENDED}, (SandboxState.RUNNING, None, STARTED_NS)),
        ({"Status": "running", "OOMKilled": "yes", "StartedAt": "soon"}, (SandboxState.RUNNING, None, None)),
    ],
)
def test_the_state_says_how_it_lives_and_whether_memory_was_the_reason(state, expected):
    usual = {"StartedAt": STARTED, "FinishedAt": NEVER, "OOMKilled": False, "ExitCode": 0}
    container = parse_container(inspect_answer(state=usual | state))
    assert (container.state, container.oom_killed, container.started_ns) == expected


@pytest.mark.parametrize(
    ("sandbox_id", "is_it"),
    [
        ("nemo-gym-1", True),
        (CONTAINER_ID, True),
        (CONTAINER_ID[:12], True),
        (CONTAINER_ID[:11], False),
        (f"{CONTAINER_ID[:11]}f", False),
        ("nemo-gym", False),
        (CONTAINER_ID[:32], False),
        ("/nemo-gym-1", False),
    ],
)
def test_a_container_is_called_by_its_name_or_its_id(sandbox_id, is_it):
    assert parse_container(inspect_answer()).is_called(sandbox_id) is is_it


@pytest.mark.parametrize(("name", "is_it"), [("cd" * 6, False), ("cd" * 32, False), ("cd" * 16, True)])
def test_a_name_that_looks_like_an_id_is_not_taken_for_one(name, is_it):
    assert parse_container(inspect_answer(name=name)).is_called(name) is is_it


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"[" * 5000, b'{"message":"No such container"}', b"\xff"])
def test_another_answer_is_no_container(body):
    assert parse_container(body) is None


@given(key=st.sampled_from(["Id", "Name", "State", "HostConfig"]), value=json_values)
def test_no_value_in_any_place_is_an_error(key, value):
    parse_container(json.dumps(json.loads(inspect_answer()) | {key: value}).encode())


@given(host=st.dictionaries(st.sampled_from([*UNSET, "StorageOpt"]), json_values))
def test_limits_of_any_values_are_readable_amounts_or_absent(host):
    amounts, _ = read_limits(host)
    assert SandboxResourceAmounts.from_attributes(amounts.to_attributes("p"), "p") == amounts


def test_nothing_shows_the_secrets_of_a_container():
    body = inspect_answer()
    assert SECRET.encode() in body
    assert SECRET not in repr(parse_container(body))
