"""Grafana's own types for dashboards, and TypeScript's compiler to hold JSON to them; fetched by npm, once."""

import json
import shutil
import subprocess
from pathlib import Path

from support.build_cache import building, fingerprint
from support.real_parts import require

SOURCES = Path(__file__).parent / "grafana_types"
PACKAGE = SOURCES / "package.json"
STRICT = ("--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler")


def versions() -> dict[str, str]:
    """Return which version of which package is installed."""
    return dict(json.loads(PACKAGE.read_text())["dependencies"])


def installed() -> Path:
    """Return a folder with the packages in it; without npm the test is skipped, or fails."""
    npm = require("npm", shutil.which("npm"), "install Node.js with npm (on Debian: apt install nodejs npm)")
    with building(f"grafana-types-{fingerprint([PACKAGE.read_bytes()])}") as folder:
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            shutil.copy(PACKAGE, partial)
            install = (npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
            subprocess.run(install, cwd=partial, check=True, capture_output=True)
            partial.rename(folder)
    return folder


def complaints(packages: Path, folder: Path, dashboards: dict[str, str]) -> list[str]:
    """Return what the compiler says against dashboards, JSON by name; `folder` is an empty one for its input."""
    (folder / "node_modules").symlink_to(packages / "node_modules")
    shutil.copy(SOURCES / "dashboard.ts", folder)
    for name, text in dashboards.items():
        module = f"import type {{ DashboardJson }} from './dashboard';\nexport const it: DashboardJson = {text};\n"
        (folder / f"{name}.ts").write_text(module)
    compiler = packages / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        ["node", compiler, *STRICT, *(f"{name}.ts" for name in dashboards)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if ": error " in line]
