"""How the suite is shared out among processes: by file, so that what a file sets up is set up once.

Tests of Docker are in two processes wherever they are written: those of the compose stack, and all others.
"""

from collections.abc import Generator
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling

_GROUPS = {"stack_docker": "compose-stack", "docker_daemon": "docker"}
"""By the fixture, which starts a daemon and fills it with images; the first that a test has decides."""


class _ByFile(LoadGroupScheduling):
    """Keeps a group in one process, and a file of which nothing is in a group."""

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFile:
    return _ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, Any, Any]:
    """Put tests into groups and, where there are several processes, those first that take longest.

    So all processes end at about the same time.
    """
    for item in items:
        if (group := _group(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    result = yield
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)
    return result


def _group(item: pytest.Item) -> str | None:
    fixtures = getattr(item, "fixturenames", ())
    return next((group for fixture, group in _GROUPS.items() if fixture in fixtures), None)


def _turn(item: pytest.Item) -> int:
    group = _group(item)
    if group is not None:
        return list(_GROUPS.values()).index(group)
    return len(_GROUPS) + (item.get_closest_marker("integration") is None)
