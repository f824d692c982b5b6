"""Which file is the configuration, and what the smallest one looks like."""

from collections.abc import Mapping
from pathlib import Path

from sandgauge_poller.config.errors import ConfigError, ConfigErrors

_VARIABLE = "SANDGAUGE_CONFIG"
_FILE_NAME = "sandgauge.yaml"


def smallest_config() -> str:
    """Return the text of the smallest file that reads a control plane."""
    return """\
deployments:
  - name: training
    provider: opensandbox
    endpoint: http://127.0.0.1:8080
    api_key: ${env:OPENSANDBOX_API_KEY:-}
"""


def find_config(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the file named on the command line, else by SANDGAUGE_CONFIG, else `sandgauge.yaml` in `cwd`.

    A file that is named need not exist: reading it says so.

    Raises:
        ConfigErrors: None is named and none is there; the cure holds the smallest working file.

    """
    if explicit is not None:
        return explicit
    if named := environ.get(_VARIABLE):
        return Path(named)
    found = cwd / _FILE_NAME
    if found.exists():
        return found
    cure = f"name one with --config or {_VARIABLE}, or save this as ./{_FILE_NAME}:\n\n{smallest_config()}"
    raise ConfigErrors([ConfigError(_FILE_NAME, 1, "", "no configuration found", cure)])
