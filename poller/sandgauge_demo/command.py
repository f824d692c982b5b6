"""`sandgauge demo`: the whole pipeline on simulated sandboxes, from an empty folder to a table of what came of it."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from sandgauge_demo.collector import JOINED_FILE, CollectorError
from sandgauge_demo.interruption import InterruptedByUserError, Interruption
from sandgauge_demo.outcome import Outcome
from sandgauge_demo.pipeline import CONFIG_FILE, Pipeline
from sandgauge_demo.process import Pause, ProcessError
from sandgauge_demo.scenario import PlannedRollout, planned_rollouts, run_seconds
from sandgauge_report.rendering.table import print_table
from sandgauge_schemas.wording import number_of

_STARTING_S, _ENDING_S = 3.0, 3.0
_PATIENCE_S = 60.0
"""How much longer than planned the run and its last records may take."""

_POLL_INTERVAL_S = 0.25
_PLAIN_WIDTH = 160
"""Where the output is no terminal; a line of it should be a line in any log."""

_INTERRUPTED = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--rollouts",
    type=click.IntRange(1, 50),
    default=5,
    show_default=True,
    help="Rollouts of the run; five are all there is to see, more repeat them.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("sandgauge-demo"),
    show_default=True,
    help="Where the run leaves its joined file, configuration and logs, in a folder of its own.",
)
def demo(rollouts: int, folder: Path) -> None:
    """Show the whole pipeline on simulated sandboxes; takes about 20 seconds.

    Starts a simulated OpenSandbox deployment, a Collector, the poller, and a run of several rollouts like NeMo Gym's,
    all on free loopback ports. Ends with a table: what each sandbox was asked for, was sent, got and used.

    The Collector is the one that SANDGAUGE_OTELCOL names; else otelcol-sandgauge, otelcol-contrib or otelcol on PATH;
    else the one that `make collector` built; else a small stand-in.
    """
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    run_id = f"demo-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    run_folder = folder / run_id
    try:
        run_folder.mkdir(parents=True)
    except OSError as error:
        cure = "name another place with --folder"
        raise click.ClickException(f"{run_folder} cannot be made ({error.strerror}); {cure}") from error
    plan = planned_rollouts(rollouts)
    try:
        with Interruption() as interruption:
            outcome = _run(console, run_folder, run_id, plan, interruption.pause)
    except InterruptedByUserError:
        console.print(f"Stopped, and every process has ended. What there is so far: {run_folder}", soft_wrap=True)
        sys.exit(_INTERRUPTED)
    except (CollectorError, ProcessError) as error:
        raise click.ClickException(str(error)) from error
    print_table(outcome.report, console)
    console.print()
    _say_where_to_look(console, run_folder)
    if missing := _missing(outcome, plan):
        raise click.ClickException(f"{missing}; the logs in {run_folder} may say why")


def _run(console: Console, folder: Path, run_id: str, plan: Sequence[PlannedRollout], pause: Pause) -> Outcome:
    """Start everything, follow the run to its end, and end everything."""
    seconds = _STARTING_S + run_seconds(plan) + _ENDING_S
    console.print(f"A run of {number_of(len(plan), 'rollout')} on simulated sandboxes, about {seconds:.0f} s\n")
    _print_part(console, "files", str(folder), "")
    environ = os.environ
    with Pipeline(folder.absolute(), run_id=run_id, rollouts=len(plan), environ=environ, pause=pause) as pipeline:
        for part in pipeline.start():
            _print_part(console, part.name, part.address, part.remark)
        console.print()
        return _follow(console, pipeline, plan, pause)


def _follow(console: Console, pipeline: Pipeline, plan: Sequence[PlannedRollout], pause: Pause) -> Outcome:
    """Return what came through the pipeline once it is all there, or when patience is over."""
    columns = (TextColumn("  {task.description}", markup=False), BarColumn(), TextColumn("{task.fields[left]}"))
    seconds = run_seconds(plan) + _ENDING_S
    began = time.monotonic()
    is_plain = not sys.stdout.isatty()
    with Progress(*columns, console=console, auto_refresh=False, transient=True, disable=is_plain) as bar:
        task = bar.add_task("", total=seconds, left="")
        while True:
            is_over, outcome, elapsed = pipeline.is_run_over(), pipeline.outcome(), time.monotonic() - began
            if (is_over and not _missing(outcome, plan)) or elapsed > seconds + _PATIENCE_S:
                return outcome
            left = f"{seconds - elapsed:.0f} s left" if elapsed < seconds else "waiting for the last records"
            bar.update(task, completed=min(elapsed, seconds), description=_so_far(outcome), left=left, refresh=True)
            pause(_POLL_INTERVAL_S)


def _so_far(outcome: Outcome) -> str:
    up = sum(one.sandbox_id is not None for one in outcome.sandboxes)
    ended = sum(one.sandbox_id is not None and one.is_settled for one in outcome.sandboxes)
    return f"{up} sandboxes up, {outcome.readings} readings, {ended} summaries"


def _missing(outcome: Outcome, plan: Sequence[PlannedRollout]) -> str:
    """Say what did not come through the pipeline; nothing when all is there."""
    planned = sum(request.count for rollout in plan for request in rollout.requests)
    settled = sum(one.count for one in outcome.sandboxes if one.is_settled)
    if settled < planned:
        return f"{planned - settled} of {planned} sandboxes have no summary in the joined file"
    if outcome.rollouts_ended < len(plan):
        return f"{len(plan) - outcome.rollouts_ended} of {len(plan)} rollouts have no span in the joined file"
    return ""


def _say_where_to_look(console: Console, folder: Path) -> None:
    places = {
        "records, by rollout": folder / JOINED_FILE,
        "this report, as a page": f"{_program()} report {folder / JOINED_FILE} --format html --output report.html",
        "the poller's configuration": folder / CONFIG_FILE,
        "your own Gym, OpenSandbox": "README.md",
        "every span and metric": "docs/telemetry.md",
    }
    console.print("Where to look next", style="bold")
    for what, place in places.items():
        # A path that is broken in two cannot be copied.
        console.print(Text.assemble(f"  {what:<28}", (str(place), "cyan")), soft_wrap=True)


def _program() -> str:
    """Return how to call `sandgauge` again: `make demo` has it in an environment that is on nobody's PATH."""
    beside = Path(sys.executable).with_name("sandgauge")
    if shutil.which("sandgauge") or not beside.exists():
        return "sandgauge"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _print_part(console: Console, name: str, place: str, remark: str) -> None:
    """Print three cells below those of other parts; a long remark wraps within its own width."""
    row = Table.grid(padding=(0, 2, 0, 0))
    for width in (13, 22, 0):
        row.add_column(min_width=width, overflow="fold")
    row.add_row(Text(f"  {name}"), Text(place, "cyan"), Text(remark, "dim"))
    console.print(row)
