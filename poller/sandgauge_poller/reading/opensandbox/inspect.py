"""What the control plane's inspect text says: allocation, placement, and whether memory ran out.

The text is printed for people, in unrelated forms that the first line tells apart. Its values are neither escaped nor
cut, and some come from the sandbox's user or from the program inside it, so parts of a text can be forged. Only what
stands where neither of them can write is read.
"""

from sandgauge_poller.reading.opensandbox.inspect_docker import parse_docker
from sandgauge_poller.reading.opensandbox.inspect_kubernetes import parse_kubernetes
from sandgauge_poller.reading.opensandbox.inspect_result import InspectResult
from sandgauge_schemas.names import ErrorType, ResourceSource

__all__ = ["InspectResult", "parse_inspect"]

_FAST_SANDBOX = InspectResult(
    source=ResourceSource.OPENSANDBOX_INSPECT_FAST_SANDBOX, error=ErrorType.NO_SUPPORTED_QUANTITY
)
_UNRECOGNIZED = InspectResult(source=ResourceSource.OPENSANDBOX_INSPECT, error=ErrorType.UNRECOGNIZED_FORMAT)


def parse_inspect(text: str) -> InspectResult:
    """Read an inspect text of whatever form, in time linear in its length. Never raises."""
    lines = text.removesuffix("\n").split("\n")
    if lines[0].startswith("Container ID:"):
        return parse_docker(lines)
    if lines[0].startswith("Pod Name:"):
        return parse_kubernetes(lines)
    return _FAST_SANDBOX if lines[0] == "{" else _UNRECOGNIZED
