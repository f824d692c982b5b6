"""Framework-neutral emitter of sandbox request and start spans.

Made to live in someone else's process: off unless switched on, light to import, and it never raises into the caller,
never waits for the network and never touches the global tracer provider.
"""

from sandgauge_emitter.api import SandboxRequest, configure, record_request

__all__ = ["SandboxRequest", "configure", "record_request"]
