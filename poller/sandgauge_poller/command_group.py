"""What the command line as a whole does: load a command when it is called, and say an unforeseen error in one line."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

_PACKAGES = Path(__file__).parents[1]


class ElsewhereCommand(click.Command):
    """A command that is made by `load` once it is called or completed: until then only its help is known."""

    def __init__(self, name: str, load: Callable[[], click.Command], help_text: str) -> None:
        super().__init__(name, help=help_text)
        self._load = load

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command itself, which is invoked in place of this one."""
        return self._load().make_context(info_name, args, parent, **extra)


class CommandLine(click.Group):
    """A group with `--debug`: without it an unforeseen error is one line without what the error quotes, and exit 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; raises click.ClickException in place of what nobody foresaw."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(_one_line(error)) from error


def _one_line(error: Exception) -> str:
    """Say what and where: the error's own text may hold a secret."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return (
        f"unforeseen {type(error).__name__}{_place(error)}; please report this line with what `sandgauge --version`"
        " prints, or see more with `sandgauge --debug …`"
    )


def _place(error: Exception) -> str:
    """Return the innermost place in Sandgauge's own packages, where there is one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGES):
            relative = path.relative_to(_PACKAGES)
            if relative.parts[0].startswith("sandgauge"):
                return f" at {relative}:{frame.lineno}"
    return ""
