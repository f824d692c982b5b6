import gzip
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandgauge_report.command import report
from sandgauge_report.findings import FindingKind
from sandgauge_schemas.names import EndReason, SampleScope
from sandgauge_schemas.records import Statistics
from support.otlp_json import GYM_SPANS
from support.told_run import allocated, ended, keys, requested, rollout_over, sampled, started

FIXTURES = Path(__file__).parents[1] / "fixtures"
ROTATED = str(FIXTURES / "report" / "rotated" / "input.jsonl")
PRETTY = str(FIXTURES / "report" / "pretty" / "input.json")
MIXED = str(FIXTURES / "report" / "mixed" / "input.jsonl")
A = keys()


def run(*arguments, input_=None):
    ended_ = CliRunner().invoke(report, arguments, input=input_)
    assert ended_.exception is None or isinstance(ended_.exception, SystemExit), ended_.exception
    return ended_


def document(*arguments, **more):
    ended_ = run(*arguments, "--format", "json", **more)
    assert ended_.exit_code == 0, ended_.output
    return json.loads(ended_.stdout)


def written(tmp_path, *lines):
    path = tmp_path / "joined.jsonl"
    path.write_text("".join(lines))
    return str(path)


def test_a_file_cut_by_rotation_and_one_for_people_give_their_sandboxes_and_one_warning():
    ended_ = run(ROTATED, PRETTY, "--by", "sandbox", "--format", "json")
    assert ended_.exit_code == 0
    found = json.loads(ended_.stdout)
    assert len(found["rows"]) == 3
    assert ended_.stderr == f"warning: {ROTATED}:6: cut off in the middle of a record\n"
    assert found["input"]["bad_lines"] == [f"{ROTATED}:6: cut off in the middle of a record"]
    assert found["findings"] == []


def test_the_machines_numbers_under_each_sandboxs_name_are_neither_summed_nor_divided(tmp_path):
    lines = []
    for number, text in enumerate((FIXTURES / "execd" / "node-scope.jsonl").read_text().splitlines()):
        told = json.loads(text)
        one = keys(told["sandbox"], f"{number}-0")
        limit, answer = told["limit_mib"], told["answer"]
        is_own = limit is not None and answer["mem_total_mib"] <= limit
        scope = SampleScope.UNKNOWN if limit is None else SampleScope.SANDBOX if is_own else SampleScope.NODE
        total, used = answer["mem_total_mib"], answer["mem_used_mib"]
        lines += [started(one, cpu=1.0), allocated(one, **({} if limit is None else {"memory_mib": float(limit)}))]
        lines.append(sampled(one, 5, used, total_mib=total, scope=scope))
    path = written(tmp_path, *lines)
    (whole,) = document(path, "--by", "run")["rows"]
    shares = {one["scope"]: one["share_of_limit"] for one in whole["sampled"] if one["quantity"] == "memory_used_mib"}
    assert shares.keys() == {"sandbox", "node", "unknown"}
    assert shares["node"] is None
    assert shares["unknown"] is None
    assert 0 < shares["sandbox"] < 1
    nodes = next(one for one in whole["sampled"] if one["scope"] == "node" and one["quantity"] == "memory_used_mib")
    assert (nodes["sandboxes"], nodes["max"], nodes["mean"]) == (3, 201234.5, pytest.approx(201234.5))
    found = document(path)["findings"]
    assert [one["finding"] for one in found] == [FindingKind.NODE_READINGS] * 3


def test_a_restart_under_the_same_id_is_one_sandbox_with_all_its_readings(tmp_path):
    lines = [started(A, memory_mib=1024.0), allocated(A, memory_mib=1024.0)]
    memory = []
    for text in (FIXTURES / "lifecycle" / "oom-restart.jsonl").read_text().splitlines():
        told = json.loads(text)
        memory.append(told["answer"]["mem_used_mib"])
        lines.append(sampled(A, told["read_at_s"], memory[-1], total_mib=1024.0))
    statistics = {"memory_used_mib": Statistics(min(memory), sum(memory) / 6, max(memory), memory[-1])}
    lines.append(ended(A, 60, readings_count=6, statistics=statistics, memory_scope=SampleScope.SANDBOX, resets=1))
    (row,) = document(written(tmp_path, *lines), "--by", "sandbox")["rows"]
    (own,) = [one for one in row["sampled"] if one["quantity"] == "memory_used_mib"]
    assert (own["readings"], own["min"], own["max"], own["last"]) == (6, 41, 1010, 60)
    assert row["sandbox"]["resets"] == 1


def test_gyms_own_file_alone_says_what_is_not_known_and_finds_nothing():
    ended_ = run(str(GYM_SPANS / "rollout.json"))
    assert ended_.exit_code == 0
    assert "rollout 7-0" in ended_.stdout
    assert "No record of a poller is in the input" in ended_.stdout
    assert "No findings." in ended_.stdout
    assert re.search(r"memory +unknown +unknown +unknown", ended_.stdout)


def test_files_of_one_run_are_put_together_in_whatever_form_they_come(tmp_path):
    lines = Path(MIXED).read_text().splitlines(keepends=True)
    packed = tmp_path / "old.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(lines[:5]).encode()))
    rest = "".join(lines[3:])
    whole, parts = document(MIXED), document(str(packed), "-", input_=rest)
    assert parts["rows"] == whole["rows"]
    assert parts["findings"] == whole["findings"]
    assert parts["input"]["files"] == [str(packed), "-"]


@pytest.mark.parametrize("kind", [*map(str, FindingKind), "any"])
def test_the_exit_code_tells_of_the_findings_that_were_named(kind):
    there = {one["finding"] for one in document(MIXED)["findings"]}
    assert run(MIXED, "--fail-on", kind).exit_code == (1 if kind == "any" or kind in there else 0)


def test_several_kinds_can_be_named():
    assert run(MIXED, "--fail-on", "no_readings", "--fail-on", "leaked").exit_code == 1
    assert run(MIXED, "--fail-on", "no_readings", "--fail-on", "near_limit").exit_code == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "1 file without a sandbox or rollout span"),
        (b'{"resourceMetrics": []}\n', "1 file without a sandbox or rollout span"),
        (rollout_over(A, 5).encode(), "1 rollout span, and no span of a sandbox"),
    ],
)
def test_an_input_without_sandboxes_says_so(tmp_path, content, says):
    path = tmp_path / "spans.jsonl"
    path.write_bytes(content)
    ended_ = run(str(path))
    assert (ended_.exit_code, ended_.stdout) == (1, "")
    assert says in ended_.stderr


def test_a_file_that_is_not_there_does_not_keep_the_others_from_being_read(tmp_path):
    absent = str(tmp_path / "absent.jsonl")
    ended_ = run(absent, MIXED)
    assert ended_.exit_code == 0
    assert ended_.stderr == f"warning: {absent}: No such file or directory\n"
    alone = run(absent)
    assert (alone.exit_code, alone.stderr.splitlines()[-1]) == (1, "nothing to report: no file could be read")


def test_of_very_many_bad_lines_some_are_named_and_all_are_counted(tmp_path):
    path = written(tmp_path, *("nonsense\n" for _ in range(50)), started(A))
    ended_ = run(path, "--format", "json")
    assert ended_.exit_code == 0
    assert json.loads(ended_.stdout)["input"]["bad_line_count"] == 50
    assert ended_.stderr.splitlines()[-1] == "warning: and 30 more lines"


def test_no_text_of_a_span_steers_a_terminal_or_stops_the_report(tmp_path):
    evil = "0-0\x1b]0;owned\x07\ud800\u202e"
    path = written(tmp_path, started(keys("a\x1b[2J", rollout_id=evil), cpu=1.0))
    for form in ("table", "json", "csv", "html"):
        ended_ = run(path, "--format", form, "--by", "sandbox")
        assert ended_.exit_code == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(ended_.stdout)
        shown = r"0-0\x1b]0;owned\x07\ud800\u202e"
        assert (shown.replace("\\", r"\\") if form == "json" else shown) in ended_.stdout


@pytest.mark.parametrize("arguments", [(), ("--by", "planet", MIXED), ("--fail-on", "boredom", MIXED)])
def test_wrong_usage_is_exit_code_2(arguments):
    assert run(*arguments).exit_code == 2


def test_an_output_that_cannot_be_written_names_the_cure(tmp_path):
    ended_ = run(MIXED, "--output", str(tmp_path / "no" / "folder"))
    assert ended_.exit_code == 1
    assert "name another place with --output" in ended_.stderr


def test_what_is_known_of_each_row_stands_in_the_table(tmp_path):
    lines = [
        requested(A, cpu=8.0, memory_mib=16384),
        started(A, cpu=4.0, memory_mib=8192.0),
        allocated(A, cpu=3.5, memory_mib=4096.0),
        sampled(A, 2, 1024.0, total_mib=4096.0, cpu=12.4),
        ended(A, 30, end_reason=EndReason.STOPPED, readings_count=1),
    ]
    shown = run(written(tmp_path, *lines)).stdout.splitlines()
    cells = {line.split()[0]: re.split(r"\s{2,}", line.strip())[1:] for line in shown if line.startswith("  ")}
    assert cells["cpus"][:3] == ["8", "4", "3.5"]
    assert cells["cpus"][6:8] == ["12 %", "unknown"]
    assert cells["memory"][:3] == ["16 GiB", "8 GiB", "4 GiB"]
    assert cells["memory"][6:9] == ["1 GiB", "25 %", "sandbox"]
