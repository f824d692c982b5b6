"""Write the dashboards that Grafana is provisioned with, from the Python beside this file.

`python generate.py` writes them; with `--check` it writes nothing and exits 1 when one is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import fleet
import rollout
import sandbox
import sandgauge

DASHBOARDS = Path(__file__).parent.parent / "dashboards"


def render_all() -> dict[Path, str]:
    """Return each dashboard's file and the text it should hold."""
    return {
        DASHBOARDS / f"{module.__name__}.json": json.dumps(module.build(), indent=1) + "\n"
        for module in (fleet, rollout, sandbox, sandgauge)
    }


def main() -> int:
    """Write the dashboards, or check them. The exit code is 1 when a checked file is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    texts = render_all()
    if not parser.parse_args().check:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stderr.write(f"{path.name} is stale: run make dashboards\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
