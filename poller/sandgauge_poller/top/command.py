"""`sandgauge top`: its arguments, and where it finds the poller."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import click

from sandgauge_poller.config import ConfigErrors, InvalidValueError, Status, find_config, load_config
from sandgauge_poller.config.urls import parse_collector
from sandgauge_poller.status.selection import Selection, Show, Sort, parse_selection
from sandgauge_poller.top.client import Client, PollerError
from sandgauge_poller.top.screen import show

_TOKEN_VARIABLE = "SANDGAUGE_STATUS_TOKEN"  # noqa: S105  # the name of one
_HIGHEST_FIRST = frozenset({Sort.AGE, Sort.CPU, Sort.MEMORY, Sort.READ, Sort.LATENESS, Sort.ALLOCATION})


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of the poller; else SANDGAUGE_CONFIG, else ./sandgauge.yaml, else the usual address.",
)
@click.option(
    "--endpoint", metavar="URL", help=f"The poller's status address; its token is taken from {_TOKEN_VARIABLE}."
)
@click.option("--once", is_flag=True, help="Print every row once and end, as in a pipe.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and end.")
@click.option("--search", default="", metavar="TEXT", help="Rows with this in sandbox, rollout, run or deployment.")
@click.option(
    "--show",
    "part",
    type=click.Choice([str(part) for part in Show]),
    default=Show.ALL.value,
    help="Rows in this state, or those that want a look.",
)
@click.option(
    "--sort",
    type=click.Choice([str(sort) for sort in Sort]),
    default=Sort.AGE.value,
    help="Column to order by: numbers from the highest down, names up.",
)
def top(  # noqa: PLR0913  # one for each option
    config_file: Path | None, endpoint: str | None, search: str, part: str, sort: str, *, once: bool, as_json: bool
) -> None:
    """Show a running poller's sandboxes as a live table; Ctrl-C ends it."""
    order = "desc" if Sort(sort) in _HIGHEST_FIRST else "asc"
    selection = parse_selection({"q": search, "show": part, "sort": sort, "order": order})
    url, token = _poller(config_file, endpoint, os.environ)
    try:
        with Client(url, token) as client:
            if as_json:
                click.echo(_document(client, selection))
            else:
                show(client, selection, os.environ, once=once)
    except PollerError as error:
        raise click.ClickException(str(error)) from error


def _document(client: Client, selection: Selection) -> str:
    look = client.look(selection, None)
    return json.dumps({"overview": look.overview, "sandboxes": look.sandboxes}, indent=2)


def _poller(config_file: Path | None, endpoint: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return URL and token: a token of the configuration goes to its own address alone."""
    # A file of a secret often ends with a line break, which no header can carry.
    told = environ.get(_TOKEN_VARIABLE, "").strip()
    if endpoint is not None:
        try:
            return parse_collector(endpoint), told
        except InvalidValueError as error:
            reason = f"it {error.reason}; write it as {Status().endpoint.url}"
            raise click.BadParameter(reason, param_hint="--endpoint") from error
    status = _status(config_file, environ)
    return status.endpoint.url, told or status.auth.bearer_token.get_secret_value()


def _status(config_file: Path | None, environ: Mapping[str, str]) -> Status:
    """Return the section of the configuration, or its defaults where there is none."""
    try:
        found = find_config(config_file, environ, Path.cwd())
    except ConfigErrors:
        return Status()
    try:
        return load_config(found, environ).status
    except ConfigErrors as errors:
        raise click.ClickException(str(errors)) from errors
