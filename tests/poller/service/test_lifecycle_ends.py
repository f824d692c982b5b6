"""Ends of simulated sandboxes below one poller, and what is none, step by step beside what must be recorded."""

import json
from pathlib import Path

import pytest

from sandgauge_demo.deployment import Route
from sandgauge_schemas import names
from support.lives import end_of, leaked
from support.stories import GRACE_S, INTERVAL_S, Stories

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lifecycle"
JSON = "application/json"
STORIES = Stories()


@STORIES.tell
def stopping_is_no_end_before_the_record_is_gone(world):
    life = world.kubernetes().begin()
    life.osb.change(life.id, state="Stopping", execd_alive=False)
    life.wait_for_status_questions(2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    assert end_of(life.summary()) == "gone"


@STORIES.tell
def an_expiry_in_the_past_ends_nothing_that_still_runs(world):
    record = json.loads((FIXTURES / "expires-in-past.json").read_text())
    life = world.docker()
    body = json.dumps({**record, "id": life.id})
    life.osb.fault(Route.GET, life.id, status=200, body=body, content_type=JSON)
    life.start()
    life.osb.wait_for(1, Route.GET, life.id, timeout_s=60)
    life.wait_for(None, 3)
    assert life.summaries() == []
    life.osb.delete(life.id)
    life.osb.clear_faults(Route.GET, life.id)
    summary = life.summary()
    assert end_of(summary) == "expired"
    assert leaked(summary) is False


@STORIES.tell
def what_expires_is_told_as_expired(world):
    life = world.docker(timeout_s=15.0).begin()
    assert end_of(life.summary()) == "expired"


@STORIES.tell
def a_renewed_sandbox_lives_on(world):
    life = world.docker(timeout_s=15.0).start()
    life.osb.wait_for(1, Route.GET, life.id, timeout_s=60)
    life.osb.change(life.id, expires_at=4_000_000_000.0)
    # The question just after the first expiry learns of the second.
    life.wait_for_status_questions(1)
    life.wait_for(None, 2)
    assert life.summaries() == []
    life.osb.delete(life.id)
    assert end_of(life.summary()) == "gone"


@STORIES.tell
def a_deletion_without_a_stop_span_is_found_out(world):
    life = world.docker().begin()
    life.osb.delete(life.id)
    summary = life.summary()
    assert (end_of(summary), leaked(summary)) == ("gone", False)


@STORIES.tell
def an_entrypoint_killed_for_memory_has_failed(world):
    life = world.docker().begin()
    life.osb.end(life.id, exit_code=137, oom_killed=True)
    summary = life.summary()
    assert (end_of(summary), summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED]) == ("failed", True)


@STORIES.tell
def an_entrypoint_that_ends_well_is_terminated(world):
    life = world.docker().begin()
    life.osb.end(life.id)
    summary = life.summary()
    assert (end_of(summary), summary[names.NEMO_GYM_SANDBOX_END_OOM_KILLED]) == ("terminated", False)


@STORIES.tell
def what_failed_and_runs_again_is_read_again(world):
    life = world.docker().begin()
    life.osb.change(life.id, state="Failed", exit_code=1)
    assert end_of(life.summary()) == "failed"
    life.osb.change(life.id, state="Running", exit_code=0)
    life.wait_for(None, 2)
    summary = life.end(2)
    assert (end_of(summary), leaked(summary)) == ("stopped", False)


@STORIES.tell
def a_failed_deletion_ends_nothing(world):
    life = world.docker().begin()
    life.stop(failed=True)
    life.wait_for(None, int(GRACE_S / INTERVAL_S) + 2)
    assert life.summaries() == []
    summary = life.end()
    assert (end_of(summary), leaked(summary)) == ("stopped", False)


@STORIES.tell
def what_outlives_its_stop_has_leaked_and_is_summed_up_again(world):
    life = world.docker().begin()
    life.stop()
    first = life.summary()
    assert (end_of(first), leaked(first)) == ("stopped", False)
    life.wait_for(None, 2)
    life.osb.delete(life.id)
    second = life.summary(2)
    assert (end_of(second), leaked(second)) == ("gone", True)
    assert second[names.NEMO_GYM_SANDBOX_READINGS_COUNT] > first[names.NEMO_GYM_SANDBOX_READINGS_COUNT]
    life.wait(lambda: world.cpu_counts(life).count(None) == 2)
    assert world.cpu_counts(life)[-1] is None


@STORIES.tell
def what_outlives_its_rollout_has_leaked(world):
    life = world.docker().begin()
    life.finish_rollout()
    life.wait_for_status_questions(1)
    life.wait_for(None, int(GRACE_S / INTERVAL_S) + 2)
    assert life.summaries() == []
    summary = life.end()
    assert (end_of(summary), leaked(summary)) == ("stopped", True)
    assert summary[names.NEMO_GYM_ROLLOUT_ID] == f"rollout-of-{life.id}"


@STORIES.tell
def what_stops_soon_after_its_rollout_has_not_leaked(world):
    life = world.docker().begin()
    life.finish_rollout()
    assert leaked(life.end()) is False


@pytest.mark.parametrize("name", STORIES)
def test_story(told, name):
    told[name].result(timeout=120)
