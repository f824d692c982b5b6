"""A store of its own for each test of the poller that asks for one."""

import pytest

from sandgauge_poller.tracking.database import Database


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "state")
    yield opened
    assert opened.close(60)
