"""Times as control planes and daemons write them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_time(text: object) -> int | None:
    """Return a time with its zone in ns since the epoch, as precise as microseconds; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else (moment - _EPOCH) // timedelta(microseconds=1) * 1000
