"""How the suite is shared out among processes: by file, so that what a file sets up is set up once.

The files of Docker are in two processes, whatever number there is: those of the compose stack, and all others.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_GROUPS = {
    "compose-stack": re.compile(r"\b(plain|demo|disturbed)_stack\b|\bstack_docker\b"),
    "docker": re.compile(r"\bopensandbox_server\b|\bdocker_daemon\b"),
}
"""What a file names when it asks for a daemon, full of images; the first that it names decides."""


class _ByFileOrGroup(LoadFileScheduling):
    """Keeps a file in one process, and all files of a group."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _group(self.config.rootpath / file) or file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFileOrGroup:
    return _ByFileOrGroup(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where there are several processes, begin with what takes longest: all then end at about the same time."""
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


@cache
def _group(file: Path) -> str | None:
    """Return the group of a file; its process knows the fixtures of its tests, but the one that shares out does not."""
    source = file.read_text()
    return next((group for group, named in _GROUPS.items() if named.search(source)), None)


def _turn(item: pytest.Item) -> int:
    group = _group(item.path)
    if group is not None:
        return list(_GROUPS).index(group)
    return len(_GROUPS) + (item.get_closest_marker("integration") is None)
