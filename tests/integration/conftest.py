"""Real parts, each started once for all tests that ask for it."""

import os
import secrets
from collections.abc import Iterator

import pytest

from support.compose_stack import ComposeStack, compose_stack, shipped_settings
from support.docker_daemon import DockerDaemon, private_docker_daemon
from support.kafka_broker import KafkaBroker, kafka_broker
from support.opensandbox_server import OpenSandboxServer, running_opensandbox_server
from support.sandbox_images import import_sandbox_images
from support.stack_images import DockerCli, docker_cli, make_images

STACKS = ("plain_stack", "demo_stack", "disturbed_stack")
"""Fixtures of which each has the compose stack for itself, in the order in which they have it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the compose stack one after another and last, so that no other test has it as company."""

    def turn(item: pytest.Item) -> int:
        fixtures = getattr(item, "fixturenames", ())
        return max((STACKS.index(name) + 1 for name in STACKS if name in fixtures), default=0)

    items.sort(key=turn)
    for item in items:
        if turn(item):
            item.add_marker(pytest.mark.timeout(600))  # the first of them makes the images


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


@pytest.fixture(scope="session")
def stack_docker(docker_daemon: DockerDaemon, tmp_path_factory: pytest.TempPathFactory) -> DockerCli:
    """Docker and Compose, with every image that the compose file names; `make e2e-full` wants the real backends."""
    docker = docker_cli(docker_daemon, tmp_path_factory.mktemp("docker-home"))
    make_images(docker, shipped_settings(), real_backends=os.environ.get("SANDGAUGE_REAL_BACKENDS") == "1")
    return docker


@pytest.fixture(scope="session")
def plain_stack(stack_docker: DockerCli) -> Iterator[ComposeStack]:
    """The stack as `docker compose up` would start it; nothing runs yet."""
    with compose_stack(stack_docker) as stack:
        yield stack


@pytest.fixture(scope="session")
def demo_stack(plain_stack: ComposeStack) -> ComposeStack:
    """The stack with its demo, which has run long enough that there are readings; no test of it changes anything."""
    plain_stack.down()
    print(f"\nthe first reading is in Prometheus {plain_stack.up_with_demo():.0f} s after `docker compose up`")
    return plain_stack


@pytest.fixture(scope="session")
def disturbed_stack(demo_stack: ComposeStack) -> ComposeStack:
    """The demo's stack, for tests that end parts of it; they leave it as they found it, but for the last one."""
    return demo_stack


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker as it comes, for the tests of a module."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def group() -> str:
    """Name a group of pollers that no other test has, and so their topics."""
    return f"group-{secrets.token_hex(4)}"
