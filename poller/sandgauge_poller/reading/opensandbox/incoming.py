"""One HTTP/1.1 answer as its bytes come in: bounded, and settled as early as it can be."""

import httptools

from sandgauge_poller.reading.exchange import error_of
from sandgauge_schemas.names import ErrorType

_FIRST_FINAL_STATUS = 200
_SWITCHING_PROTOCOLS = 101
_MAX_HEAD_BYTES = 16 * 1024
"""Several times what gateways add; interim answers count."""
_FRAMING = 4
"""Bytes on the wire for each byte that a body may have: chunks have sizes and extensions."""


class _SettledError(Exception):
    """Nothing of what follows matters, so the parser is to stop."""


class Incoming:
    """What a daemon has said so far; `take` gives it bytes until it is settled.

    `status` is None before the final one. `body` is the whole of it, and may hold secrets. `failure` is why there is
    no whole body of 200. `leaves_connection_open`: the next question may go over the same connection.

    A sandbox that sends interim answers, fields of a head or extensions of chunks without end would keep the loop, and
    with it all other readings, busy. So the bytes of an answer are bounded too, heads and all.
    """

    __slots__ = (
        "_body",
        "_chunked",
        "_encoded",
        "_length",
        "_max_bytes",
        "_parser",
        "_received",
        "body",
        "failure",
        "is_settled",
        "leaves_connection_open",
        "status",
    )

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._chunked = self._encoded = False
        self._length: int | None = None
        self._body = bytearray()  # chunks of a byte each would have a whole body copied as often as it has bytes
        self.status: int | None = None
        self.body = b""
        self.failure: ErrorType | None = None
        self.is_settled = self.leaves_connection_open = False

    def take(self, data: bytes) -> bool:
        """Take in what came; return whether the answer is settled."""
        if self.is_settled:
            self.leaves_connection_open = False
            return True
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            # More than one answer, or no HTTP: nobody knows what the bytes to come belong to.
            self.leaves_connection_open = False
            self.settle(ErrorType.UNRECOGNIZED_FORMAT)
        most = _MAX_HEAD_BYTES + (0 if self.status is None else _FRAMING * self._max_bytes)
        if self._received > most:
            self.settle(ErrorType.UNRECOGNIZED_FORMAT)
        return self.is_settled

    def end(self, *, in_order: bool) -> None:
        """Take in that nothing will come any more, which in order is how an answer without a length ends."""
        ends_so = in_order and self.status is not None and self._length is None and not self._chunked
        self.settle(None if ends_so else ErrorType.CONNECTION)
        self.leaves_connection_open = False

    def settle(self, failure: ErrorType | None) -> None:
        """End it with what has come so far; what came first decides."""
        if self.is_settled:
            return
        self.is_settled = True
        del self._parser  # the two hold each other, and a look for garbage stops every reading
        # A status other than 200 tells more than what became of its body.
        self.failure = error_of(self.status) or failure
        if failure is None:
            self.body = bytes(self._body)

    def on_message_begin(self) -> None:
        """Be told of an answer, which must be the only one beside interim ones."""
        if self.is_settled:
            raise _SettledError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Be told of a field of a head."""
        name = name.lower()
        if name == b"content-length":
            self._length = int(value)
        elif name == b"transfer-encoding" and value.lower() == b"chunked":
            self._chunked = True
        elif name in (b"transfer-encoding", b"content-encoding"):
            self._encoded |= value.lower() not in (b"", b"identity")

    def on_headers_complete(self) -> None:
        """Be told of the end of a head."""
        status = self._parser.get_status_code()
        if status < _FIRST_FINAL_STATUS and status != _SWITCHING_PROTOCOLS:
            self._chunked = self._encoded = False
            self._length = None
            return
        self.status = status
        if status == _SWITCHING_PROTOCOLS:
            self._give_up(ErrorType.UNRECOGNIZED_FORMAT)
        if self._encoded:
            # It was not asked for, and unpacking it would need a bound of its own.
            self._give_up(ErrorType.UNRECOGNIZED_FORMAT)
        if (self._length or 0) > self._max_bytes:
            self._give_up(ErrorType.BODY_TOO_LARGE)

    def on_body(self, part: bytes) -> None:
        """Be told of a part of the body."""
        self._body += part
        if len(self._body) > self._max_bytes:
            self._give_up(ErrorType.BODY_TOO_LARGE)

    def on_message_complete(self) -> None:
        """Be told of the end of an answer."""
        if self.status is not None and not self.is_settled:
            self.leaves_connection_open = self._parser.should_keep_alive()
            self.settle(None)

    def _give_up(self, failure: ErrorType) -> None:
        self.settle(failure)
        raise _SettledError
