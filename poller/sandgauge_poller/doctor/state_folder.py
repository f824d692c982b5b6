"""The state folder: can it be made and written, who uses it, and can this version read what is in it."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sandgauge_poller.doctor.finding import Finding, failed, passed
from sandgauge_poller.tracking import peek
from sandgauge_poller.tracking.migrations import MIGRATIONS

_WHAT = "state folder"


def examine(directory: Path) -> Iterator[Finding]:
    """Yield what was found, from the outside: nothing is made, and a running poller is not disturbed."""
    existing = next((folder for folder in (directory, *directory.absolute().parents) if folder.exists()), Path("/"))
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        cure = f"let user id {os.geteuid()} write there, or name another folder as state.directory"
        yield failed(_WHAT, f"{existing} cannot be written", cure)
        return
    if existing != directory:
        yield passed(_WHAT, f"{directory} will be made")
        return
    try:
        owner, version = peek.owner(directory), peek.version(directory)
        yield _of_version(directory, owner, version)
    except (OSError, sqlite3.Error) as error:
        cure = "let this user read it; a poller sets a damaged store aside, and begins with an empty one"
        yield failed(_WHAT, f"{directory} cannot be read ({error})", cure)


def _of_version(directory: Path, owner: str | None, version: int | None) -> Finding:
    if version is not None and version > len(MIGRATIONS):
        detail = f"{directory} is of a newer Sandgauge (version {version}; this one knows {len(MIGRATIONS)})"
        return failed(_WHAT, detail, "run that Sandgauge again, or name another folder as state.directory")
    if owner is not None:
        return passed(_WHAT, f"{directory} is used by the poller with process id {owner}")
    content = "empty" if version is None else f"of version {version}"
    return passed(_WHAT, f"{directory} can be written, is {content}, and nobody uses it")
