"""docs/collector.md names every file, variable and default of the shipped configuration, and no others."""

import re
from pathlib import Path

import pytest

from support.documents import document, section

CONFIG = Path(__file__).parents[2] / "collector-config"
FILES = sorted(CONFIG.glob("otelcol*.yaml"))
PAGE = document("collector.md")


def used():
    """Return the default of each variable; one that stands twice has one default."""
    found = re.findall(r"\$\{env:([A-Z0-9_]+)(?::-([^}]*))?\}", "\n".join(path.read_text() for path in FILES))
    assert len(set(found)) == len(dict(found))
    return dict(found)


def described():
    """Return the table's rows; a row of several variables has a default for each, in their order."""
    rows = re.findall(r"^\| (`[A-Z].*?) \| (.*?) \|", section(PAGE, "Environment variables"), re.MULTILINE)
    pairs = [(re.findall("`(.*?)`", names), re.findall("`(.*?)`", defaults)) for names, defaults in rows]
    return {name: default for names, defaults in pairs for name, default in zip(names, defaults, strict=True)}


def test_every_variable_is_described_with_its_default():
    assert described() == used()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_described(path):
    assert f"| `{path.name}` |" in section(PAGE, "The reference configuration")
