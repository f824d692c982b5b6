"""What `sandgauge report` takes for a large joined file: `PYTHONPATH=tests python tests/bench/report_spans.py`.

Makes the files anew (1.7 GB for a million spans) in a temporary folder. A smaller file and one of more sandboxes show
what time and memory grow with.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from support.recorded_run import SPANS_BESIDE_READINGS, recorded_run

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Taken:
    """What one report took: wall and processor seconds, and the most memory in MiB."""

    wall_s: float
    processor_s: float
    peak_mib: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000)
    parser.add_argument("--sandboxes", type=int, default=1_000)
    chosen = parser.parse_args()
    print(f"{'spans':>9} {'sandboxes':>9} {'file MiB':>8} {'seconds':>8} {'CPU s':>7} {'us/span':>8} {'peak MiB':>8}")
    for spans, sandboxes in (
        (chosen.spans // 10, chosen.sandboxes),
        (chosen.spans, chosen.sandboxes),
        (chosen.spans, chosen.sandboxes * 10),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "joined.jsonl"
            readings = max(0, spans // sandboxes - SPANS_BESIDE_READINGS)
            with path.open("w", encoding="utf-8") as file:
                file.writelines(recorded_run(sandboxes=sandboxes, readings=readings))
            taken = take(path, Path(folder) / "report.json")
            written = sandboxes * (readings + SPANS_BESIDE_READINGS)
            print(
                f"{written:>9,} {sandboxes:>9,} {path.stat().st_size / _MIB:>8.0f} {taken.wall_s:>8.1f} "
                f"{taken.processor_s:>7.1f} {taken.processor_s / written * 1e6:>8.1f} {taken.peak_mib:>8.0f}",
                flush=True,
            )


def take(path: Path, output: Path) -> Taken:
    """Run the report of a file as a user does, and say what it took."""
    command = [
        sys.executable,
        "-m",
        "sandgauge_poller",
        "report",
        str(path),
        "--format",
        "json",
        "--output",
        str(output),
    ]
    began = time.monotonic()
    process_id = os.posix_spawn(sys.executable, command, os.environ)
    _, status, usage = os.wait4(process_id, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"the report ended with {os.waitstatus_to_exitcode(status)}")
    return Taken(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
