"""Every link of README and docs leads somewhere; every command is run here, is run elsewhere, or has a reason."""

import re
import shutil
import sqlite3
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from sandgauge_demo.command import demo
from sandgauge_poller.cli import cli
from sandgauge_poller.config import Config, load_config
from sandgauge_poller.top.command import top
from sandgauge_poller.tracking.store_file import open_store
from sandgauge_report.command import report
from sandgauge_schemas import names
from support.documented import PAGES, ROOT, Command, anchors, blocks, inline_commands, links, shell_commands
from support.shown_fleet import ShownFleet

# The commands of this page are run whole, pipes and all, by a test of its own.
REPORT_PAGE = ("report.md", "tests/report/test_report_docs.py")
# Which test runs it, by how the command begins.
RUN_ELSEWHERE = {
    "_build/otelcol-sandgauge ": "tests/integration/test_collector_joined.py",
    'mv "$OTELCOL_STATE_DIR/queues"': "tests/integration/test_collector_starting.py",
    "docker compose up": "tests/integration/test_compose_demo.py",
    "docker compose --profile demo up": "tests/integration/test_compose_demo.py",
    "docker compose stop poller": "tests/integration/test_compose_errors.py",
    "docker compose run --rm --user 10001": "tests/integration/test_compose_errors.py",
    "docker build --file poller/Dockerfile": "tests/integration/test_compose_demo.py",
    "curl -X POST": "tests/poller/ingest/test_ingest_final_reading.py",
    "sandgauge read SANDBOX_ID": "tests/poller/read/test_read_command.py",
    "sandgauge run": "tests/poller/service/test_stop.py",
    "sqlite3 ": "tests/test_docs.py",
}
# Why no test runs it, by how the command begins.
NOT_RUN = {
    ".ci/run": "it runs the tests itself",
    "base64 ": "behind a cluster's secret",
    "bridge=$(docker network inspect": "opens a port of the machine that runs it to its containers",
    "docker compose build": "needs registries; what it builds from is held by the stack's tests",
    "docker push": "needs a registry",
    "git pull": "needs a remote",
    "grep ": "behind a pipe of what is run",
    "gym env start": "starts a whole Gym; its switches are held by tests/integration/test_gym_loading.py",
    "kind ": "needs images from a registry",
    "kubectl ": "no cluster is part of the tests; the manifests are held to the API's schemas",
    "printf 'usage:": "its file is one of kind kubernetes, as in tests/poller/config",
    "socat ": "opens a port of the machine that runs it to its containers",
    "ssh -L": "needs another machine",
}
_WHOLE = {"demo": demo, "report": report, "top": top}
_TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_MIXED = ROOT / "tests" / "fixtures" / "report" / "mixed" / "input.jsonl"

SHELL = [command for page in PAGES for command in shell_commands(page)]
SENTENCES = [command for page in PAGES for name in ("sandgauge", "make") for command in inline_commands(page, name)]


def held(command: Command) -> list[str]:
    return [start for start in (*RUN_ELSEWHERE, *NOT_RUN) if command.text.startswith(start)]


OTHERS = [command for command in SHELL if command.page != REPORT_PAGE[0]]
HERE = sorted({command.text for command in OTHERS if command.text.startswith("sandgauge ") and not held(command)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    for target in links(page):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.is_relative_to(ROOT), target
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_is_linked_from_the_readme():
    linked = {target.partition("#")[0] for target in links(ROOT / "README.md")}
    assert {str(page.relative_to(ROOT)) for page in PAGES[1:]} <= linked


def test_every_command_of_a_block_is_run_or_is_said_why_not():
    unheld = [c for c in OTHERS if c.text not in HERE and c.words[0] != "make" and not held(c)]
    assert not unheld, "run it in a test, or say in this file why none does"
    assert all((ROOT / test).exists() for test in (*RUN_ELSEWHERE.values(), REPORT_PAGE[1]))


@pytest.mark.parametrize("start", [*RUN_ELSEWHERE, *NOT_RUN])
def test_what_is_held_elsewhere_still_stands_on_a_page(start):
    assert any(start in held(command) for command in SHELL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_options_choices_targets_and_files_exist(page):
    for command in (*SHELL, *SENTENCES):
        if command.page == page.name:
            _exists(command)


def _exists(command: Command) -> None:
    program, *arguments = command.words
    if program == "make":
        assert set(arguments) <= _TARGETS, command
    elif program == "sandgauge" and not arguments[0].startswith(("-", ">")):
        name, *arguments = arguments
        one = _WHOLE.get(name, cli.commands.get(name))
        assert one is not None, command
        # What takes its arguments as files and addresses is not to look for them.
        options, _, _ = one.make_parser(click.Context(one)).parse_args(list(arguments))
        for option in one.params:
            if isinstance(option.type, click.Choice) and options.get(option.name):
                option.process_value(click.Context(one), options[option.name])
    for word in command.words:
        named = word.rpartition("=")[2].removeprefix("checkout/")
        if named.startswith(("collector-config/", "poller/", "tests/", "docs/", ".ci/")):
            assert (ROOT / named).exists(), command


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with ShownFleet(tmp_path_factory.mktemp("fleet"), 40) as served:
        yield served


@pytest.mark.parametrize("command", HERE)
def test_it_runs(fleet, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SANDGAUGE_CONFIG", raising=False)
    Path("sandgauge.yaml").write_text(f"status: {{endpoint: '{fleet.url.removeprefix('http://')}'}}\n")
    shutil.copy(_MIXED, "joined.jsonl")
    arguments = Command("", command.replace("http://10.0.0.5:8099", fleet.url)).words[1:]
    answer = CliRunner().invoke(cli, arguments)
    # The doctor finds that no Collector is there.
    assert answer.exit_code == (1 if arguments[0] == "doctor" else 0), answer.output
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    assert answer.output


def test_the_store_can_be_asked_as_the_page_says(tmp_path):
    (query,) = [command.words[2] for command in SHELL if command.words[0] == "sqlite3"]
    open_store(tmp_path / "sandgauge.db").close()
    connection = sqlite3.connect(tmp_path / "sandgauge.db")
    assert connection.execute(query).fetchall() == []
    connection.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configurations_load(page, tmp_path):
    for number, block in enumerate(blocks(page, "yaml")):
        documents = list(yaml.safe_load_all(block))
        if all(document.keys() <= Config.model_fields.keys() for document in documents):
            file = tmp_path / f"{number}.yaml"
            file.write_text(block)
            assert load_config(file, {"HOSTNAME": "sandgauge-poller-1"}).warnings == ()


def test_every_metric_of_the_poller_that_a_page_names_is_one():
    known = {
        value.replace(".", "_") for name, value in vars(names).items() if name.startswith("METRIC_SANDGAUGE_POLLER_")
    }
    named = {word for page in PAGES for word in re.findall(r"\bsandgauge_poller_[a-z_]+", page.read_text())}
    assert named
    assert {re.sub(r"(_seconds)?(_total)?$", "", word) for word in named} <= known
