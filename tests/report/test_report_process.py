"""The command as a process: a progress bar for who looks, nothing of it for who reads, and readers that go away."""

import os
import pty
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.recorded_run import recorded_run

MIXED = Path(__file__).parents[1] / "fixtures" / "report" / "mixed" / "input.jsonl"
_PATIENCE_S = 60.0


def command(*arguments):
    return [sys.executable, "-m", "sandgauge_poller", "report", *map(str, arguments)]


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """More than a megabyte, enough to be worth a progress bar; and more output than a pipe holds."""
    path = tmp_path_factory.mktemp("large") / "joined.jsonl"
    path.write_text("".join(recorded_run(sandboxes=400, readings=4)))
    assert path.stat().st_size > 2 * 2**20
    return path


def run_on_a_terminal(arguments):
    """Run it with a terminal for standard error; return exit code, output, and what the terminal got."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + _PATIENCE_S
        with suppress(OSError):  # the other end is closed, and all that came is read
            while time.monotonic() < deadline:
                if select.select([ours], [], [], 0.1)[0]:
                    shown += os.read(ours, 2**16)
        output, _ = process.communicate(timeout=_PATIENCE_S)
    finally:
        os.close(ours)
    return process.returncode, output, shown.decode()


def test_a_terminal_sees_how_far_it_is_and_the_output_stays_clean(large_file):
    code, output, shown = run_on_a_terminal([large_file, "--format", "csv"])
    assert code == 0
    assert "reading" in shown
    assert output.startswith("run_id,")
    assert "\x1b" not in output


def test_what_is_small_has_no_bar():
    code, _, shown = run_on_a_terminal([MIXED, "--format", "csv"])
    assert (code, shown) == (0, "")


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_goes_away_is_no_error(large_file, form):
    process = subprocess.Popen(
        command(large_file, "--by", "sandbox", "--format", form), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process, process.stderr:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def closing(redirection):
    """Return the command with a stream closed or led elsewhere by the shell, and its report in a pipe."""
    return ["sh", "-c", f'"$@" {redirection}', "sh", *command("-" if "<" in redirection else MIXED)]


@pytest.mark.parametrize(
    ("redirection", "code", "says"),
    [
        ("<&-", 1, "warning: -: standard input is closed"),
        (">&-", 0, ""),
        (">/dev/full", 1, "Error: standard output: No space left on device"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_said_in_words(redirection, code, says):
    ended = subprocess.run(closing(redirection), capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert ended.returncode == code
    assert ended.stderr.startswith(says)
    assert "unforeseen" not in ended.stderr
