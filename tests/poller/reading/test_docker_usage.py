"""A Docker daemon as a usage source: whose answer comes, what a wedged container costs, and old engines."""

import asyncio
import time

import pytest

from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.usage import DockerUsage
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.placement import Identity
from support.stub_engine import OLD, StubContainer, StubEngine


def container(number, **more):
    return StubContainer(f"{number:012x}" + "0" * 52, f"s-{number}", **more)


def target(found, digits=12):
    return UsageTarget(found.sandbox_id, Identity("docker-container", "http://osb", found.id[:digits]))


@pytest.fixture
async def stub(tmp_path):
    async with StubEngine(tmp_path / "docker.sock") as engine:
        yield engine


def usage_of(endpoint, timeout_s=60.0):
    engine = Engine(endpoint, None, timeout_s=timeout_s, clock=SYSTEM_CLOCK)
    return DockerUsage(engine, interval_s=10.0, clock=SYSTEM_CLOCK)


@pytest.fixture
async def usage(stub):
    source = usage_of(stub.endpoint)
    yield source
    await source.close()


async def sweep(usage, *targets):
    return {asked.sandbox_id: answer async for asked, answer in usage.sweep(targets)}


def outcomes(answers):
    return {sandbox_id: answer.error_type for sandbox_id, answer in answers.items()}


def of(stub, part):
    return [path for path in stub.asked if part in path]


async def test_each_sandbox_gets_the_answer_of_its_own_container(stub, usage):
    stub.containers = [container(number, cpu_time_ns=number * 10**9) for number in range(1, 31)]
    answers = await sweep(usage, *map(target, stub.containers))
    assert {answer.observation.cpu_time_s: name for name, answer in answers.items()} == {
        float(number): f"s-{number}" for number in range(1, 31)
    }
    assert stub.most_at_once <= 20
    assert len(of(stub, "/containers/json")) == 1
    assert all(path.startswith("/v1.44/") for path in of(stub, "/stats"))


async def test_what_does_not_run_or_is_not_there_is_no_reading(stub, usage):
    exited, gone, running = container(1, state="exited"), container(2), container(3)
    stub.containers = [exited, running]
    answers = await sweep(usage, target(exited), target(gone), target(running))
    assert outcomes(answers) == {"s-1": ErrorType.ENDED, "s-2": ErrorType.NOT_FOUND, "s-3": None}
    assert len(of(stub, "/stats")) == 1


async def test_a_whole_id_needs_no_list(stub, usage):
    unlabelled = StubContainer("ab" * 32, None)
    stub.containers = [unlabelled]
    asked = UsageTarget("gym-1", Identity("docker-container", "unix:///docker.sock", unlabelled.id))
    assert outcomes(await sweep(usage, asked)) == {"gym-1": None}
    assert of(stub, "/containers/json") == []


async def test_a_container_that_hangs_harms_no_other(stub):
    usage = usage_of(stub.endpoint, timeout_s=4.0)
    stub.containers = [container(number, hangs=number == 7) for number in range(1, 11)]
    arrived = {}
    async for asked, answer in usage.sweep(list(map(target, stub.containers))):
        arrived[asked.sandbox_id] = (time.monotonic(), answer)
    *others, (last_at, last) = arrived.values()
    assert list(arrived)[-1] == "s-7"
    assert last.error_type is ErrorType.TIMEOUT
    assert (last.window.end_ns - last.window.start_ns) / 1e9 > 3.9
    assert all(answer.error_type is None for _, answer in others)
    assert max(at for at, _ in others) < last_at
    await usage.close()


async def test_an_old_engine_is_asked_for_all_at_once(stub, usage):
    stub.version = OLD
    stub.containers = [container(number) for number in range(1, 61)]
    stub.answers_at = 41
    assert set(outcomes(await sweep(usage, *map(target, stub.containers))).values()) == {None}
    assert all(path.startswith("/v1.41/") for path in of(stub, "/stats"))


async def test_without_its_version_an_engine_is_asked_in_its_own_newest(stub, usage):
    stub.refused = ("/version",)
    stub.containers = [container(1)]
    assert outcomes(await sweep(usage, target(stub.containers[0]))) == {"s-1": None}
    assert [path for path in of(stub, "/stats") if path.startswith("/v1")] == []


@pytest.mark.parametrize(
    ("refused", "expected"), [("/containers/json", ErrorType.UNAUTHORIZED), ("/stats", ErrorType.UNAUTHORIZED)]
)
async def test_what_a_proxy_refuses_is_told_apart(stub, usage, refused, expected):
    stub.containers, stub.refused = [container(1)], (refused,)
    assert outcomes(await sweep(usage, target(stub.containers[0]))) == {"s-1": expected}


async def test_a_daemon_that_is_not_there_is_a_failed_reading_of_each(tmp_path):
    source = usage_of(f"unix://{tmp_path}/none.sock")
    answers = await sweep(source, target(container(1)), target(container(2)))
    assert set(outcomes(answers).values()) == {ErrorType.CONNECTION}
    await source.close()


async def test_a_daemon_that_comes_back_as_another_is_asked_for_its_version_anew(stub, usage):
    stub.containers = [container(1)]
    await sweep(usage, target(stub.containers[0]))
    await stub.__aexit__()
    stub.socket.unlink(missing_ok=True)
    assert outcomes(await sweep(usage, target(stub.containers[0]))) == {"s-1": ErrorType.CONNECTION}
    stub.version = OLD
    await stub.__aenter__()
    assert outcomes(await sweep(usage, target(stub.containers[0]))) == {"s-1": None}
    assert of(stub, "/stats")[-1].startswith("/v1.41/")


async def test_closing_a_sweep_early_ends_what_is_under_way(stub, usage):
    stub.containers = [container(1), container(2, hangs=True)]
    answers = usage.sweep(list(map(target, stub.containers)))
    async for asked, _ in answers:
        assert asked.sandbox_id == "s-1"
        break
    before = len(asyncio.all_tasks())
    await answers.aclose()
    assert len(asyncio.all_tasks()) < before


async def test_kills_are_known_of_a_sandbox_that_was_found(stub):
    found = container(1)
    asked = target(found)
    stub.containers = [found]
    now_ns = time.time_ns() + 60 * 10**9
    stub.events = [
        [
            {"Action": action, "Actor": {"ID": found.id, "Attributes": attributes}, "timeNano": now_ns + after_ns}
            for action, attributes, after_ns in (("start", {}, 0), ("oom", {}, 10), ("die", {"exitCode": "137"}, 20))
        ]
    ]
    usage = usage_of(stub.endpoint)
    assert usage.kills(asked) is None  # it was not looked for yet
    await sweep(usage, asked)
    async with asyncio.timeout(60):
        while not ((kills := usage.kills(asked)) and kills.count):  # noqa: ASYNC110  # a stream has no event of its own
            await asyncio.sleep(0.01)
    assert (kills.count, kills.main_killed) == (1, True)
    (answer,) = (await sweep(usage, asked)).values()
    assert answer.observation.started_ns is None  # its numbers are older than that beginning: of the life before
    found.read = "2100-01-01T00:00:00Z"
    (answer,) = (await sweep(usage, asked)).values()
    assert answer.observation.started_ns == now_ns
    usage.forget(asked)
    assert usage.kills(asked) is None
    await usage.close()


async def test_only_containers_are_its_own(usage):
    assert usage.serves(Identity("docker-container", "http://osb", "3f4e1c09ab27"))
    assert not usage.serves(Identity("kubernetes", "http://osb", "namespaces/a/pods/b"))
