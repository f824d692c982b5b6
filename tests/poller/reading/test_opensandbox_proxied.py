import asyncio

import pytest
from aiohttp import web

from sandgauge_schemas.names import ErrorType
from support.hand_clock import HandClock
from support.stub_control_plane import (
    ID,
    IMPATIENT_S,
    METRICS,
    OTHER,
    StubControlPlane,
    endpoint,
    inspect,
    opened,
    proxied,
    sandbox,
)

PROXY = {"use_server_proxy": "true"}
SECRET_WANTED = {"code": "MISSING_OR_INVALID_SECURE_ACCESS", "message": "x"}


@pytest.fixture
async def control_plane():
    async with StubControlPlane() as server:
        yield server


async def hang(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def test_no_more_reads_run_at_once_than_there_are_slots_and_the_wait_is_told(control_plane):
    hand, pair, running, most = HandClock(), asyncio.Barrier(2), 0, 0

    async def slow(_request: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(IMPATIENT_S / 3)
        if await pair.wait() == 1:  # the first to go on
            hand.now_s += 1.0
        running -= 1
        return web.json_response(METRICS)

    control_plane.on(proxied(), slow)
    slots = {"max_concurrent_proxied_reads": 2, **PROXY}
    async with opened(control_plane, timeout_s=IMPATIENT_S, clock=hand.clock, **slots) as provider:
        readings = await asyncio.gather(*(provider.read_sample(ID) for _ in range(8)))
    assert most == 2
    # Eight reads by two take longer than the bound would allow: waiting does not count.
    assert {reading.error_type for reading in readings} == {None}
    assert sorted(reading.window.wait_s for reading in readings) == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    assert {reading.window.end_ns - reading.window.start_ns for reading in readings} == {10**9}


async def test_a_cancelled_wait_frees_its_place(control_plane):
    control_plane.on(proxied(), hang)
    async with opened(control_plane, timeout_s=IMPATIENT_S, max_concurrent_proxied_reads=1, **PROXY) as provider:
        first = asyncio.create_task(provider.read_sample(ID))
        waiting = asyncio.create_task(provider.read_sample(ID))
        await control_plane.asked(proxied())
        waiting.cancel()
        assert (await first).error_type is ErrorType.TIMEOUT
        control_plane.say(proxied(), json=METRICS)
        assert (await provider.read_sample(ID)).error_type is None


@pytest.mark.parametrize("question", ["read_status", "read_allocation"])
async def test_a_silent_control_plane_gets_no_proxied_reads_until_it_answers_again(control_plane, question):
    for path in (sandbox(), sandbox(OTHER), inspect()):
        control_plane.on(path, hang)
    async with opened(control_plane, timeout_s=IMPATIENT_S, **PROXY) as provider:
        assert (await getattr(provider, question)(ID)).error_type is ErrorType.TIMEOUT
        readings = await asyncio.gather(*(provider.read_sample(id_) for id_ in (ID, OTHER, ID, OTHER)))
        assert {reading.error_type for reading in readings} == {ErrorType.TIMEOUT}
        assert proxied() not in control_plane.paths
        # One question at a time finds out whether it is back.
        assert len(control_plane.paths) == 2

        control_plane.has_sandbox("Running")
        assert [(await provider.read_sample(ID)).error_type for _ in range(2)] == [None, None]
        assert control_plane.paths[2:] == [sandbox(), proxied(), proxied()]


async def test_a_slow_daemon_is_not_taken_for_a_silent_control_plane(control_plane):
    control_plane.on(proxied(), hang)
    async with opened(control_plane, timeout_s=IMPATIENT_S, **PROXY) as provider:
        for _ in range(2):
            assert (await provider.read_sample(ID)).error_type is ErrorType.TIMEOUT
    assert control_plane.paths == [proxied()] * 2


async def test_a_sandbox_with_secure_access_is_read_with_the_headers_that_the_control_plane_gives(control_plane):
    async def guarded(request: web.Request) -> web.StreamResponse:
        if request.headers.get("OpenSandbox-Secure-Access") == "t0ken":
            return web.json_response(METRICS)
        return web.json_response(SECRET_WANTED, status=401)

    control_plane.on(proxied(), guarded)
    path = f"{endpoint()}?use_server_proxy=true"
    control_plane.say(path, json={"endpoint": "x", "headers": {"OpenSandbox-Secure-Access": "t0ken"}})
    async with opened(control_plane, **PROXY) as provider:
        assert [(await provider.read_sample(ID)).error_type for _ in range(2)] == [None, None]
        assert control_plane.paths == [proxied(), path, proxied(), proxied()]


async def test_a_sandbox_that_feigns_secure_access_costs_two_calls_and_no_more(control_plane):
    control_plane.say(proxied(), status=401, json=SECRET_WANTED)
    async with opened(control_plane, **PROXY) as provider:
        assert (await provider.read_sample(ID)).error_type is ErrorType.UNAUTHORIZED
    assert control_plane.paths == [proxied(), f"{endpoint()}?use_server_proxy=true", proxied()]


async def test_questions_keep_to_their_rate_and_proxied_reads_do_not_count(control_plane):
    async with opened(control_plane, max_requests_per_second=5, clock=HandClock().clock, **PROXY) as provider:
        statuses = await asyncio.gather(*(provider.read_status(ID) for _ in range(8)))
        readings = await asyncio.gather(*(provider.read_sample(ID) for _ in range(8)))
    assert {status.error_type for status in statuses} == {None}
    assert sorted(status.window.wait_s for status in statuses) == [0.0] * 5 + [1.0] * 3
    assert {reading.window.wait_s for reading in readings} == {0.0}
