"""A YAML file as text scalars with the line of each key.

Every scalar stays the text that was written: YAML would read `1:30` as 90 and the key `0123` as 83, and only the model
knows what a key wants.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sandgauge_poller.config.errors import ConfigError, ConfigErrors, Fault, InvalidValueError, KeyPath

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 16

_NULL_TAG = "tag:yaml.org,2002:null"
_ENCODING_CURE = "save it as UTF-8"


@dataclass(frozen=True, slots=True)
class Document:
    """Content of a configuration file: mappings, lists, text and None, and where each key stands."""

    data: dict[str, object] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or that of the nearest key around one that is missing."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(path: Path) -> Document:
    """Read a file of bounded size.

    Raises:
        ConfigErrors: The file cannot be read, or is not a mapping in YAML.

    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _refused(path, 1, "no such file", "name the file with --config or SANDGAUGE_CONFIG") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise _refused(path, 1, f"cannot be read: {reason}", "name a file that this user may read") from None
    return parse_document(path, content)


def parse_document(path: Path, content: bytes) -> Document:
    """Parse the content of `path`, which serves the messages alone.

    Raises:
        ConfigErrors: As `read_document`.

    """
    if len(content) > MAX_FILE_BYTES:
        raise _refused(path, 1, "is larger than 256 KiB", "name a configuration file of Sandgauge")
    if b"\0" in content:
        raise _refused(path, 1, "is not UTF-8 text but UTF-16, UTF-32 or binary", _ENCODING_CURE)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(path, content.count(b"\n", 0, error.start) + 1, "is not UTF-8 text", _ENCODING_CURE) from None
    try:
        root = _BoundedLoader(text).get_single_node()
    except _UnsupportedYamlError as error:
        raise _refused(path, error.line, error.reason, error.cure) from None
    except yaml.MarkedYAMLError as error:
        raise _refused(path, *_syntax_fault(error, text)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refused(path, line, "holds a character that YAML does not allow", "delete it, or escape it") from None
    except (ValueError, OverflowError):
        # PyYAML lets Python's own error through for an escape beyond Unicode and a version of thousands of digits.
        raise _refused(path, 1, "holds an escape or a directive beyond all bounds", "write it out") from None
    if root is None:
        raise _refused(path, 1, "is empty", "write at least `deployments: []`")
    if not isinstance(root, yaml.MappingNode):
        raise _refused(path, _line(root.start_mark), "is not a mapping", "start with a key such as `deployments:`")
    document = Document()
    document.data.update(_mapping(root, (), document))
    return document


def _mapping(node: yaml.MappingNode, path: KeyPath, document: Document) -> dict[str, object]:
    result: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = _line(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            reason = f"holds a key at line {line} that is not text"
            document.faults.append(Fault(path, reason, "write a name, a colon and a blank"))
            continue
        inner = (*path, key_node.value)
        if key_node.value in result:
            first = document.lines[inner]
            document.faults.append(Fault(inner, f"stands twice, first at line {first}", "keep one of the two"))
        document.lines[inner] = line
        result[key_node.value] = _value(value_node, inner, document)
    return result


def _value(node: yaml.Node, path: KeyPath, document: Document) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            document.lines[*path, index] = _line(item.start_mark)
        return [_value(item, (*path, index), document) for index, item in enumerate(node.value)]
    return None if node.tag == _NULL_TAG else node.value


class _UnsupportedYamlError(InvalidValueError):
    """YAML that is right in itself and not taken here."""

    def __init__(self, line: int, reason: str, cure: str) -> None:
        super().__init__(reason, cure)
        self.line = line


class _BoundedLoader(yaml.SafeLoader):
    """Refuse what could grow without bound or carry types: aliases, deep nesting, tags."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node as PyYAML does, within the bounds."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs leave it untyped
        line = _line(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise _UnsupportedYamlError(line, "holds an alias", "write the value out, or quote it if it starts with *")
        if getattr(event, "tag", None) is not None:
            raise _UnsupportedYamlError(line, *_TAG_FAULT)
        if self.depth == MAX_DEPTH:
            raise _UnsupportedYamlError(line, f"is nested deeper than {MAX_DEPTH} levels", "see docs/configuration.md")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


_TAG_FAULT = ("holds a tag", "leave the tag off, or quote the value if it starts with !")


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str, str]:
    """Return line, reason and cure; PyYAML quotes no more than a character of the file, except the handle of a tag."""
    problem = error.problem or "syntax error"
    # What is left open is found at the end of the file, and cured where it begins.
    is_left_open = "end of stream" in problem or "stream end" in problem
    line = _line((error.context_mark if is_left_open else None) or error.problem_mark or error.context_mark)
    if "tag handle" in problem:
        return line, *_TAG_FAULT
    if "\\t" in problem:
        return line, "is indented with a tab", "indent with blanks"
    if "got '{'" in problem and "${" in text.split("\n")[line - 1]:
        return line, "holds an unquoted ${ inside { }", 'quote it, as in {bearer_token: "${env:NAME}"}'
    return line, f"is not YAML: {problem}", "check indentation, colons and quotes there"


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1


def _refused(path: Path, line: int, reason: str, cure: str) -> ConfigErrors:
    return ConfigErrors([ConfigError(str(path), line, "", reason, cure)])
