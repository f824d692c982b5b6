import pytest

from sandgauge_demo.scenario import Fate, fleet_rollouts, planned_rollouts, run_seconds
from sandgauge_schemas.resource_names import read_amounts
from sandgauge_schemas.resources import SandboxResourceAmounts


def test_limits_as_they_are_sent_are_what_is_told_to_be_submitted():
    for rollout in fleet_rollouts():
        for request in rollout.requests:
            amounts, notes = read_amounts(request.limits)
            assert not notes
            assert amounts == (request.submitted or SandboxResourceAmounts(cpu=1, memory_mib=2048))


def test_five_rollouts_show_every_quick_fate_a_clamped_request_and_an_sdk_default():
    requests = [request for rollout in planned_rollouts(5) for request in rollout.requests]
    assert {request.fate for request in requests} == set(Fate) - {Fate.HALTED, Fate.FORGOTTEN}
    assert any(request.submitted is None for request in requests)
    assert any(request.submitted and request.submitted.cpu < request.requested.cpu for request in requests)


def test_a_run_of_the_fleet_shows_every_fate():
    assert {request.fate for rollout in fleet_rollouts() for request in rollout.requests} == set(Fate)


@pytest.mark.parametrize("count", [1, 5, 50])
def test_rollouts_have_ids_of_their_own_and_overlap(count):
    plan = planned_rollouts(count)
    assert len({rollout.rollout_id for rollout in plan}) == count
    assert run_seconds(plan) <= 12 + 0.4 * count
