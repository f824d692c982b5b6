import pytest

from sandgauge_demo.outcome import read_outcome
from support.told_run import ended, keys, refused, requested, rollout_over, sampled, started

A, B = keys("a"), keys("b", "0-1")
LINES = [
    requested(A, cpu=1.0, count=2),
    started(A, cpu=1.0),
    sampled(A, 2, 100.0, total_mib=512.0),
    sampled(A, 12, 200.0, total_mib=512.0),
    ended(A, 30, readings_count=2),
    rollout_over(A, 31),
    requested(B, cpu=1.0),
    refused(B),
]


@pytest.fixture
def read(tmp_path):
    def of(lines):
        file = tmp_path / "joined.jsonl"
        file.write_text("".join(lines))
        return read_outcome(file)

    return of


def test_how_far_a_run_is(read):
    outcome = read(LINES)
    assert [(one.rollout_id, one.sandbox_id, one.is_settled) for one in outcome.sandboxes] == [
        ("0-0", "a", True),
        ("0-0", None, False),
        ("0-1", None, True),
    ]
    assert (outcome.rollouts_ended, outcome.readings) == (1, 2)


def test_a_line_that_is_still_being_written_is_left_alone(read):
    half = LINES[1][: len(LINES[1]) // 2]
    assert read([LINES[0], half]).sandboxes == read([LINES[0]]).sandboxes


def test_a_file_that_is_not_there_yet_says_nothing(tmp_path):
    outcome = read_outcome(tmp_path / "absent.jsonl")
    assert (outcome.sandboxes, outcome.rollouts_ended, outcome.readings) == ([], 0, 0)
