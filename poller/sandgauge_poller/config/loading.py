"""From a file to a checked configuration, or to all that is wrong with it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from sandgauge_poller.config.advice import advise
from sandgauge_poller.config.deployments import collisions, switch_off, without_switched_off
from sandgauge_poller.config.document import Document, read_document
from sandgauge_poller.config.environment import expand_all
from sandgauge_poller.config.errors import ConfigError, ConfigErrors, ConfigWarning, Fault, KeyPath
from sandgauge_poller.config.explain import explain, show
from sandgauge_poller.config.model import Config
from sandgauge_poller.config.usage import misplaced


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Return the configuration in `path`, its references taken from `environ`.

    Raises:
        ConfigErrors: With every fault of the file at once.

    """
    document = read_document(path)
    switched, notes = switch_off(document.data, environ)
    data, unresolved = expand_all(switched, environ)
    config, invalid = _validate(data)
    written, _ = expand_all(document.data, environ)  # a usage source may name what is switched off
    between = (*collisions(data.get("deployments")), *misplaced(written.get("usage"), written.get("deployments")))
    faults = _first_at_each_place([*document.faults, *unresolved, *invalid, *between])
    if config is None or faults:
        raise ConfigErrors(ConfigError(*_place(fault, path, document), fault.reason, fault.cure) for fault in faults)
    warnings = tuple(
        ConfigWarning(*_place(note, path, document), note.reason, note.cure) for note in (*notes, *advise(config))
    )
    return without_switched_off(config).with_warnings(warnings)


def _validate(data: object) -> tuple[Config | None, list[Fault]]:
    try:
        return Config.model_validate(data), []
    except ValidationError as error:
        return None, [explain(details) for details in error.errors(include_url=False)]


def _first_at_each_place(faults: Iterable[Fault]) -> list[Fault]:
    """Return one fault for each key: what failed first makes the later checks of the same key fail too."""
    first: dict[KeyPath, Fault] = {}
    for fault in faults:
        first.setdefault(fault.path, fault)
    return list(first.values())


def _place(fault: Fault, path: Path, document: Document) -> tuple[str, int, str]:
    return str(path), document.line(fault.path), show(fault.path, document.data)
