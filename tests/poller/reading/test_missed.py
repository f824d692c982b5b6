import pytest

from sandgauge_poller.reading.missed import due_until, skipped, taken_back

S = 1_000_000_000


@pytest.mark.parametrize(
    ("next_due", "due", "expected"), [(None, 50, 0), (50, 50, 0), (55, 50, 0), (46, 50, 0), (40, 50, 1), (10, 60, 5)]
)
def test_readings_that_were_due_before_one_that_is_tried_are_skipped(next_due, due, expected):
    assert skipped(next_due, due, 10) == expected


@pytest.mark.parametrize(("next_due", "expected"), [(50, 0), (49, 1), (40, 1), (39, 2), (30, 2)])
def test_readings_that_were_due_until_the_end_count_from_the_first_of_them(next_due, expected):
    assert due_until(next_due, 49, 10) == expected


@pytest.mark.parametrize(
    ("failed", "last_good", "doomed", "expected"),
    [
        ([], 0, 0, 0),
        ([20, 30], 10, 31, 0),
        ([20, 30], 10, 30, 1),
        ([20, 30], 10, 15, 2),
        # back-off put readings off: due at 40 and 50, tried at 60
        ([20, 30, 60], 10, 25, 4),
        ([20, 30, 60], 10, 45, 2),
        ([20, 30, 60], 10, 61, 0),
        # nobody knows what was due before the first of a row without a good one
        ([60], None, 0, 1),
        ([60], 10, 35, 3),
    ],
)
def test_failures_are_taken_back_as_far_as_they_were_due_when_the_sandbox_was_ending(
    failed, last_good, doomed, expected
):
    assert taken_back([time * S for time in failed], last_good and last_good * S, doomed * S, 10) == expected


@pytest.mark.parametrize(
    ("failed", "resumed", "expected"),
    [
        # good at 10, read on at 55: only what was tried since counts
        ([60], 55, 1),
        ([60, 90], 55, 4),
        ([20, 60], 55, 2),
        ([60], 60, 1),
        ([60], 61, 5),
    ],
)
def test_before_a_sandbox_was_read_on_nothing_was_due(failed, resumed, expected):
    assert taken_back([time * S for time in failed], 10 * S, 0, 10, resumed_ns=resumed * S) == expected
