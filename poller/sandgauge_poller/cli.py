"""The command line. Exit codes: 0 fine, 1 a finding, 2 wrong usage."""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandgauge_poller.command_group import CommandLine, ElsewhereCommand
from sandgauge_poller.health import complaint

if TYPE_CHECKING:
    from sandgauge_poller.config import Config, Shard

# Each command imports its own: containers run `health` every few seconds, and most of the rest takes longer than it.
# ruff: noqa: PLC0415

_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration; else SANDGAUGE_CONFIG, else ./sandgauge.yaml.",
)


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    from sandgauge_poller.build_facts import build_facts

    if wanted and not context.resilient_parsing:
        click.echo(build_facts())
        context.exit()


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and what it was built of and runs on.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an unforeseen error; it may hold secrets.")
def cli(*, debug: bool) -> None:
    """Tell what every sandbox was asked for, was sent, got and used, per rollout."""
    del debug  # the group looks at it


def _parse_shard(context: click.Context, parameter: click.Parameter, text: str | None) -> "Shard | None":
    """Return the shard of the option, or None without it; raises click.BadParameter."""
    from sandgauge_poller.config import InvalidValueError, parse_shard

    if text is None:
        return None
    if not text:  # such as an unset variable of a script: every poller would read everything
        raise click.BadParameter(
            "it is empty; write index/count, such as 0/3, or leave the option out to go by ingest.shard",
            context,
            parameter,
        )
    try:
        return parse_shard(text)
    except InvalidValueError as error:
        raise click.BadParameter(f"it {error.reason}; {error.cure}", context, parameter) from error


@cli.command()
@_config_option
@click.option(
    "--shard",
    callback=_parse_shard,
    metavar="INDEX/COUNT",
    help="Read one share of the sandboxes, as one of COUNT pollers; else ingest.shard of the configuration.",
)
def run(config_file: Path | None, shard: "Shard | None") -> None:
    """Run the poller until SIGTERM or Ctrl-C."""
    from sandgauge_poller.logs import set_up_logs
    from sandgauge_poller.process import new_event_loop
    from sandgauge_poller.tracking.store_file import StateError

    config = _load(config_file)
    if shard is not None:
        config = _as_shard(config, shard)
    set_up_logs(config.logs.level, config.logs.format)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run(config))
    except (StateError, OSError) as error:
        raise click.ClickException(str(error)) from error
    except Exception:
        logging.getLogger(__name__).critical("the poller ends: of this it knows no cure", exc_info=True)
        raise


def _as_shard(config: "Config", shard: "Shard") -> "Config":
    """Return the configuration of one of several pollers; raises click.BadParameter."""
    from sandgauge_poller.config import InvalidValueError

    try:
        return config.as_shard(shard)
    except InvalidValueError as error:
        raise click.BadParameter(f"it {error.reason}; {error.cure}", param_hint="--shard") from error


async def _run(config: "Config") -> None:
    from sandgauge_poller.service import Poller

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            # Whoever asks twice does not want to wait for the flush; what is committed stays.
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await Poller(config).run(stop)


@cli.command()
@_config_option
@click.option("--print-config", "print_it", is_flag=True, help="Print it with every default, secrets masked.")
def check(config_file: Path | None, *, print_it: bool) -> None:
    """Check the configuration: file, line, key and cure of each fault."""
    from sandgauge_poller.config import as_yaml
    from sandgauge_schemas.wording import number_of

    config = _load(config_file)
    if print_it:
        click.echo(as_yaml(config), nl=False)
        return
    count = len(config.deployments)
    click.echo(f"ok: {number_of(count, 'deployment')}")


@cli.command()
@_config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(config_file: Path | None, *, as_json: bool) -> None:
    """Look at each dependency of the poller, and say how to cure it.

    Exit codes: 0 nothing fails; 1 something does.
    """
    from sandgauge_poller.doctor.examination import examine
    from sandgauge_poller.doctor.finding import Verdict
    from sandgauge_poller.logs import set_up_no_logs

    set_up_no_logs()
    findings = []
    for finding in examine(config_file, os.environ, Path.cwd()):
        findings.append(finding)
        if not as_json:
            click.echo(str(finding))
    if as_json:
        click.echo(json.dumps({"findings": [finding.as_json() for finding in findings]}, indent=2))
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        sys.exit(1)


def _parse_sandbox_id(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Return the id; raises click.BadParameter."""
    from sandgauge_poller.read.command import parse_sandbox_id

    return parse_sandbox_id(context, parameter, text)


@cli.command()
@_config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.argument("sandbox_id", callback=_parse_sandbox_id)
def read(config_file: Path | None, sandbox_id: str, *, as_json: bool) -> None:
    """Read one sandbox once, now, and record nothing.

    It is looked for at every deployment of the configuration. Exit codes: 0 all of it was read; 1 it is nowhere, or
    part of it cannot be read.
    """
    from sandgauge_poller.read.command import read as command

    if not command(_load(config_file), sandbox_id, as_json=as_json):
        sys.exit(1)


@cli.command()
@_config_option
@click.argument("urls", nargs=-1, metavar="[URL]...")
def health(config_file: Path | None, urls: tuple[str, ...]) -> None:
    """Ask servers whether they are well; exit 1 if one is not. For health checks of containers.

    Without a URL it is the poller of the configuration, at its status address.
    """
    complaints = [(url, complaint(url)) for url in urls or [f"{_load(config_file).status.endpoint.url}/readyz"]]
    for url, reason in complaints:
        click.echo(f"{url}: {reason or 'ok'}")
    if any(reason for _, reason in complaints):
        sys.exit(1)


def _load_demo() -> click.Command:
    from sandgauge_demo.command import demo

    return demo


def _load_report() -> click.Command:
    from sandgauge_report.command import report

    return report


def _load_top() -> click.Command:
    from sandgauge_poller.top.command import top

    return top


for _command in (
    ElsewhereCommand("demo", _load_demo, "Show the whole pipeline on simulated sandboxes."),
    ElsewhereCommand("report", _load_report, "Tell from files of spans what was asked for, got and used."),
    ElsewhereCommand("top", _load_top, "Show a running poller's sandboxes as a live table."),
):
    cli.add_command(_command)


def _load(config_file: Path | None) -> "Config":
    """Return the configuration, or end with its errors on standard error."""
    from sandgauge_poller.config import ConfigErrors, find_config, load_config

    try:
        config = load_config(find_config(config_file, os.environ, Path.cwd()), os.environ)
    except ConfigErrors as errors:
        click.echo(str(errors), err=True)
        sys.exit(1)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    return config
