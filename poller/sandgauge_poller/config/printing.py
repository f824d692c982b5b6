"""The effective configuration as a file: every key with the value that is in force, secrets masked."""

from typing import Any

import yaml

from sandgauge_poller.config.model import Config


def as_yaml(config: Config) -> str:
    """Return YAML that loads as the same configuration, but for the secrets, of which each reads `***`."""
    return yaml.safe_dump(_escaped(config.model_dump(mode="json")), sort_keys=False, allow_unicode=True)


def _escaped(value: Any) -> Any:
    """Write each dollar twice, since a file's dollar may begin a reference."""
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
