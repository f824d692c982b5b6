"""The commands of docs/report.md run, and what it says of findings and exit codes is so."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandgauge_report.findings import CLOSE_TO_LIMIT, HEADLINES, LEAST_SAVING, FindingKind
from sandgauge_report.merging.distinct import K
from sandgauge_report.rendering.html_page import MOST_ROWS
from sandgauge_report.sizing import FEWEST_READINGS
from sandgauge_schemas.names import Resource
from support.documents import code_block, document, section
from support.otlp_json import GYM_SPANS

PAGE = document("report.md")
MIXED = Path(__file__).parents[1] / "fixtures" / "report" / "mixed" / "input.jsonl"
COMMANDS = [line for line in code_block(PAGE, "sh", "sandgauge report").splitlines() if line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the page speaks of, and the command on the path."""
    folder = tmp_path_factory.mktemp("report")
    lines = MIXED.read_text().splitlines(keepends=True)
    (folder / "joined.jsonl").write_text("".join(lines))
    (folder / "joined-2026-11-30.jsonl").write_text(lines[0])
    (folder / "old.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (folder / "job" / "otel").mkdir(parents=True)
    shutil.copy(GYM_SPANS / "rollout.json", folder / "job" / "otel" / "traces.jsonl")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_runs(folder, command):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == (1 if "--fail-on" in command else 0), ended.stderr
    assert ended.stderr == ""
    if "--output" in command:
        assert "<svg" in (folder / "report.html").read_text()
    else:
        assert "rollout" in ended.stdout or "task 0" in ended.stdout


def test_every_finding_stands_on_the_page_with_evidence_and_cure():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", section(PAGE, "Findings"), re.MULTILINE)
    assert [row[0] for row in rows] == [str(kind) for kind in FindingKind]
    for name, meaning, evidence, cure in rows:
        assert meaning in HEADLINES[FindingKind(name)]
        assert evidence
        assert cure


def test_the_figures_of_the_page_are_those_of_the_code():
    assert f"sample of {K}" in PAGE
    assert f"Up to {MOST_ROWS:,} rows" in PAGE
    assert f"at least {FEWEST_READINGS} readings" in PAGE
    assert f"by {LEAST_SAVING[Resource.MEMORY_MIB]:g} MiB or half a core" in PAGE
    assert LEAST_SAVING[Resource.CPU] == 0.5
    assert f"from {CLOSE_TO_LIMIT:.0%} of the limit".replace("%", " %") in PAGE
