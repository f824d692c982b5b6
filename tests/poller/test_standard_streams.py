"""Every command with its output closed, full, or left by its reader: the documented exit code, and one clear line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sandgauge_poller import cli

PATIENCE_S = 120
MIXED = Path(__file__).parents[1] / "fixtures" / "report" / "mixed" / "input.jsonl"
NOBODY = "http://127.0.0.1:9"
FULL = "Error: standard output: No space left on device; make room, or send it elsewhere\n"

# What writes to standard output, and the code that it ends with; then what only complains on standard error.
COMMANDS = {
    "--version": (["--version"], 0),
    "--help": (["--help"], 0),
    "check": (["check"], 0),
    "doctor": (["doctor"], 1),
    "doctor --json": (["doctor", "--json"], 1),
    "read": (["read", "sbx-1"], 1),
    "report": (["report", str(MIXED)], 0),
    "report --format json": (["report", str(MIXED), "--format", "json"], 0),
    "report --format csv": (["report", str(MIXED), "--format", "csv", "--fail-on", "any"], 1),
    "health": (["health", NOBODY], 1),
    "top --help": (["top", "--help"], 0),
    "demo --help": (["demo", "--help"], 0),
    "run --help": (["run", "--help"], 0),
}
COMPLAINING = {
    "wrong usage": (["report", "--no-such-option"], 2),
    "no such command": (["no-such-command"], 2),
    "top": (["top", "--once", "--endpoint", NOBODY], 1),
    "run": (["run", "--config", "no-such-file.yaml"], 1),
    "demo": (["demo", "--folder", "/dev/null/folder"], 1),
}


@pytest.fixture
def folder(tmp_path):
    config = {
        "ingest": {"endpoint": "127.0.0.1:0"},
        "status": {"endpoint": "127.0.0.1:0"},
        "deployments": [{"name": "training", "endpoint": NOBODY}],
        "export": {"endpoint": NOBODY},
        "state": {"directory": "state"},
    }
    (tmp_path / "sandgauge.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def redirected(arguments, redirection, folder, **environ):
    """Run a command of which the shell closes streams, or leads them elsewhere."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", sys.executable, "-m", "sandgauge_poller", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def deserted(arguments, folder):
    """Run a command whose reader is gone before it begins."""
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        return subprocess.run(
            [sys.executable, "-m", "sandgauge_poller", *arguments],
            cwd=folder,
            stdout=theirs,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(theirs)


def test_no_command_is_left_out():
    assert {*cli.cli.commands} <= {arguments[0] for arguments, _ in [*COMMANDS.values(), *COMPLAINING.values()]}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_device_is_one_line_and_1(name, folder):
    ended = redirected(COMMANDS[name][0], ">/dev/full", folder)
    assert (ended.returncode, ended.stderr) == (1, FULL)


@pytest.mark.parametrize("name", ["--version", "--help", "check", "doctor", "read", "report", "report --format csv"])
def test_a_reader_that_goes_away_changes_nothing_else(name, folder):
    arguments, code = COMMANDS[name]
    ended = deserted(arguments, folder)
    assert (ended.returncode, ended.stderr) == (code, "")


@pytest.mark.parametrize("name", ["--version", "doctor", "report", "report --format csv"])
def test_a_closed_output_changes_nothing_else(name, folder):
    arguments, code = COMMANDS[name]
    ended = redirected(arguments, ">&-", folder)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


@pytest.mark.parametrize("name", ["report", "doctor --json"])
def test_a_closed_standard_error_leaves_the_output_as_it_is(name, folder):
    arguments, code = COMMANDS[name]
    usual, ended = redirected(arguments, "", folder), redirected(arguments, "2>&-", folder)
    unsteady = re.compile(r"[0-9]+ files|clock[^\n]*")
    assert ended.returncode == usual.returncode == code
    assert unsteady.sub("", ended.stdout) == unsteady.sub("", usual.stdout) != ""


@pytest.mark.parametrize("redirection", ["2>/dev/full", ">&- 2>&- <&-"])
@pytest.mark.parametrize(("arguments", "code"), COMPLAINING.values(), ids=COMPLAINING)
def test_a_complaint_that_cannot_be_made_keeps_its_exit_code(arguments, code, redirection, folder):
    ended = redirected(arguments, redirection, folder)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_what_the_shell_asks_for_completion_is_no_exception(folder):
    ended = redirected([], ">/dev/full", folder, _SANDGAUGE_COMPLETE="bash_source")
    assert (ended.returncode, ended.stderr) == (1, FULL)


def test_a_file_that_is_opened_does_not_take_the_place_of_a_closed_stream(tmp_path):
    script = (
        "import sys; from sandgauge_poller.standard_streams import guard_standard_streams; guard_standard_streams();"
        "file = open('file', 'w'); file.write(str(file.fileno())); print('out'); print('error', file=sys.stderr)"
    )
    closing = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]
    subprocess.run(closing, cwd=tmp_path, timeout=PATIENCE_S, check=True)
    assert int((tmp_path / "file").read_text()) > 2
