"""The command `sandgauge`, which says what to install when its own packages are not there."""

import sys

_INTERRUPTED = 130
"""What a shell says of a program that Ctrl-C ended."""


def main() -> None:
    """Run the command line; exit 2 where the extra `poller` is not installed."""
    try:
        from sandgauge_poller.cli import cli  # noqa: PLC0415  # its packages may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sandgauge"):
            raise
        cure = "install the poller with: pip install 'sandgauge[poller]'"
        sys.stderr.write(f"sandgauge: {error.name} is not installed; {cure}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    cli(prog_name="sandgauge")


if __name__ == "__main__":
    main()
