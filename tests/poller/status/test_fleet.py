"""How late a sandbox's reading is: by its interval, and only where one is due."""

import pytest

from sandgauge_poller.status.fleet import is_failing, is_leaked
from sandgauge_poller.tracking.progress import End, UsageProgress
from sandgauge_schemas.names import EndReason, ResourceSource
from support.tracked_sandbox import NOW_NS, S_NS, fleet, tracked


def ago(seconds):
    return NOW_NS - round(seconds * S_NS)


def usage(seconds, **more):
    return UsageProgress(source=ResourceSource.DOCKER_STATS, last_reading_ns=ago(seconds), **more)


@pytest.mark.parametrize(
    ("sandbox", "lateness_s", "is_late"),
    [
        (tracked(last_reading_ns=ago(4)), 0.0, False),
        (tracked(last_reading_ns=ago(10)), 0.0, False),
        (tracked(last_reading_ns=ago(12.5)), 2.5, False),
        (tracked(last_reading_ns=ago(20)), 10.0, False),
        (tracked(last_reading_ns=ago(20.5)), 10.5, True),
        (tracked(age_s=3), 0.0, False),
        (tracked(age_s=40), 30.0, True),
        (tracked(last_reading_ns=ago(99), paused=True), None, False),
        (tracked(last_reading_ns=ago(99), end=End(EndReason.GONE, NOW_NS)), None, False),
        (tracked(deployment=None, age_s=99), None, False),
    ],
)
def test_it_is_late_by_what_passed_beyond_its_interval(sandbox, lateness_s, is_late):
    standing = fleet(sandbox).standing(sandbox, NOW_NS)
    assert (standing.lateness_s, standing.is_late) == (lateness_s, is_late)


@pytest.mark.parametrize(
    ("sandbox", "lateness_s"),
    [(tracked(usage=usage(10)), 0.0), (tracked(usage=usage(45)), 30.0), (tracked(age_s=99), None)],
)
def test_where_no_daemon_is_read_its_usage_source_sets_the_pace(sandbox, lateness_s):
    found = fleet(sandbox, without_execd=frozenset({"training"}))
    assert found.standing(sandbox, NOW_NS).lateness_s == lateness_s


@pytest.mark.parametrize(
    ("sandbox", "failing"),
    [
        (tracked(), False),
        (tracked(failed_in_a_row_ns=[1]), True),
        (tracked(usage=usage(1)), False),
        (tracked(usage=usage(1, failed_in_a_row_ns=[1])), True),
        (tracked(failed_in_a_row_ns=[1], paused=True), False),
        (tracked(failed_in_a_row_ns=[1], end=End(EndReason.GONE, NOW_NS)), False),
    ],
)
def test_it_fails_while_the_last_attempt_gave_nothing(sandbox, failing):
    assert is_failing(sandbox) is failing


def test_a_leak_that_has_ended_is_none_any_more():
    assert is_leaked(tracked(leaked=True))
    assert not is_leaked(tracked(leaked=True, end=End(EndReason.GONE, NOW_NS)))
