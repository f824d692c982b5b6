"""`sandgauge top`: what it prints at which width, what fits a screen, and how it ends."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from sandgauge_poller.cli import cli
from sandgauge_poller.status.selection import Order, Selection, Show, Sort
from sandgauge_poller.top.client import Client, Look
from sandgauge_poller.top.screen import fitting
from sandgauge_poller.top.table import head, table
from sandgauge_poller.top.words import cpu, duration, lateness, limits, memory, memory_plot, state
from support.otlp_sink import OtlpSink
from support.shown_fleet import ShownFleet

COUNT = 260
PAGE = Path(__file__).parents[3] / "docs" / "page.md"
TOKEN = "t0ken-of-the-page"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with ShownFleet(tmp_path_factory.mktemp("fleet"), COUNT) as served:
        yield served


def top(*arguments, **environment):
    answer = CliRunner(env={"SANDGAUGE_CONFIG": None, "COLUMNS": None, **environment}).invoke(cli, ["top", *arguments])
    return answer.exit_code, answer.stdout, answer.stderr


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_everything_is_printed_once_and_fits(fleet, columns):
    code, out, _ = top("--endpoint", fleet.url, "--once", COLUMNS=str(columns))
    lines = out.splitlines()
    assert code == 0
    assert max(map(len, lines)) <= columns
    titles = next(line for line in lines if line.startswith("SANDBOX"))
    assert len(lines) - lines.index(titles) - 1 == COUNT
    assert {"SANDBOX", "ROLLOUT", "STATE", "AGE", "CPU", "MEMORY"} <= set(titles.split())
    assert ("LATE" in titles.split()) is (columns > 80)
    leaks = [line for line in lines if line.startswith("leaked: ")]
    assert leaks
    assert lines.index(leaks[0]) < lines.index(titles)


def test_a_pipe_gets_whole_ids_and_no_colours(fleet):
    code, out, _ = top("--endpoint", fleet.url)
    assert code == 0
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) > 120
    assert "…" not in out


def test_rows_are_searched_shown_and_sorted_as_on_the_page(fleet):
    _, out, _ = top("--endpoint", fleet.url, "--json", "--show", "leaked", "--search", "coder", "--sort", "memory")
    found = json.loads(out)
    assert {row["leaked"] for row in found["sandboxes"]} == {True}
    used = [row["reading"]["memory_used_mib"] for row in found["sandboxes"] if "usage" not in row]
    assert used == sorted(used, reverse=True)
    assert found["overview"]["sandboxes"]["total"] == COUNT


def test_json_is_one_document_with_every_row(fleet):
    code, out, _ = top("--endpoint", fleet.url, "--json")
    assert code == 0
    assert len({row["sandbox_id"] for row in json.loads(out)["sandboxes"]}) == COUNT


def test_nothing_to_show_is_said(fleet):
    assert "no sandbox matches" in top("--endpoint", fleet.url, "--search", "nobody")[1]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (80, 9), (20, 5)])
def test_a_screen_holds_what_fits(fleet, width, height):
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    with Client(fleet.url, "") as client:
        look = client.look(Selection(), height)
    for silence_s in (0.0, 75.0):
        lines = console.render_lines(fitting(console, look, silence_s), pad=False)
        text = ["".join(segment.text for segment in line) for line in lines]
        assert len(lines) <= height
        assert any("no answer for 1" in line for line in text) is (silence_s > 0)
    assert any("sbx-" in line and not line.startswith("leaked") for line in text), "a row of the table"
    assert f"of {COUNT}" in text[-1]


# What a shell starts in its background ignores SIGINT, and so does whatever that starts.
HEED_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
TOP = "import runpy; runpy.run_module('sandgauge_poller', run_name='__main__')"


def test_on_a_terminal_it_goes_on_until_ctrl_c(fleet):
    main, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-c", f"{HEED_CTRL_C}; {TOP}", "top", "--endpoint", fleet.url]
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True) as shown:
        os.close(end)
        seen = b""
        while b"SANDBOX" not in seen:
            seen += os.read(main, 4096)
        shown.send_signal(2)
        with suppress(OSError):  # which says that nobody has the other end any more
            while rest := os.read(main, 4096):  # a terminal that nobody reads would hold its last words up
                seen += rest
        assert shown.wait(60) == 0
    os.close(main)
    assert b"\x1b[?1049h" in seen, "on a screen of its own"


def test_no_poller_is_one_line_with_the_cure():
    code, out, err = top("--endpoint", "http://127.0.0.1:9")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "no poller answers at http://127.0.0.1:9 (Connection refused); start one with sandgauge run" in err


def test_something_else_is_no_poller():
    with OtlpSink() as receiver:
        code, _, err = top("--endpoint", receiver.endpoint)
    assert code == 1
    assert "is no poller with a page" in err


@pytest.mark.parametrize("arguments", [["--endpoint", "127.0.0.1:8099"], ["--sort", "colour"], ["--show", "dead"]])
def test_wrong_usage_ends_with_2(arguments):
    code, _, err = top(*arguments)
    assert code == 2
    assert arguments[0] in err


def test_a_token_comes_from_the_environment_or_the_configuration(tmp_path):
    with ShownFleet(tmp_path / "fleet", 2, token=TOKEN) as fleet:
        code, _, err = top("--endpoint", fleet.url)
        assert (code, "wants the token" in err) == (1, True)
        assert top("--endpoint", fleet.url, SANDGAUGE_STATUS_TOKEN=TOKEN)[0] == 0
        assert top("--endpoint", fleet.url, SANDGAUGE_STATUS_TOKEN=f"{TOKEN}\n")[0] == 0
        config = tmp_path / "sandgauge.yaml"
        address = fleet.url.removeprefix("http://")
        config.write_text(f"status: {{endpoint: '{address}', auth: {{bearer_token: {TOKEN}}}}}\n")
        code, out, err = top("--config", str(config))
        assert (code, "2 sandboxes" in out) == (0, True)
        assert TOKEN not in out + err


def test_a_configuration_that_is_wrong_is_said_as_everywhere(tmp_path):
    config = tmp_path / "sandgauge.yaml"
    config.write_text("stauts: {}\n")
    code, _, err = top("--config", str(config))
    assert code == 1
    assert f"{config}:1: stauts" in err


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (3600, "1 h 0 min"), (7500, "2 h 5 min"), (180000, "2 d 2 h")],
)
def test_times_are_said_in_two_units_at_most(seconds, said):
    assert duration(seconds) == said


BARE = {"sandbox_id": "s", "state": "active", "leaked": False}


def test_what_is_not_known_is_a_dash():
    assert (cpu(BARE), memory(BARE), limits(BARE), lateness(BARE)) == ("-", "-", "-", "-")
    assert memory_plot(BARE, 4) == "    "


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (BARE, "active"),
        ({**BARE, "state": "not_read"}, "not read"),
        ({**BARE, "reading": {"error_type": "http_error"}}, "http error"),
        ({**BARE, "state": "ending", "reading": {"error_type": "timeout"}}, "ending"),
        ({**BARE, "oom_killed": True, "state": "ending"}, "killed for memory"),
        ({**BARE, "leaked": True, "reading": {"error_type": "timeout"}}, "leaked"),
    ],
)
def test_a_state_is_what_wants_to_be_known_first(row, said):
    assert state(row) == said


def test_a_number_says_whose_machine_it_describes():
    reading = {"cpu_used_percentage": 12.3, "cpu_scope": "node", "memory_used_mib": 2048.0, "memory_scope": "node"}
    assert (cpu({"reading": reading}), memory({"reading": reading})) == ("12 % node", "2 GiB node")
    assert cpu({"reading": {"cpu_used_percentage": 3.0}}) == "3 % unknown"
    usage = {"cpu_used_cores": 0.25, "memory_working_set_mib": 80.0}
    assert cpu({"reading": reading, "usage": usage}) == "0.25 cores"
    assert cpu({"usage": {"cpu_used_cores": 1.0}}) == "1 core"
    assert memory({"reading": reading, "usage": usage}) == "80 MiB sandbox"


def test_a_plot_shows_gaps_and_stays_below_what_there_is():
    row = {"plot": {"memory_used_mib": [0.0, None, 50.0, 100.0, 900.0]}, "reading": {"memory_total_mib": 100.0}}
    assert memory_plot(row, 6) == " ▁ ▅██"


def test_no_text_of_a_span_steers_the_terminal(fleet):
    with Client(fleet.url, "") as client:
        look = client.look(Selection(), 1)
    (row,) = look.sandboxes
    evil = {"sandbox_id": "\x1b[31ma", "rollout_id": "0\u202e1", "state": "active", "leaked": False, "reading": {}}
    evil["reading"] = {"error_type": "b\x9bc"}
    overview = look.overview | {"leaks": [row | {"sandbox_id": "d\r\ne"}], "version": "\u2066"}
    shown = Look(overview, 1, [row | evil])
    console = Console(width=200, file=io.StringIO(), highlight=False)
    console.print(*head(shown), table(shown, 200), sep="\n")
    said = console.file.getvalue()
    for text in (r"\x1b[31ma", r"0\u202e1", r"b\x9bc", r"leaked: d\r\ne", r"\u2066"):
        assert text in said
    assert all(character.isprintable() for line in said.split("\n") for character in line)


def test_one_sandbox_is_one_and_not_several(fleet):
    with Client(fleet.url, "") as client:
        look = client.look(Selection(), 1)
    sandboxes = look.overview["sandboxes"] | {"total": 1, "by_state": {"active": 1}}
    said = head(Look(look.overview | {"sandboxes": sandboxes}, 1, look.sandboxes))[0].plain
    assert " · 1 sandbox (1 active) · " in said


def commands_of_the_page():
    lines = PAGE.read_text().splitlines()
    return [line.split("#")[0].split("|")[0].split() for line in lines if line.startswith("sandgauge top")]


@pytest.mark.parametrize("command", commands_of_the_page(), ids=" ".join)
def test_every_command_of_the_documentation_runs(fleet, command):
    code, out, _ = top(*command[2:], "--endpoint", fleet.url)
    assert code == 0
    assert out


def test_the_documentation_names_everything_that_can_be_asked_for():
    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    assert {str(word) for words in (Show, Sort, Order) for word in words} <= named
