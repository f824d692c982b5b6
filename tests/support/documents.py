"""What the documentation says, for tests that hold it to its word."""

import re
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]


def document(name: str) -> str:
    """Return the text of a page in `docs/`."""
    return (_REPOSITORY / "docs" / name).read_text()


def code_block(text: str, language: str, containing: str) -> str:
    """Return the one block of code in that language that holds the given words."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


def section(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one of its kind."""
    (found,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return str(found)
