"""Write what is derived from the configuration's model and its reference page: the JSON Schema and the example.

`python poller/generate.py` writes both; with `--check` it writes nothing and exits 1 when one is stale.
"""

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandgauge_poller.config import Config, Usage

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = DOCS / "configuration.md"
SCHEMA = DOCS / "sandgauge.schema.json"
EXAMPLE = DOCS / "sandgauge.example.yaml"

_ROW = re.compile(r"^\| `([a-z_.\[\]]+)` \| (?:`([^`]*)`|required) \| (.+) \|$", re.MULTILINE)
_TITLE = re.compile(r"^## ([a-z]+)(?:: (.+))?$", re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
_REFERENCE_PATTERN = r"\$\{env:"
_WIDTH = 110

_HEAD = """\
# yaml-language-server: $schema=sandgauge.schema.json
#
# Every key of a poller's configuration with its default, but for the deployment, which is an example: leave out what
# you do not change. A key is switched on by removing the `#` that touches it. ${env:NAME} and ${env:NAME:-default} are
# taken from the environment. The reference is docs/configuration.md.
"""
_VALUES = {
    "deployments[].name": "training",
    "deployments[].endpoint": "http://127.0.0.1:8080",
    "deployments[].api_key": "${env:OPENSANDBOX_API_KEY:-}",
}
"""What the example holds where there is no default, or where a secret is better not in the file."""

_KINDS = {"docker": ("kubeconfig", "context", "pods"), "kubernetes": ("endpoint", "tls")}
"""Kinds of usage sources, and the keys that are of no use with each."""

_OF_KIND = {"kind", "interval", "timeout"}
"""Keys of which the kind decides the default."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the page says of a key: its default as it stands in a file (None: it has none), and its meaning."""

    default: str | None
    meaning: str


Json = dict[str, Any]
Tree = dict[str, Any]


def read_rows() -> dict[str, Row]:
    """Return the rows of the page by key, such as `deployments[].name`, in its order."""
    text = REFERENCE.read_text(encoding="utf-8")
    return {key: Row(default or None, _plain(meaning)) for key, default, meaning in _ROW.findall(text)}


def read_titles() -> dict[str, str]:
    """Return what the page says of each section."""
    return {name: title for name, title in _TITLE.findall(REFERENCE.read_text(encoding="utf-8")) if title}


def _plain(meaning: str) -> str:
    """Return the text without links, of which the target is named."""

    def named(link: re.Match[str]) -> str:
        text, target = link[1], f"docs/{link[2]}"
        return target if text == link[2] else f"{text} ({target})"

    return _LINK.sub(named, meaning)


def make_schema(rows: Mapping[str, Row]) -> str:
    """Return the JSON Schema of a file, every key with its meaning and its default."""
    model = Config.model_json_schema()
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of a Sandgauge poller",
        **_node(model, model["$defs"], "", rows),
        "type": "object",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _node(found: Json, definitions: Json, path: str, rows: Mapping[str, Row]) -> Json:
    if "$ref" in found:
        found = definitions[found["$ref"].rpartition("/")[2]]
    if "properties" in found:
        properties = {
            key: _node(inner, definitions, f"{path}.{key}" if path else key, rows)
            for key, inner in found["properties"].items()
        }
        required = {"required": found["required"]} if "required" in found else {}
        is_entry = path.endswith("[]")
        types: Any = "object" if is_entry else ["object", "null"]  # a section with nothing beneath it is its defaults
        return {"type": types, "properties": properties, **required, "additionalProperties": False}
    row = rows.get(path)
    said = {} if row is None else {"description": row.meaning}
    if row is not None and row.default is not None:
        said["default"] = yaml.safe_load(row.default)
    if found.get("type") == "array":
        return {**said, "type": ["array", "null"], "items": _node(found["items"], definitions, f"{path}[]", rows)}
    if found.get("type") == "object":
        return {**said, "type": ["object", "null"], "additionalProperties": {"type": "string"}}
    return {**said, **_leaf(found)}


def _leaf(found: Json) -> Json:
    """Return what a value may be; a reference may stand for anything that is not text of any form."""
    kept = {key: value for key, value in found.items() if key not in {"title", "default", "writeOnly", "format"}}
    return kept if kept == {"type": "string"} else {"anyOf": [kept, {"type": "string", "pattern": _REFERENCE_PATTERN}]}


def make_example(rows: Mapping[str, Row], titles: Mapping[str, str]) -> str:
    """Return a file with every key."""
    parts = [_HEAD]
    for name, content in _tree(rows).items():
        title = f"# {titles[name]}\n" if name in titles else ""
        parts.append(title + "".join(f"{line}\n".lstrip("\n") for line in _section(name, content)))
    return "\n".join(parts)


def _tree(rows: Mapping[str, Row]) -> Tree:
    tree: Tree = {}
    for key, row in rows.items():
        *sections, last = key.replace("[]", "").split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[last] = (key, row)
    return tree


def _section(name: str, content: Tree) -> Iterator[str]:
    if name == "deployments":
        yield f"{name}:"
        yield from _entry(_lines(content, "    "))
    elif name == "usage":
        yield f"#{name}:"
        for kind, others in _KINDS.items():
            defaults = Usage.model_validate({"kind": kind}).model_dump(mode="json")
            own = {
                name: (value[0], Row(defaults[name], value[1].meaning)) if name in _OF_KIND else value
                for name, value in content.items()
                if name not in others
            }
            yield from (_switched_off(line) for line in _entry(_lines(own, "    ")))
    else:
        yield f"{name}:"
        yield from _lines(content, "  ")


def _entry(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of an entry of a list: its first key stands behind a dash."""
    began = False
    for line in lines:
        if not began and not line.lstrip().startswith("#"):
            began = True
            yield line.replace("    ", "  - ", 1)
        else:
            yield line


def _switched_off(line: str) -> str:
    return line if line.lstrip().startswith("#") else f"#{line}"


def _lines(content: Tree, indent: str) -> Iterator[str]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
            continue
        key, row = value
        for line in textwrap.wrap(row.meaning, _WIDTH - len(indent), break_on_hyphens=False, break_long_words=False):
            yield f"{indent}# {line}"
        yield f"{indent}{name}: {_VALUES.get(key, row.default)}"


def render_all() -> dict[Path, str]:
    """Return each derived file and the text it should hold."""
    rows = read_rows()
    return {SCHEMA: make_schema(rows), EXAMPLE: make_example(rows, read_titles())}


def main() -> int:
    """Write the derived files, or check them. The exit code is 1 when a checked file is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    is_check = parser.parse_args().check
    stale = [
        (path, text)
        for path, text in render_all().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if is_check:
            sys.stderr.write(f"docs/{path.name} is stale: run python poller/generate.py\n")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
