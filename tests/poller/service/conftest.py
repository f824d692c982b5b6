"""A whole poller between a simulated deployment and a receiver that holds its records to the contract."""

import pytest

from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.stories import all_told, three_deployments


@pytest.fixture
def osb():
    with osb_in_thread() as deployment:
        yield deployment


@pytest.fixture
def make_poller(tmp_path, osb, otlp_sink):
    """Return a poller, not started yet, with the given sections of its configuration."""
    made = []

    def make(**sections):
        poller = RunningPoller(
            tmp_path,
            {
                "deployments": [{"name": "training", "endpoint": osb.url}],
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
                "export": {"endpoint": otlp_sink.endpoint},
                **sections,
            },
        )
        made.append(poller)
        return poller

    yield make
    for poller in made:
        poller.stop()
        assert poller.complaints() == []


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with three_deployments(tmp_path_factory.mktemp("lives")) as world:
        yield world


@pytest.fixture(scope="module")
def told(request, world):
    """Tell all the stories of a module at once."""
    with all_told(request.module.STORIES, world) as told:
        yield told
