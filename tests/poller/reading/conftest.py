"""Event loops: tests of what speaks to the network by itself run on the one of production too."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from sandgauge_poller.process import new_event_loop

_ON_BOTH = {"test_opensandbox_connections.py", "test_opensandbox_resolver.py"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops on which a test runs, by name."""
    own = {"asyncio": asyncio.new_event_loop}
    return own | {"production": new_event_loop} if item.path.name in _ON_BOTH else own
