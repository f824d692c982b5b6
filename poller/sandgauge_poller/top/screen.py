"""On a terminal: all of it once, or what fits again and again until Ctrl-C."""

import time
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sandgauge_poller.status.selection import Selection
from sandgauge_poller.top.client import Client, Look, PollerError
from sandgauge_poller.top.table import head, table
from sandgauge_poller.top.words import duration

_REFRESH_S = 2.0
_WITHOUT_TERMINAL = 200
"""Columns for a pipe or a file: whoever reads it next wants ids whole."""

_TABLE_LINES = 3
"""Lines around the rows: a blank one, the titles, and what is left out."""


def show(client: Client, selection: Selection, environ: Mapping[str, str], *, once: bool) -> None:
    """Show what the poller says: live on a terminal, else once; raises PollerError where none answers at first."""
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal and not once:
        _live(console, client, selection)
        return
    if not console.is_terminal and "COLUMNS" not in environ:
        console.width = _WITHOUT_TERMINAL
    look = client.look(selection, None)
    console.print(*head(look), "", table(look, console.width), sep="\n")


def _live(console: Console, client: Client, selection: Selection) -> None:
    look, answered = client.look(selection, console.height), time.monotonic()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(fitting(console, look, time.monotonic() - answered), refresh=True)
                time.sleep(_REFRESH_S)
                try:
                    look, answered = client.look(selection, console.height), time.monotonic()
                except PollerError:
                    continue  # the screen says for how long
    except KeyboardInterrupt:
        return


def fitting(console: Console, look: Look, silence_s: float) -> Group:
    """Return what fits: the head, cut down where it would leave a small screen no rows, and rows in what is left."""
    said = head(look)
    if silence_s > 2 * _REFRESH_S:
        silence = f"no answer for {duration(silence_s)}; this is how it was then"
        said = [Text(silence, style="bold red"), *said]
    most = max(1, console.height // 2 - 1)
    if len(console.render_lines(Group(*said))) > most:
        said = said[:most]
        for line in said:
            line.no_wrap, line.overflow = True, "ellipsis"
    lines = len(console.render_lines(Group(*said)))
    rows = look.sandboxes[: max(1, console.height - lines - _TABLE_LINES)]
    return Group(*said, "", table(replace(look, sandboxes=rows), console.width))
