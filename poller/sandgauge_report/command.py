"""`sandgauge report`: exit code 0, or 1 where a finding of `--fail-on` is there or nothing could be read."""

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from sandgauge_report.findings import FindingKind
from sandgauge_report.grouping import By
from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.reading.files import size_of
from sandgauge_report.reading.inputs import Account, read_files
from sandgauge_report.rendering.csv_table import write_csv
from sandgauge_report.rendering.html_page import html_page
from sandgauge_report.rendering.json_document import json_document
from sandgauge_report.rendering.report import Report, report_of
from sandgauge_report.rendering.table import print_table
from sandgauge_schemas.wording import number_of

_ANY = "any"
_FINDINGS = ", ".join([*map(str, FindingKind), _ANY])
_FORMATS = ("table", "json", "csv", "html")
_PLAIN_WIDTH = 160
"""Where the output is no terminal; a line of it should be a line in any log."""

_BYTES_APART = 2**20
"""Between two updates of the progress bar."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--by",
    type=click.Choice([str(by) for by in By]),
    default=str(By.ROLLOUT),
    show_default=True,
    help="What a row of the report stands for.",
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="table", show_default=True, help="Form of the report."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write it there, not to the terminal.")
@click.option(
    "--fail-on",
    type=click.Choice([*map(str, FindingKind), _ANY]),
    metavar="FINDING",
    multiple=True,
    help=f"Exit with 1 if there is such a finding, or any. May be given several times. One of: {_FINDINGS}.",
)
def report(files: Sequence[str], by: str, form: str, output: Path | None, fail_on: Sequence[str]) -> None:
    """Tell what each sandbox was asked for, was sent, got and used, and what is wrong.

    FILE is the Collector's joined file, any other file of OTLP JSON lines, such as NeMo Gym's
    JOB/otel/traces.jsonl, plain or gzip; - is standard input. Files of one run are put together, repeats count once.

    Exit codes: 0 fine; 1 a finding that --fail-on names, or nothing to report in the input; 2 wrong usage.
    """
    account = Account()
    inventory = _read(files, account)
    _complain(account)
    found = report_of(inventory, account, By(by))
    if not found.rows:
        click.echo(_nothing(account), err=True)
        sys.exit(1)
    _write(found, form, output)
    kinds = {str(finding.kind) for finding in found.findings}
    if kinds & set(fail_on) or (kinds and _ANY in fail_on):
        sys.exit(1)


def _read(files: Sequence[str], account: Account) -> Inventory:
    inventory = Inventory()
    with _progress_bar(files) as on_position, _without_garbage_collection():
        for span in read_files(files, account, on_position):
            inventory.add(span)
    return inventory


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Let nobody look for cycles meanwhile: there are none, and the looking takes as long as the reading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _progress_bar(files: Sequence[str]) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far the reading is; give what is to be told the bytes read."""
    total = sum(map(size_of, files))
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    is_shown = sys.stderr.isatty() and total > _BYTES_APART
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_shown) as bar:
        task = bar.add_task("", total=total)
        told = 0

        def on_position(position: int) -> None:
            nonlocal told
            if is_shown and position - told >= _BYTES_APART:
                told = position
                bar.update(task, completed=position)

        yield on_position


def _complain(account: Account) -> None:
    """Say on standard error what of the input is not in the report."""
    for unread in account.unread:
        click.echo(f"warning: {unread}", err=True)
    for bad in account.bad_lines:
        click.echo(f"warning: {bad}", err=True)
    if (more := account.bad_line_count - len(account.bad_lines)) > 0:
        click.echo(f"warning: and {number_of(more, 'more line')}", err=True)


def _nothing(account: Account) -> str:
    """Say why there is nothing to report, and what to do."""
    if not account.files:
        return "nothing to report: no file could be read"
    files = f"{number_of(len(account.files), 'file')}"
    if account.spans:
        spans = number_of(account.spans, "rollout span")
        return f"nothing to report: {files}, {spans}, and no span of a sandbox among them"
    return (
        f"nothing to report: {files} without a sandbox or rollout span. "
        "Are these traces, and is the span group `sandbox` on in Gym (docs/gym.md)?"
    )


def _write(found: Report, form: str, output: Path | None) -> None:
    if output is None:
        _write_to(sys.stdout, found, form)
        sys.stdout.flush()
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write_to(file, found, form)
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}; name another place with --output") from error


def _write_to(file: TextIO, found: Report, form: str) -> None:
    match form:
        case "json":
            file.writelines(json_document(found))
        case "csv":
            write_csv(found, file)
        case "html":
            file.write(html_page(found))
        case _:
            width = None if file.isatty() else _PLAIN_WIDTH
            print_table(found, Console(file=file, width=width, highlight=False, markup=False))
