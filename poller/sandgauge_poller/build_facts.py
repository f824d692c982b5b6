"""What `--version` tells: what runs here, for whoever reports a fault."""

import json
import platform
from importlib.metadata import PackageNotFoundError, distribution, version

from sandgauge_schemas.version import __version__

_EXTRAS = {"uvloop": "poller", "aiokafka": "kafka"}
"""Packages that need not be there, and the extra that brings each."""


def build_facts() -> str:
    """Return the version, and below it the commit if the build knows it, Python, platform, and what extras brought."""
    commit = _commit()
    lines = [
        f"sandgauge {__version__}" + (f" (commit {commit})" if commit else ""),
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        f"{platform.system()} {platform.release()} {platform.machine()}",
        *(f"{package} {_version(package) or f'not installed (extra {extra})'}" for package, extra in _EXTRAS.items()),
    ]
    return "\n".join(lines)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit that was installed from a repository, as the installer noted it (PEP 610)."""
    try:
        noted = distribution("sandgauge").read_text("direct_url.json")
    except PackageNotFoundError:  # it runs from its sources
        return None
    try:
        commit = json.loads(noted or "{}").get("vcs_info", {}).get("commit_id")
    except (ValueError, AttributeError):
        return None
    return commit if isinstance(commit, str) else None
