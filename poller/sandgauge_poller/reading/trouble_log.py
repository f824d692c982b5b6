"""Log lines about troubles that may come thousands of times a minute."""

import logging
from collections.abc import Callable

PERIOD_S = 60.0

logger = logging.getLogger("sandgauge_poller.reading")


class TroubleLog:
    """Say each trouble at once, then at most once a minute, with how often it came since it was last said.

    A trouble is a text of the source with the deployment's name, so that there are few; an example of it may vary.
    Neither ever holds a key, a header or a body.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._said: dict[str, tuple[float, int]] = {}

    def say(self, trouble: str, example: str = "") -> None:
        """Log a warning, or count it for the next one."""
        now = self._monotonic()
        said_at, unsaid = self._said.get(trouble, (None, 0))
        if said_at is not None and now - said_at < PERIOD_S:
            self._said[trouble] = (said_at, unsaid + 1)
            return
        logger.warning("%s%s%s", trouble, example, f" ({unsaid + 1} times since this was last said)" if unsaid else "")
        self._said[trouble] = (now, 0)
