"""The same for people: a table for each deployment that has the sandbox, and below it what went wrong, and the cure."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sandgauge_poller.status.rows import Json
from sandgauge_poller.top.words import NONE, duration, mebibytes
from sandgauge_schemas.wording import printable

_WITHOUT_TERMINAL = 200
"""Columns for a pipe or a file: ids stay whole."""


def show(document: Json, now_s: float) -> None:
    """Print it; of deployments that do not know the sandbox nothing, where another one does."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WITHOUT_TERMINAL
    deployments = document["deployments"]
    there = [one for one in deployments if _is_there(one)]
    for one in there or deployments:
        console.print(_text(f"{document['sandbox_id']} at {one['deployment']}: {_standing(one, now_s)}"))
        if _is_there(one):
            console.print(_table(one))
        for complaint in _complaints(one):
            console.print(_text(f"! {complaint}", "red"))
    for one in deployments if there else ():
        if not _is_there(one) and one.get("state") is None:
            console.print(_text(f"! {one['deployment']}: {one['error_type']}; {one['cure']}", "yellow"))


def _text(said: str, style: str = "") -> Text:
    """Return what is shown; all of it is made here, since much of it is a control plane's or a daemon's word."""
    return Text(printable(said), style)


def _is_there(one: Json) -> bool:
    return "allocation" in one


def _standing(one: Json, now_s: float) -> str:
    state = str(one.get("state", "state unknown")).replace("_", " ")
    expires_at = one.get("expires_at")
    return state if expires_at is None else f"{state}, expires in {duration(expires_at - now_s)}"


def _complaints(one: Json) -> Iterator[str]:
    if "error_type" in one:
        yield f"{one['error_type']}; {one['cure']}"
    for key in ("allocation", "reading"):
        if "error_type" in one.get(key, {}):
            yield f"{key}: {one[key]['error_type']}; {one[key]['cure']}"
    for usage in one.get("usage", ()):
        if "error_type" in usage:
            yield f"usage: {usage['error_type']}; {usage['cure']}"


def _table(one: Json) -> Table:
    found = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("", "VALUE", "OF", "SOURCE"):
        found.add_column(title, overflow="fold")
    for row in _rows(one):
        found.add_row(*(_text(cell) for cell in row))
    return found


def _rows(one: Json) -> Iterator[tuple[str, str, str, str]]:
    yield from _allocation(one["allocation"])
    if "reading" in one:
        yield from _reading(one["reading"])
    for usage in one.get("usage", ()):
        yield from _usage(usage)


def _allocation(allocation: Json) -> Iterator[tuple[str, str, str, str]]:
    source = allocation["source"]
    for component in allocation.get("components", ()):
        for side in ("requests", "limits"):
            if component[side]:
                yield side, ", ".join(_amounts(component[side])), component["name"], source
    if "error_type" in allocation:
        yield "allocation", "unavailable", "", source
    for note in allocation.get("notes", ()):
        yield "note", note, "", source
    for key in ("designator", "host"):
        if key in allocation:
            yield key, f"{allocation[key]['kind']} {allocation[key]['id']}", "", source
    if allocation.get("oom_killed"):
        yield "killed", "for memory", "", source


def _reading(reading: Json) -> Iterator[tuple[str, str, str, str]]:
    if "cpu_scope" not in reading:
        yield "reading", "unavailable", "", reading["source"]
        return
    for quantity, value in (("cpu", _cpu(reading)), ("memory", _memory(reading))):
        of = f"{reading[f'{quantity}_scope']} ({reading[f'{quantity}_scope_evidence']})"
        yield f"{quantity} used", value, of, reading["source"]


def _usage(usage: Json) -> Iterator[tuple[str, str, str, str]]:
    if "cpu_used_cores" in usage:
        window = f" on average over {duration(usage['window_s'])}" if "window_s" in usage else ""
        yield "cpu used", f"{usage['cpu_used_cores']:.3g} cores{window}", "sandbox", usage["source"]
    if "memory_working_set_mib" in usage:
        yield "memory used", f"{mebibytes(usage['memory_working_set_mib'])} working set", "sandbox", usage["source"]
    if "error_type" in usage:
        yield "usage", "unavailable", "", usage["source"]


def _cpu(reading: Json) -> str:
    used = f"{reading['cpu_used_percentage']:.1f} %" if "cpu_used_percentage" in reading else NONE
    return f"{used} of {reading['cpu_count']:g} CPUs" if "cpu_count" in reading else used


def _memory(reading: Json) -> str:
    used = mebibytes(reading["memory_used_mib"]) if "memory_used_mib" in reading else NONE
    return f"{used} of {mebibytes(reading['memory_total_mib'])}" if "memory_total_mib" in reading else used


def _amounts(amounts: Json) -> Iterator[str]:
    written: dict[str, Any] = {
        "cpu": lambda value: f"{value:g} CPU",
        "memory_mib": mebibytes,
        "disk_gib": lambda value: f"{value:g} GiB of disk",
        "gpu": lambda value: f"{value} GPU",
        "gpu_type": str,
    }
    yield from (write(amounts[key]) for key, write in written.items() if key in amounts)
