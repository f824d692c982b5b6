"""What to do about a question to a provider that gave nothing."""

from sandgauge_schemas.names import ErrorType

CURES: dict[ErrorType, str] = {
    ErrorType.TIMEOUT: "try again; if it stays, look at the load of whoever was asked",
    ErrorType.CONNECTION: "start what is asked, or let this machine reach its address",
    ErrorType.UNAUTHORIZED: "write the server's own key as api_key; a sandbox whose daemon has a token is not read",
    ErrorType.NOT_FOUND: "check the id: it may have ended, or belong to another deployment",
    ErrorType.HTTP_ERROR: "read the control plane's log",
    ErrorType.REDIRECT: "name the address that it leads to as endpoint",
    ErrorType.BODY_TOO_LARGE: "check what answers at that address",
    ErrorType.UNRECOGNIZED_FORMAT: "check the versions of the control plane and of execd, and endpoint",
    ErrorType.NO_SUPPORTED_QUANTITY: "ask for CPU and memory when it is created: no amount is in force",
    ErrorType.INVALID_VALUE: "use no number of this sandbox's daemon: one of them cannot be true",
    ErrorType.NO_READING: "name a usage source, which sees the sandbox from outside; see docs/usage.md",
    ErrorType.ENDPOINT_NOT_ALLOWED: "add its host to allowed_endpoint_hosts, or set use_server_proxy: auto",
    ErrorType.PAUSED: "resume it: a paused sandbox is not read",
    ErrorType.ENDED: "nothing is left to read",
}
"""One for each error type."""
