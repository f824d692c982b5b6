"""How the poller logs: lines for people on a terminal, one JSON object a line elsewhere."""

import json
import logging
import sys
import time
from typing import Literal, TextIO

_HTTP_ERRORS = "aiohttp.http_exceptions"
"""By name: the commands that log nothing need not load it."""


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time (UTC), level, logger, message, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class _NoQuotes(logging.Filter):
    """The error of a request that is no HTTP quotes it, a token included: only the kind of the error is told."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record, without what its error quotes."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and type(error).__module__ == _HTTP_ERRORS:
            record.msg, record.args = f"{record.getMessage()}: {type(error).__name__}", ()
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
            record.exc_info = None
        return True


_NO_QUOTES = _NoQuotes()


def set_up_logs(level: str, form: Literal["auto", "console", "json"], stream: TextIO = sys.stderr) -> None:
    """Log everything of at least that level to the stream; `auto` is for people only on a terminal."""
    handler = logging.StreamHandler(stream)
    if form == "json" or (form == "auto" and not stream.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.getLogger("aiohttp.server").addFilter(_NO_QUOTES)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
