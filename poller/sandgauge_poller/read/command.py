"""`sandgauge read`: its argument, and what its exit code says."""

import asyncio
import json
import time

import click

from sandgauge_poller.config import Config
from sandgauge_poller.ingest.lifecycle import SANDBOX_ID
from sandgauge_poller.logs import set_up_no_logs
from sandgauge_poller.read.asking import Found, ask
from sandgauge_poller.read.document import document
from sandgauge_poller.read.screen import show


def parse_sandbox_id(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Return the id; raises click.BadParameter for what no span could name either."""
    if not SANDBOX_ID.fullmatch(text):
        reason = "it is no sandbox id; write letters, digits, `.`, `_`, `-`, at most 128, a letter or digit first"
        raise click.BadParameter(reason, context, parameter)
    return text


def read(config: Config, sandbox_id: str, *, as_json: bool) -> bool:
    """Print one reading, and return whether all of it could be read.

    Raises:
        click.ClickException: No deployment to ask, or credentials that cannot be used.

    """
    if not config.deployments:
        raise click.ClickException("no deployment is configured; name a control plane under deployments")
    set_up_no_logs()
    try:
        found = asyncio.run(ask(config, sandbox_id))
    except OSError as error:
        raise click.ClickException(str(error)) from error
    shown = document(sandbox_id, found)
    if as_json:
        click.echo(json.dumps(shown, indent=2))
    else:
        show(shown, time.time())
    there = [one for one in found if one.is_there]
    return bool(there) and all(map(_is_whole, there))


def _is_whole(found: Found) -> bool:
    readings = (found.allocation, found.sample, *found.usage)
    return all(reading is None or reading.error_type is None for reading in readings)
