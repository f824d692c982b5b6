"""How the poller logs: lines for people on a terminal, one JSON object a line elsewhere."""

import json
import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, TextIO

REPEAT_PERIOD_S = 60.0

_MOST_FAULTS = 1024
"""Most faults whose repeats are counted; of more than these the longest unheard is said again."""

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


class RepeatsCounted(logging.Filter):
    """Pass each fault at once, then at most once a minute, with how often it came since it was last said.

    A fault is a warning or worse: its logger, its text, and the kind of its error. Whoever sends nonsense, and a disk
    that is full, would else write the log full too; loggers of libraries are no exception.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._said: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass or count the record."""
        if record.levelno < logging.WARNING:
            return True
        text, kind = record.getMessage(), record.exc_info[0] if record.exc_info else None
        with self._lock:
            unsaid = self._count((record.name, record.levelno, text, kind))
        if unsaid:
            record.msg, record.args = f"{text} ({unsaid} times since this was last said)", ()
        return unsaid is not None

    def _count(self, fault: tuple[object, ...]) -> int | None:
        """Return None where it is not to be said, else how often it came since it was, 0 for the first time."""
        now = self._monotonic()
        said_at, unsaid = self._said.pop(fault, (float("-inf"), 0))
        if now - said_at < REPEAT_PERIOD_S:
            self._said[fault] = (said_at, unsaid + 1)
            return None
        self._said[fault] = (now, 0)
        if len(self._said) > _MOST_FAULTS:
            self._said.popitem(last=False)
        return unsaid + 1 if unsaid else 0


_NO_QUOTES = _NoQuotes()


def set_up_logs(level: str, form: Literal["auto", "console", "json"], stream: TextIO = sys.stderr) -> None:
    """Log everything of at least that level to the stream; `auto` is for people only on a terminal."""
    handler = logging.StreamHandler(stream)
    if form == "json" or (form == "auto" and not stream.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    handler.addFilter(RepeatsCounted())
    logging.getLogger("aiohttp.server").addFilter(_NO_QUOTES)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
