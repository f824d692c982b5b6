"""One input, every form. `SANDGAUGE_WRITE_GOLDEN=1` writes the golden files anew; look at them."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console

from sandgauge_report.command import report
from sandgauge_report.findings import findings_of
from sandgauge_report.grouping import By, rows_of
from sandgauge_report.reading.inputs import Account
from sandgauge_report.rendering.csv_table import write_csv
from sandgauge_report.rendering.html_page import html_page
from sandgauge_report.rendering.json_document import json_document
from sandgauge_report.rendering.report import Report
from sandgauge_report.rendering.table import print_table
from support.told_run import ended, keys, merged, requested, started

ROOT = Path(__file__).parents[2]
MIXED = ROOT / "tests" / "fixtures" / "report" / "mixed"


@pytest.fixture(scope="module")
def lines():
    return (MIXED / "input.jsonl").read_text().splitlines(keepends=True)


@pytest.fixture
def mixed_file(monkeypatch):
    """Name the input without its folder, which is elsewhere on each machine."""
    monkeypatch.chdir(MIXED)
    return "input.jsonl"


def printed(*arguments):
    ended = CliRunner().invoke(report, arguments)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def told(lines, by):
    sandboxes = merged(lines)
    account = Account(files=["input.jsonl"], spans=len(lines))
    return Report(account=account, by=by, rows=rows_of(sandboxes, by), findings=findings_of(sandboxes))


def golden(name, text):
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("SANDGAUGE_WRITE_GOLDEN"):
        (MIXED / name).write_text(text)
    assert (MIXED / name).read_text() == text


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("by", [By.ROLLOUT, By.SANDBOX, By.RUN])
def test_the_table_in_a_narrow_and_in_a_wide_terminal(lines, by, width):
    console = Console(width=width, highlight=False, markup=False)
    with console.capture() as capture:
        print_table(told(lines, by), console)
    shown = capture.get()
    assert max(map(len, shown.splitlines())) <= width
    golden(f"expected.{by}.{width}.txt", shown)


def test_the_json_document_keeps_its_schema(mixed_file):
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for by in By:
        document = json.loads(printed(mixed_file, "--format", "json", "--by", str(by)))
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
        if by is By.SANDBOX:
            golden("expected.json", json.dumps(document, indent=1))


class _FirstRow(io.StringIO):
    """A file that notes how many rows there were when it got the first."""

    def __init__(self, made):
        super().__init__()
        self.made, self.made_before = made, None

    def write(self, text):
        if "run-1" in text and self.made_before is None:
            self.made_before = len(self.made)
        return super().write(text)


@pytest.mark.parametrize(
    "write",
    [
        lambda report, file: file.writelines(json_document(report)),
        write_csv,
        lambda report, file: print_table(report, Console(file=file, width=80)),
    ],
    ids=["json", "csv", "table"],
)
def test_a_row_is_written_before_the_next_is_made(lines, write):
    found, made = told(lines, By.SANDBOX), []

    def rows():
        for row in found.rows:
            made.append(row)
            yield row

    file = _FirstRow(made)
    write(replace(found, rows=rows()), file)
    assert (file.made_before, len(made)) == (1, 9)


def test_nothing_unknown_is_invented_in_json():
    (row,) = told([requested(keys(), cpu=1.0)], By.ROLLOUT).rows
    assert row.readings is None
    assert row.missed is None


def test_csv_has_a_heading_and_a_line_for_each_row(mixed_file):
    text = printed(mixed_file, "--format", "csv", "--by", "sandbox")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 9
    by_rollout = {row["rollout_id"]: row for row in rows}
    assert by_rollout["2-0"]["findings"] == "over_reserved"
    assert by_rollout["2-0"]["memory_max"] == "700.0"
    assert by_rollout["2-1"]["allocated_limits_cpu"] == ""
    golden("expected.csv", text)


def test_csv_names_the_findings_of_each_row_kind_by_kind_and_of_no_other(tmp_path):
    path = tmp_path / "spans.jsonl"
    one, other = keys("a", rollout_id="0-0"), keys("b", rollout_id="0-1")
    spans = started(one) + ended(one, 9.0, leaked=True) + started(other, cpu=1.0) + ended(other, 9.0, leaked=True)
    path.write_text(spans)
    by_sandbox = csv.DictReader(io.StringIO(printed(str(path), "--format", "csv", "--by", "sandbox")))
    assert [row["findings"] for row in by_sandbox] == ["sdk_default leaked", "leaked"]
    (row,) = csv.DictReader(io.StringIO(printed(str(path), "--format", "csv", "--by", "run")))
    assert row["findings"] == "sdk_default leaked leaked"


@pytest.mark.parametrize("evil", ["=1+1", "+x", "-x", "@x", "\uff1d1+1", '"><script>'])
def test_no_text_of_a_span_becomes_a_formula_or_a_tag(evil, tmp_path):
    path = tmp_path / "spans.jsonl"
    sandbox = keys("a", rollout_id=evil)
    path.write_text(started(sandbox, cpu=1.0) + ended(sandbox, 9.0, end_reason=evil))
    (row,) = csv.DictReader(io.StringIO(printed(str(path), "--format", "csv")))
    assert evil in row["ends"]
    assert not {row["rollout_id"][0], row["ends"][0]} & set("=+-@\uff1d")
    assert "<script" not in printed(str(path), "--format", "html")


class _Page(HTMLParser):
    """The tags of a page, and whether each that opens is closed."""

    VOID = frozenset({"meta", "br"})

    def __init__(self):
        super().__init__()
        self.tags, self.open, self.addresses = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(mixed_file):
    text = printed(mixed_file, "--format", "html")
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.addresses == []
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not re.search(r"url\(|https?://|@import", text)
    assert "default-src 'none'" in text
    assert page.tags.count("svg") >= 2 + 6  # two plots, and a bar where a limit is set against readings
    assert page.tags.count("circle") == 7


def test_a_page_of_very_many_rows_stays_one_that_a_browser_can_show(lines):
    many = told(lines, By.SANDBOX)
    wide = Report(account=many.account, by=By.SANDBOX, rows=many.rows * 400, findings=many.findings * 400)
    text = html_page(wide)
    assert len(text) < 4_000_000
    assert f"And {len(wide.rows) - 2000} more" in text


def test_a_page_without_anything_to_plot_says_so():
    text = html_page(told([requested(keys())], By.ROLLOUT))
    assert "nothing to compare" in text
    assert "<circle" not in text


def test_what_goes_to_a_file_is_what_would_be_printed(mixed_file, tmp_path):
    for form in ("table", "json", "csv", "html"):
        path = tmp_path / form
        assert printed(mixed_file, "--format", form, "--output", str(path)) == ""
        assert path.read_text() == printed(mixed_file, "--format", form)
