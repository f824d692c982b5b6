"""The tables of docs/performance.md and docs/scaling.md, which quote saved results and nothing else."""

from pathlib import Path

from bench.lateness import in_words
from bench.machine import Machine
from bench.report import long_section, sections
from bench.results import load, load_long
from bench.scaling import write_page

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"

_MARK = "<!-- {} by `make {}` -->"


def write_document() -> None:
    """Put the saved results into both."""
    DOCUMENT.write_text(with_figures(DOCUMENT.read_text()))
    write_page()


def with_figures(text: str) -> str:
    """Return the document with the saved results between its marks."""
    results, long = load(), load_long()
    text = _between(text, "bench", [_on(results.machine), *(one.to_markdown() for one in sections(results))])
    found = [_on(long.machine), long_section(long).to_markdown()]
    if long.beats:
        found.append(in_words(long.beats, long.minutes))
    return _between(text, "bench-long", found)


def _between(text: str, target: str, parts: list[str]) -> str:
    begin, end = _MARK.format("begin", target), _MARK.format("end", target)
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"docs/performance.md: {begin} and {end} are not both there; write both where figures belong")
    return "\n\n".join([f"{before}{begin}", *parts, f"{end}{after}"])


def _on(machine: Machine) -> str:
    return (
        f"Measured with Sandgauge {machine.sandgauge} on Python {machine.python}, {machine.cpu},"
        f" {machine.cores} cores, {machine.memory_gib} GiB."
    )
