"""What the poller's own metrics are told when they look."""

from types import SimpleNamespace

from sandgauge_poller.status.observation import Observation
from sandgauge_schemas.names import SandboxState


def test_sandboxes_that_are_no_more_are_counted_as_none_and_not_left_out():
    context = SimpleNamespace(providers={"training": None}, state=lambda sandbox: sandbox.state)
    active = [SimpleNamespace(deployment="training", state=SandboxState.ACTIVE)]
    observation = Observation(active, context, None, lambda: 0)
    counts = observation.sandboxes()
    assert counts["training", SandboxState.ACTIVE] == 1
    active.clear()
    assert observation.sandboxes() == {
        ("training", SandboxState.ACTIVE): 0,
        ("training", SandboxState.PAUSED): 0,
        ("training", SandboxState.ENDING): 0,
        ("training", SandboxState.NOT_READ): 0,
        (None, SandboxState.UNMATCHED): 0,
        (None, SandboxState.NOT_READ): 0,
    }
