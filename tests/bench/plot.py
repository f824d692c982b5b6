"""How cost grows with the fleet, as an SVG."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.figures import Subject
from bench.medians import grouped, median
from bench.results import Results

PLOT = Path(__file__).parents[2] / "docs" / "figures" / "cost-of-a-reading.svg"

_LABELS = {
    Subject.POLLER: "Sandgauge's poller",
    Subject.FLOOR: "a bare aiohttp loop, no telemetry",
    Subject.ALTERNATIVE: "threads, requests and the SDK",
}
_PANELS = {"cpu_ms_a_read": "CPU ms a reading", "core_share": "share of one core"}


def write_plot(results: Results) -> None:
    """Draw medians over the number of sandboxes, each read every 10 s."""
    groups = grouped(results.steady)
    mpl.rcParams["svg.hashsalt"] = "sandgauge"  # the same file for the same figures
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axes, (name, label) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
        for subject, shown in _LABELS.items():
            points = [(size, median(turns, name)) for (size, of), turns in groups.items() if of is subject]
            if points:
                axes.plot(*zip(*sorted(points), strict=True), marker="o", label=shown)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("sandboxes, each read every 10 s")
        axes.set_ylabel(label)
        axes.grid(visible=True, alpha=0.3)
    figure.axes[0].legend(frameon=False)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, format="svg", metadata={"Date": None})
