"""What a row says in words: its title, its cells, and the advice for it; the table and the page are made of these."""

from collections.abc import Iterator

from rich.text import Text

from sandgauge_report.grouping import By, Row, Side
from sandgauge_report.merging.sandboxes import Creation, Sandbox
from sandgauge_report.sizing import Advice
from sandgauge_report.wording import NAMES, NOT_SAID, UNKNOWN, amount, counted, duration, reading, short_id
from sandgauge_schemas.names import Resource, SampleScope
from sandgauge_schemas.wording import number_of

_STYLES = {SampleScope.SANDBOX: "green", SampleScope.NODE: "yellow", SampleScope.UNKNOWN: "dim"}
_SAMPLED = (Resource.CPU, Resource.MEMORY_MIB)
_SDK_DEFAULT = "default"


def label(row: Row) -> str:
    """Return what a row stands for, without its run."""
    match row.by:
        case By.TASK:
            return f"task {row.task or UNKNOWN}"
        case By.RUN:
            return f"run {row.run_id or UNKNOWN}"
        case By.PROVIDER:
            return f"provider {row.provider or UNKNOWN}"
        case _ if row.rollout_id is None and row.trace_id is not None:
            return f"rollout {UNKNOWN}, trace {short_id(row.trace_id)}"
        case _:
            return f"rollout {row.rollout_id or UNKNOWN}"


def title_of(row: Row) -> Text:
    """Return what the row stands for, and how its sandboxes ended."""
    title = Text.assemble((label(row), "bold"))
    one = row.only
    if one is not None and one.creation is not Creation.CREATED:
        return title.append("  ").append(_not_created(one), "red" if one.creation is not Creation.PENDING else "")
    troubles = _troubles(row)
    if one is not None:
        lived = f" after {duration(one.lifetime_s)}" if one.lifetime_s is not None else ""
        end = f"end {UNKNOWN}" if one.end is None else f"{one.end}{lived}"
        title.append(f"  sandbox {short_id(one.sandbox_id)}  ")
        title.append(", ".join([end, *troubles]), "red" if troubles else None)
    else:
        title.append(f"  {_counts(row)}  ")
        title.append(", ".join([*_ends(row), *troubles]), "red" if troubles else None)
    return title.append(f"  {_readings(row)}", "dim")


def _not_created(one: Sandbox) -> str:
    number = f"{one.count} " if one.count > 1 else ""
    match one.creation:
        case Creation.FAILED:
            return f"{number}not created: {one.error_type or UNKNOWN}"
        case Creation.NO_START:
            return f"{number}not created: no start span"
        case _:
            return f"{number}asked for, not started yet"


def _troubles(row: Row) -> list[str]:
    words = {
        "out of memory": row.count(lambda one: one.oom_killed or bool(one.oom_kills)),
        "leaked": row.count(lambda one: one.leaked),
    }
    return [word if row.only else f"{word} {count}" for word, count in words.items() if count]


def _counts(row: Row) -> str:
    created = row.creations[Creation.CREATED]
    failed = row.creations[Creation.FAILED] + row.creations[Creation.NO_START]
    words = [number_of(created, "sandbox")]
    if failed:
        words.append(f"{failed} not created")
    if row.creations[Creation.PENDING]:
        words.append(f"{row.creations[Creation.PENDING]} not started yet")
    return ", ".join(words)


def _ends(row: Row) -> list[str]:
    ends = sorted(row.ends.items(), key=lambda item: (-item[1], item[0] or ""))
    return [f"end {UNKNOWN} {count}" if end is None else f"{end} {count}" for end, count in ends]


def _readings(row: Row) -> str:
    count = UNKNOWN if row.readings is None else str(row.readings)
    failed = row.missed if row.missed is not None else row.failures.total() or None
    missed = f", {failed} missed" if failed else ""
    return f"readings {count}{missed}"


def cells_of(row: Row, *, is_wide: bool) -> Iterator[tuple[Resource, tuple[Text | str, ...]]]:
    """Yield the cells of CPU, of memory, and of any other resource that somebody speaks of."""
    for resource, name in NAMES.items():
        is_spoken_of = any(row.total(side, resource) is not None for side in Side)
        if resource in _SAMPLED or is_spoken_of:
            cells = (
                f"  {name}",
                _total(row, Side.REQUESTED, resource) or _not_requested(row),
                _submitted(row, resource),
                _total(row, Side.ALLOCATED_LIMITS, resource) or _missing(row),
                *(_sampled(row, resource, is_wide=is_wide) if resource in _SAMPLED else ()),
            )
            yield resource, cells


def _total(row: Row, side: Side, resource: Resource) -> str | None:
    total = row.total(side, resource)
    if total is None:
        return None
    return amount(resource, total.sum) + ("*" if total.known < total.of else "")


def _not_requested(row: Row) -> str:
    return NOT_SAID if all(one.requested is not None for one in row.sandboxes) else UNKNOWN


def _submitted(row: Row, resource: Resource) -> str:
    stated = _total(row, Side.SUBMITTED_LIMITS, resource) or _total(row, Side.SUBMITTED_REQUESTS, resource)
    if stated is not None:
        return stated
    if not row.creations[Creation.CREATED]:
        return NOT_SAID if row.creations[Creation.FAILED] else UNKNOWN
    if resource in _SAMPLED and row.count(lambda one: one.submission is not None and one.submission.sdk_default):
        return _SDK_DEFAULT
    return NOT_SAID if row.count(lambda one: one.submission is not None) else UNKNOWN


def _missing(row: Row) -> str:
    is_refused = not row.creations[Creation.CREATED] and not row.creations[Creation.PENDING]
    return NOT_SAID if is_refused else UNKNOWN


def _sampled(row: Row, resource: Resource, *, is_wide: bool) -> Iterator[Text]:
    """Yield the statistics of the readings that say most, their share of the limit, and whose machine they are of."""
    series = row.preferred(resource)
    if series is None:
        yield Text(_missing(row))
        return
    share = row.share_of_limit(series.key)
    numbers = (series.min, series.mean, series.p95, series.max) if is_wide else (series.p95, series.max)
    cells = [UNKNOWN if number is None else reading(series.key.quantity, number) for number in numbers]
    is_of_all = row.sandboxes_with(series.key) == row.creations[Creation.CREATED]
    scope = series.key.scope if is_of_all else f"{series.key.scope}*"
    cells += ["" if share is None else f"{share:.0%}".replace("%", " %"), scope]
    if is_wide:
        about = "" if series.is_exact else "~"
        cells += [UNKNOWN if series.readings is None else f"{about}{series.readings}", series.key.source or UNKNOWN]
    style = _STYLES[series.key.scope]
    yield from (Text(cell, style) for cell in cells)


def advice_cells(row: Row, advice: Advice) -> tuple[str, ...]:
    """Return the resource, what is reserved and what is advised of it, and the readings behind that."""
    series = row.preferred(advice.resource)
    number = 0 if series is None else row.sandboxes_with(series.key)
    sandboxes = "" if number == 1 else f", {number} sandboxes"
    return (
        NAMES[advice.resource],
        UNKNOWN if advice.reserved is None else amount(advice.resource, advice.reserved),
        UNKNOWN if advice.advised is None else amount(advice.resource, advice.advised),
        UNKNOWN if series is None else f"{counted(series)}{sandboxes}",
    )
