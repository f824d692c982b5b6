"""What a server may say to one GET, byte by byte, and what is to come of it."""

import gzip

from sandgauge_schemas.names import ErrorType

MAX_BYTES = 1000
"""The bound on a body that the answers are made for."""

HEAD = b"HTTP/1.1 200 OK\r\n"

# Scripts for a RawServer: bytes, and pauses in s.
ANSWERS = [
    ([HEAD + b"Content-Length: 2\r\n\r\nok"], None),
    ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"], None),
    ([HEAD + b"\r\nup to the end"], None),
    ([HEAD + b"Content-Length: 0\r\n\r\n"], None),
    ([HEAD + b"Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nok"], None),
    ([b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 2\r\n\r\nok"], None),
    ([HEAD + b"Transfer-Encoding: identity\r\n\r\nup to the end"], None),
    # nothing, or not all of it
    ([], ErrorType.CONNECTION),
    ([HEAD], ErrorType.CONNECTION),
    ([HEAD + b"Content-Length: 9\r\n\r\nhalf"], ErrorType.CONNECTION),
    ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"], ErrorType.CONNECTION),
    # not HTTP
    ([HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    ([b"\x16\x03\x01\x02\x00\x01garbage\r\n\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    ([HEAD + b"Content-Length: -5\r\n\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    ([HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    ([HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(3000)) + b"\r\n"], ErrorType.UNRECOGNIZED_FORMAT),
    # encodings that were not asked for
    ([HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"0" * 10**7)], ErrorType.UNRECOGNIZED_FORMAT),
    ([HEAD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nok"], ErrorType.UNRECOGNIZED_FORMAT),
    (
        [HEAD + b"Content-Encoding: gzip\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nok"],
        ErrorType.UNRECOGNIZED_FORMAT,
    ),
    # too much, announced and not
    ([HEAD + b"Content-Length: 1001\r\n\r\n"], ErrorType.BODY_TOO_LARGE),
    ([HEAD + b"\r\n" + b"x" * 1001], ErrorType.BODY_TOO_LARGE),
    (
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"64\r\n" + b"x" * 100 + b"\r\n"] * 11],
        ErrorType.BODY_TOO_LARGE,
    ),
    # statuses, whatever their body
    ([b"HTTP/1.1 204 No Content\r\n\r\n"], ErrorType.HTTP_ERROR),
    ([b"HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\n\r\nok"], ErrorType.HTTP_ERROR),
    ([b"HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"], ErrorType.REDIRECT),
    ([b"HTTP/1.1 304 Not Modified\r\n\r\n"], ErrorType.REDIRECT),
    ([b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"], ErrorType.UNAUTHORIZED),
    ([b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"], ErrorType.UNAUTHORIZED),
    ([b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"], ErrorType.HTTP_ERROR),
    ([b"HTTP/1.1 500 Error\r\n\r\n" + b"x" * 2000], ErrorType.HTTP_ERROR),
    ([b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nhalf"], ErrorType.HTTP_ERROR),
    ([b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], ErrorType.HTTP_ERROR),
    # silence at each stage
    ([10.0], ErrorType.TIMEOUT),
    ([HEAD, 10.0], ErrorType.TIMEOUT),
    ([HEAD + b"Content-Length: 2\r\n\r\no", 10.0], ErrorType.TIMEOUT),
    ([HEAD + b"\r\n", 10.0], ErrorType.TIMEOUT),
]
