"""What the pages for people hold: links, headings and commands."""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_SHELL = ("sh", "console")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BETWEEN = ("&&", "||", "|", ";")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page, as it stands there, without what is set before it and what is said behind it."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures, those to other hosts left out."""
    text = _INLINE_CODE.sub("", _FENCED.sub("", page.read_text()))
    targets = [first or second for first, second in _LINK.findall(text)]
    return [unquote(target) for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """Return what may stand behind the # of a link to the page, made of its headings as a forge makes it."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def shell_commands(page: Path) -> Iterator[Command]:
    """Yield each command of the blocks of shell, one for each part of a pipe or a chain."""
    for _, language, block in _FENCED.findall(page.read_text()):
        if language not in _SHELL:
            continue
        lines = [line.strip() for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip()]
        if language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in lines:
            yield from _commands(page, line)


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of that language, those inside lists moved to the margin."""
    return [textwrap.dedent(block) for _, found, block in _FENCED.findall(page.read_text()) if found == language]


def inline_commands(page: Path, program: str) -> Iterator[Command]:
    """Yield what stands in a sentence as a command of that program."""
    for code in _INLINE_CODE.findall(_FENCED.sub("", page.read_text())):
        for command in _commands(page, " ".join(code.strip("`").split())):
            if command.words[0] == program and len(command.words) > 1:
                yield command


def _commands(page: Path, line: str) -> Iterator[Command]:
    # Quotes are kept, since the text is what tests name; a # is one of a comment behind a blank alone.
    lexer = shlex.shlex(line, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    part: list[str] = []
    for word in [*_until_comment(lexer), ";"]:
        if word in _BETWEEN:
            if part:
                yield Command(page.name, " ".join(part))
            part = []
        elif part or not _ASSIGNMENT.match(word) or "$(" in word:
            part.append(word)


def _until_comment(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("#"):
            return
        yield word
