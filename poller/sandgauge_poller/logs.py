"""How the poller logs: lines for people on a terminal, one JSON object a line elsewhere."""

import json
import logging
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TextIO

from sandgauge_schemas.wording import printable

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


class ConsoleFormatter(logging.Formatter):
    """A line for each record: time of day, level and message, and a traceback below it where there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's own name
        """Return the line: no text of a span can begin another one."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # the same
        """Return the traceback, whose last line may quote what came from elsewhere."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


_SAME_FAULT = "same_fault"


def same_fault(fault: str) -> dict[str, str]:
    """Return the `extra` of a log call whose text varies: records of one fault are counted together."""
    return {_SAME_FAULT: fault}


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


@dataclass(slots=True)
class _Fault:
    """A fault with its latest text: when it was said, in monotonic seconds, and how often it came since."""

    logger: str
    level: int
    text: str = ""
    said_at: float = float("-inf")
    unsaid: int = 0

    def as_record(self) -> logging.LogRecord:
        return logging.LogRecord(self.logger, self.level, "", 0, _with_count(self.text, self.unsaid), (), None)


class RepeatsCounted(logging.Filter):
    """Pass each fault at once, then at most once a minute, with how often it came since it was last said.

    A fault is a warning or worse: its logger, its text, and the kind of its error. Where the text varies, as with an
    example in it, the record says by `same_fault` what it is about. Whoever sends nonsense, and a disk that is full,
    would else write the log full too; loggers of libraries are no exception.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._faults: OrderedDict[tuple[object, ...], _Fault] = OrderedDict()
        self._forgotten: deque[logging.LogRecord] = deque(maxlen=_MOST_FAULTS)

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass or count the record."""
        if record.levelno < logging.WARNING:
            return True
        text, kind = record.getMessage(), record.exc_info[0] if record.exc_info else None
        about = getattr(record, _SAME_FAULT, text)
        with self._lock:
            came = self._count((record.name, record.levelno, about, kind), record, text)
        if came > 1:
            record.msg, record.args = _with_count(text, came), ()
        return came > 0

    def take_unsaid(self, least_age_s: float) -> list[logging.LogRecord]:
        """Return what is left to say: how often faults came again that were said at least so many seconds ago."""
        now = self._monotonic()
        with self._lock:
            found = list(self._forgotten)
            self._forgotten.clear()
            for fault in self._faults.values():
                if fault.unsaid and now - fault.said_at >= least_age_s:
                    found.append(fault.as_record())
                    fault.said_at, fault.unsaid = now, 0
        return found

    def _count(self, key: tuple[object, ...], record: logging.LogRecord, text: str) -> int:
        """Return 0 where it is not to be said, else how often it came since it was."""
        now = self._monotonic()
        fault = self._faults.pop(key, None) or _Fault(record.name, record.levelno)
        self._faults[key] = fault
        fault.text = text
        fault.unsaid += 1
        if now - fault.said_at < REPEAT_PERIOD_S:
            return 0
        came, fault.said_at, fault.unsaid = fault.unsaid, now, 0
        if len(self._faults) > _MOST_FAULTS:
            _, forgotten = self._faults.popitem(last=False)
            if forgotten.unsaid:
                self._forgotten.append(forgotten.as_record())
        return came


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream, repeated faults once a minute; also how often one came that has ended."""

    def __init__(self, stream: TextIO, repeats: RepeatsCounted) -> None:
        super().__init__(stream)
        self._repeats = repeats
        self.addFilter(repeats)

    def say_repeats(self, least_age_s: float = REPEAT_PERIOD_S) -> None:
        """Write the counts of faults that were said at least so many seconds ago and came again."""
        for record in self._repeats.take_unsaid(least_age_s):
            self.acquire()
            try:
                self.emit(record)
            finally:
                self.release()

    def close(self) -> None:
        """Write every count that is left, at the latest when the process ends."""
        self.say_repeats(0.0)
        super().close()


def say_repeats() -> None:
    """Say how often faults came again whose minute is over; to be called now and then."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, CountingHandler):
            handler.say_repeats()


def _with_count(text: str, came: int) -> str:
    return f"{text} ({came} {'time' if came == 1 else 'times'} since this was last said)"


_NO_QUOTES = _NoQuotes()


def set_up_logs(level: str, form: Literal["auto", "console", "json"], stream: TextIO = sys.stderr) -> None:
    """Log everything of at least that level to the stream; `auto` is for people only on a terminal."""
    handler = CountingHandler(stream, RepeatsCounted())
    if form == "json" or (form == "auto" and not stream.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(ConsoleFormatter())
    logging.getLogger("aiohttp.server").addFilter(_NO_QUOTES)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def set_up_no_logs() -> None:
    """Log nothing: for commands that say themselves what they found."""
    logging.getLogger().addHandler(logging.NullHandler())
