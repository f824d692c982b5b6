"""A Docker engine that samples when it is asked, as 24.0.7 and newer do: it answers in another form than older ones."""

import pytest

from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.usage import SAMPLES_DIRECTLY, DockerUsage
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.placement import Identity
from support.docker_daemon import private_docker_daemon
from support.docker_engines import path_with_docker_of
from support.sandbox_images import SANDBOX_IMAGE, import_sandbox_images

pytestmark = pytest.mark.integration

SUITE = "forky"
SPINS = ("sh", "-c", "while :; do :; done")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path_with_docker_of(SUITE))
        with private_docker_daemon(tmp_path_factory.mktemp("docker")) as daemon:
            import_sandbox_images(daemon)
            yield daemon


@pytest.fixture
def container(daemon):
    options = ("--net", "none", "--cpus", "0.2", "--label", "opensandbox.io/id=s-1")
    return daemon.docker("run", "--detach", *options, SANDBOX_IMAGE, *SPINS)


async def sweep(source, target):
    [(_, answer)] = [answered async for answered in source.sweep([target])]
    return answer


@pytest.mark.parametrize("digits", [12, 64])
async def test_what_a_container_used(daemon, container, digits):
    target = UsageTarget("s-1", Identity("docker-container", "http://osb", container[:digits]))
    engine = Engine(daemon.host, None, timeout_s=30.0, clock=SYSTEM_CLOCK)
    source = DockerUsage(engine, interval_s=10.0, clock=SYSTEM_CLOCK)
    try:
        first = await sweep(source, target)
        again = await sweep(source, target)
        daemon.docker("rm", "--force", container)
        gone = await sweep(source, target)
    finally:
        await source.close()
    assert engine.version.release >= SAMPLES_DIRECTLY
    assert (first.error_type, again.error_type, gone.error_type) == (None, None, ErrorType.NOT_FOUND)
    assert first.observation.timestamp_ns < again.observation.timestamp_ns
    assert 0 < first.observation.cpu_time_s <= again.observation.cpu_time_s
    assert again.observation.memory_working_set_mib > 0
