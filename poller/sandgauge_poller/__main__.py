"""The command `sandgauge`, which says what to install when its own packages are not there."""

import sys

_INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""


def main() -> None:
    """Run the command line; exit 2 where the extra `poller` is not installed."""
    try:
        from sandgauge_poller.cli import cli  # noqa: PLC0415  # its packages may be missing
        from sandgauge_poller.standard_streams import OutputError, guard_standard_streams  # noqa: PLC0415  # the same
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sandgauge"):
            raise
        cure = "install the poller with: pip install 'sandgauge[poller]'"
        sys.stderr.write(f"sandgauge: {error.name} is not installed; {cure}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    guard_standard_streams()
    try:
        cli(prog_name="sandgauge")
    except OutputError as error:  # of what is printed before there is a command, as for completion
        error.show()
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
