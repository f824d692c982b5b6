"""The outcome of a run as a table: the four quantities side by side, and whose machine each reading describes."""

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sandgauge_demo.outcome import Outcome, SandboxOutcome
from sandgauge_schemas.names import Resource, SampleScope
from sandgauge_schemas.resources import SandboxResourceAmounts

NOT_SAID = "-"
"""Nobody declared it, so there is nothing to know."""
UNKNOWN = "unknown"
"""It should be known, and no record says it."""

CAPTION = f"""\
{NOT_SAID}        not declared, or not created
{UNKNOWN}  no record says it, or nothing tells whose machine was read; never guessed
sampled  the highest reading; of CPUs in % of those that the sandbox's daemon sees
node     the reading is of the whole machine: no limit is held against it"""

_COLUMNS = {
    "": 10,
    "Requested": 9,
    "Submitted": 11,
    "Allocated": 9,
    "Sampled": 9,
    "Of limit": 8,
    "Scope": 7,
}
"""Headings and widths. One width for all sandboxes, each of which has a grid of its own below its title."""

_NAMES = {Resource.CPU: "cpus", Resource.MEMORY_MIB: "memory", Resource.DISK_GIB: "disk", Resource.GPU: "gpus"}
_SAMPLED = {
    Resource.CPU: ("cpu_used_percentage", "cpu_scope"),
    Resource.MEMORY_MIB: ("memory_used_mib", "memory_scope"),
}
_STYLES = {SampleScope.SANDBOX: "green", SampleScope.NODE: "yellow", SampleScope.UNKNOWN: "dim"}
_MAIN_COMPONENT = "sandbox"
_SHORT_ID = 8
_MIB_PER_GIB = 1024


def outcome_table(outcome: Outcome) -> Group:
    """Return, rollout by rollout, a title for each sandbox and a row for each of its resources."""
    headings = _grid()
    headings.add_row(*(Text(heading, "bold") for heading in _COLUMNS))
    parts: list[Table | Text] = [headings]
    for row in outcome.sandboxes:
        rows = _grid()
        for cells in _resource_rows(row):
            rows.add_row(*cells)
        parts += [_title(row), rows]
    return Group(*parts)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in _COLUMNS.values():
        grid.add_column(min_width=width)
    return grid


def _title(row: SandboxOutcome) -> Text:
    """Return the rollout, the sandbox, and how it ended."""
    title = Text.assemble(("rollout ", ""), (row.rollout_id or UNKNOWN, "bold"))
    if row.was_refused:
        return title.append(f"  not created: {row.error_type or UNKNOWN}", "red")
    title.append(f"  sandbox {(row.sandbox_id or UNKNOWN)[:_SHORT_ID]}  ")
    summary = row.summary
    if summary is None:
        return title.append(f"end {UNKNOWN}")
    troubles = [word for word, is_so in (("out of memory", summary.oom_killed), ("leaked", summary.leaked)) if is_so]
    return title.append(", ".join([summary.end_reason, *troubles]), "red" if troubles else "")


def _resource_rows(row: SandboxOutcome) -> Iterator[tuple[Text | str, ...]]:
    """Yield the cells of CPU, of memory, and of any other resource that somebody speaks of."""
    submitted = row.start.submission.limits if row.start is not None else SandboxResourceAmounts()
    allocated = _allocated(row)
    for resource, name in _NAMES.items():
        spoken_of = [getattr(amounts, resource) for amounts in (row.request.requested, submitted, allocated)]
        if resource in _SAMPLED or any(amount is not None for amount in spoken_of):
            yield (
                f"  {name}",
                _amount(row.request.requested, resource) or NOT_SAID,
                _amount(submitted, resource) or _not_submitted(row, resource),
                _amount(allocated, resource) or _missing(row),
                *_sampled(row, resource),
            )


def _not_submitted(row: SandboxOutcome, resource: Resource) -> str:
    if row.start is None:
        return UNKNOWN
    return "SDK default" if row.start.submission.sdk_default and resource in _SAMPLED else NOT_SAID


def _allocated(row: SandboxOutcome) -> SandboxResourceAmounts:
    """Return the limits of the main container; nothing where no allocation was read."""
    components = () if row.allocation is None else row.allocation.allocation.components
    main = [component for component in components if component.name == _MAIN_COMPONENT] or components
    return main[0].limits if len(main) == 1 else SandboxResourceAmounts()


def _sampled(row: SandboxOutcome, resource: Resource) -> Iterator[Text]:
    """Yield the highest reading, its share of the limit where both are the sandbox's own, and the scope."""
    if resource not in _SAMPLED:
        return
    quantity, scope_name = _SAMPLED[resource]
    statistics = None if row.summary is None else row.summary.statistics.get(quantity)
    if statistics is None:
        yield Text(_missing(row))
        return
    scope = SampleScope(getattr(row.summary, scope_name) or SampleScope.UNKNOWN)
    limit_mib = _allocated(row).memory_mib if scope is SampleScope.SANDBOX else None
    if resource is Resource.CPU:
        reading, of_limit = f"{statistics.max:.0f} %", ""
    else:
        reading = _memory(round(statistics.max, 1))
        of_limit = f"{100 * statistics.max / limit_mib:.0f} %" if limit_mib else ""
    yield from (Text(cell, _STYLES[scope]) for cell in (reading, of_limit, scope))


def _missing(row: SandboxOutcome) -> str:
    return NOT_SAID if row.was_refused else UNKNOWN


def _amount(amounts: SandboxResourceAmounts, resource: Resource) -> str | None:
    amount = getattr(amounts, resource)
    if amount is None:
        return None
    match resource:
        case Resource.MEMORY_MIB:
            return _memory(amount)
        case Resource.DISK_GIB:
            return f"{amount:g} GiB"
        case _:
            return f"{amount:g}"


def _memory(mib: float) -> str:
    return f"{mib:g} MiB" if mib < _MIB_PER_GIB else f"{round(mib / _MIB_PER_GIB, 2):g} GiB"
