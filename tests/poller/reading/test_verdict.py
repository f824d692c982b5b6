"""What a control plane's word means for a sandbox's life."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.provider import ReadWindow, SandboxState, StatusReading
from sandgauge_poller.reading.verdict import NOT_FOUND_APART_NS, Standing, Verdict, judge
from sandgauge_schemas.names import EndReason, ErrorType

NOW_NS = 1_795_000_000_000_000_000
S = 1_000_000_000


def status(state, at_ns=NOW_NS):
    error = ErrorType.TIMEOUT if state is None else None
    return StatusReading(window=ReadWindow(at_ns - S, at_ns), state=state, error_type=error)


@pytest.mark.parametrize(
    ("state", "standing", "reason"),
    [
        (SandboxState.PENDING, Standing.ALIVE, None),
        (SandboxState.RUNNING, Standing.ALIVE, None),
        (SandboxState.PAUSED, Standing.PAUSED, None),
        (SandboxState.STOPPING, Standing.ASK_AGAIN, None),
        (SandboxState.UNKNOWN, Standing.ASK_AGAIN, None),
        (SandboxState.TERMINATED, Standing.ENDED, EndReason.TERMINATED),
        (SandboxState.FAILED, Standing.ENDED, EndReason.FAILED),
    ],
)
@pytest.mark.parametrize("not_found_ns", [None, NOW_NS - 60 * S])
def test_a_state_means_what_it_says_and_breaks_a_row_of_not_found(state, standing, reason, not_found_ns):
    assert judge(status(state), not_found_ns, NOW_NS - S) == Verdict(standing, reason, None)


@pytest.mark.parametrize("not_found_ns", [None, NOW_NS - S])
def test_no_answer_changes_nothing(not_found_ns):
    assert judge(status(None), not_found_ns, NOW_NS - S) == Verdict(Standing.UNKNOWN, None, not_found_ns)


@pytest.mark.parametrize(
    ("ago_s", "expires_in_s", "expected"),
    [
        (None, None, Verdict(Standing.ASK_AGAIN, None, NOW_NS)),
        (None, -60, Verdict(Standing.ASK_AGAIN, None, NOW_NS)),
        (4.999, None, Verdict(Standing.ASK_AGAIN, None, NOW_NS - 4_999_000_000)),
        (5.0, None, Verdict(Standing.ENDED, EndReason.GONE, NOW_NS - 5 * S)),
        (5.0, 1, Verdict(Standing.ENDED, EndReason.GONE, NOW_NS - 5 * S)),
        (5.0, 0, Verdict(Standing.ENDED, EndReason.EXPIRED, NOW_NS - 5 * S)),
        (600.0, -60, Verdict(Standing.ENDED, EndReason.EXPIRED, NOW_NS - 600 * S)),
    ],
)
def test_not_found_is_an_end_only_when_said_twice_and_apart(ago_s, expires_in_s, expected):
    not_found_ns = None if ago_s is None else NOW_NS - round(ago_s * S)
    expires_at_ns = None if expires_in_s is None else NOW_NS + expires_in_s * S
    assert judge(status(SandboxState.NOT_FOUND), not_found_ns, expires_at_ns) == expected


@given(st.lists(st.tuples(st.none() | st.sampled_from(SandboxState), st.integers(0, 10 * S)), max_size=12))
def test_a_sandbox_is_gone_only_after_a_row_of_not_found_that_is_long_enough(answers):
    at_ns, not_found_ns, row = NOW_NS, None, []
    for state, wait_ns in answers:
        at_ns += wait_ns
        verdict = judge(status(state, at_ns), not_found_ns, None)
        not_found_ns = verdict.not_found_ns
        if state is SandboxState.NOT_FOUND:
            row.append(at_ns)
        elif state is not None:
            row = []
        is_gone = state is SandboxState.NOT_FOUND and row[-1] - row[0] >= NOT_FOUND_APART_NS
        assert (verdict.end_reason is EndReason.GONE) == is_gone
