"""Docker as a provider: what becomes of the answers of a daemon, or of what stands in front of it."""

import asyncio
import logging

import pytest
from aiohttp import web

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.provider import DockerProvider
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import AllocationNote, ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.docker_answers import CONTAINER_ID, SECRET, inspect_answer
from support.hand_clock import HandClock
from support.stub_docker import INFO, INSPECT, LIMITED, NAME, StubDocker, no_such_container

GONE = {"status": 404, "json": no_such_container(NAME)}


@pytest.fixture
async def docker():
    async with StubDocker() as server:
        yield server


@pytest.fixture
async def provider(docker):
    deployment = Deployment(name="machine", provider="docker", endpoint=docker.url)
    opened = DockerProvider(deployment, Engine(docker.url, None, timeout_s=60, clock=SYSTEM_CLOCK))
    yield opened
    await opened.close()


async def test_an_allocation_is_what_the_daemon_enforces_and_where(docker, provider):
    reading = await provider.read_allocation(NAME)
    assert reading.error_type is None
    assert reading.source is ResourceSource.DOCKER_INSPECT
    (component,) = reading.allocation.components
    assert (component.name, component.requests) == ("sandbox", SandboxResourceAmounts())
    assert component.limits == SandboxResourceAmounts(cpu=0.6, memory_mib=128.0)
    assert reading.allocation.notes == ()
    assert reading.allocation.designator == Identity("docker-container", docker.url, CONTAINER_ID)
    assert reading.allocation.host == Identity("docker-host", docker.url, "machine-7")
    assert (reading.oom_killed, reading.restarts) == (False, None)
    assert reading.started_ns == 1_796_024_400_500_000_000
    assert reading.window.end_ns >= reading.window.start_ns


async def test_placement_is_known_although_nothing_is_limited(docker, provider):
    docker.inspected(host={"CpuShares": 512, "MemoryReservation": 2**26, "NanoCpus": "many"})
    reading = await provider.read_allocation(NAME)
    assert reading.error_type is ErrorType.NO_SUPPORTED_QUANTITY
    assert reading.allocation.notes == (AllocationNote.UNREADABLE_QUANTITY,)
    assert reading.allocation.designator is not None


async def test_a_sandbox_is_found_by_its_id_and_never_by_what_an_id_begins_with(docker, provider):
    for sandbox_id in (CONTAINER_ID, CONTAINER_ID[:12], "ab"):
        docker.say(f"/v1.41/containers/{sandbox_id}/json", text=inspect_answer(host=LIMITED).decode())
    for sandbox_id in (CONTAINER_ID, CONTAINER_ID[:12]):
        assert (await provider.read_allocation(sandbox_id)).error_type is None
    assert (await provider.read_allocation("ab")).error_type is ErrorType.NOT_FOUND
    assert (await provider.read_status("ab")).state is SandboxState.NOT_FOUND


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        (GONE, ErrorType.NOT_FOUND),
        ({"status": 404, "json": {"message": "page not found"}}, ErrorType.HTTP_ERROR),
        ({"status": 404, "text": "<html>"}, ErrorType.HTTP_ERROR),
        ({"status": 403, "text": "no"}, ErrorType.UNAUTHORIZED),
        ({"status": 500, "json": {"message": "Multiple IDs found with provided prefix: 4"}}, ErrorType.HTTP_ERROR),
        ({"status": 307, "text": ""}, ErrorType.REDIRECT),
        ({"text": "{}"}, ErrorType.UNRECOGNIZED_FORMAT),
        ({"text": "x" * (1024**2 + 1)}, ErrorType.BODY_TOO_LARGE),
    ],
)
async def test_why_a_container_is_not_known(docker, provider, answer, error_type):
    docker.say(INSPECT, **answer)
    reading, status = await provider.read_allocation(NAME), await provider.read_status(NAME)
    assert (reading.error_type, reading.allocation.components) == (error_type, ())
    if error_type is ErrorType.NOT_FOUND:
        assert (status.state, status.error_type) == (SandboxState.NOT_FOUND, None)
        assert provider.last_answer().error_type is None
    else:
        assert (status.state, status.error_type) == (None, error_type)
        assert provider.last_answer().error_type is error_type


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, SandboxState.RUNNING),
        ({"Status": "paused"}, SandboxState.PAUSED),
        ({"Status": "exited"}, SandboxState.TERMINATED),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, SandboxState.FAILED),
    ],
)
async def test_the_state_is_that_of_the_container(docker, provider, state, expected):
    docker.inspected(state=state)
    status = await provider.read_status(NAME)
    assert (status.state, status.error_type, status.expires_at_ns) == (expected, None, None)


@pytest.mark.parametrize("answer", [{"status": 403, "text": "no"}, {"json": {"Name": ""}}, {"text": "["}])
async def test_a_machine_that_is_not_told_is_asked_for_once(docker, provider, answer):
    docker.say(INFO, **answer)
    for _ in range(2):
        assert (await provider.read_allocation(NAME)).allocation.host is None
    assert docker.paths.count(INFO) == 1


async def test_many_readings_at_once_ask_for_the_machine_together(docker, provider):
    readings = await asyncio.gather(*(provider.read_allocation(NAME) for _ in range(20)))
    assert {reading.allocation.host.id for reading in readings} == {"machine-7"}
    assert docker.paths.count(INFO) == 1


async def test_a_machine_whose_name_did_not_come_is_asked_for_again(docker, provider):
    async def broken(request: web.Request) -> web.StreamResponse:
        request.transport.abort()
        return web.Response()

    docker.on(INFO, broken)
    assert (await provider.read_allocation(NAME)).allocation.host is None
    docker.say(INFO, json={"Name": "machine-7"})
    assert (await provider.read_allocation(NAME)).allocation.host is not None


async def test_no_daemon_no_answer(tmp_path, caplog):
    endpoint = f"unix://{tmp_path}/docker.sock"
    deployment = Deployment(name="machine", provider="docker", endpoint=endpoint)
    provider = DockerProvider(deployment, Engine(endpoint, None, timeout_s=60, clock=SYSTEM_CLOCK))
    with caplog.at_level(logging.WARNING):
        assert (await provider.read_status(NAME)).error_type is ErrorType.CONNECTION
    assert "check that it runs" in caplog.text
    await provider.close()


async def test_nothing_of_a_container_is_shown(docker, provider, caplog):
    with caplog.at_level(logging.DEBUG):
        shown = repr((await provider.read_allocation(NAME), await provider.read_status(NAME), vars(provider)))
    assert SECRET not in shown + caplog.text


async def test_questions_keep_to_the_rate_and_their_wait_is_told(docker):
    deployment = Deployment(name="machine", provider="docker", endpoint=docker.url, max_requests_per_second=1)
    clock = HandClock().clock
    provider = DockerProvider(deployment, Engine(docker.url, None, timeout_s=60, clock=clock), clock=clock)
    assert provider.delay() == 0
    await provider.read_status(NAME)
    assert provider.delay() == 1
    assert (await provider.read_status(NAME)).window.wait_s == 1
    await provider.close()


async def test_there_is_nothing_to_read_within_a_container(provider):
    assert (await provider.read_sample(NAME)).error_type is ErrorType.NO_READING
    assert provider.read_slots() is None
    assert provider.last_answer() is None
