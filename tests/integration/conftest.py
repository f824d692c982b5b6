"""Real parts, each started once for all tests that ask for it."""

from collections.abc import Iterator

import pytest

from support.docker_daemon import DockerDaemon, private_docker_daemon
from support.opensandbox_server import OpenSandboxServer, running_opensandbox_server
from support.sandbox_images import import_sandbox_images


@pytest.fixture(scope="session")
def docker_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerDaemon]:
    with private_docker_daemon(tmp_path_factory.mktemp("docker")) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def opensandbox_server(
    docker_daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OpenSandboxServer]:
    import_sandbox_images(docker_daemon)
    with running_opensandbox_server(docker_daemon, tmp_path_factory.mktemp("opensandbox-server")) as server:
        yield server
