"""Write what is derived from the telemetry registry: the Python names and the reference page.

`python schemas/generate.py` writes both; with `--check` it writes nothing and exits 1 when one is stale.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from render_names import render_names
from render_reference import render_reference
from telemetry_registry import load_registry

ROOT = Path(__file__).parent.parent
NAMES = ROOT / "schemas" / "sandgauge_schemas" / "names.py"
REFERENCE = ROOT / "docs" / "telemetry.md"


def render_all() -> dict[Path, str]:
    """Return each derived file and the text it should hold."""
    registry = load_registry()
    return {NAMES: render_names(registry), REFERENCE: render_reference(registry)}


def stale_files() -> list[Path]:
    """Return the derived files that are missing or differ from the registry."""
    return [
        path for path, text in render_all().items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main() -> int:
    """Write the derived files, or check them. The exit code is 1 when a checked file is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    if not parser.parse_args().check:
        for path, text in render_all().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    stale = stale_files()
    for path in stale:
        sys.stderr.write(f"{path.relative_to(ROOT)} is stale: run python schemas/generate.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
