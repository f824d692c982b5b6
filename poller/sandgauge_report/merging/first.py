"""One value of several, chosen by rank: the same whatever the order in which they come, and however often."""

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class First(Generic[T]):
    """The value of the lowest rank so far. Between equal ranks, which only a forged id gives, its text decides."""

    __slots__ = ("_rank", "value")

    def __init__(self) -> None:
        self._rank: tuple[Any, ...] = ()
        self.value: T | None = None

    def offer(self, rank: tuple[Any, ...], value: T) -> None:
        """Take the value if its rank is lower than that of the one before."""
        if (
            self.value is None
            or rank < self._rank
            or (rank == self._rank and value != self.value and repr(value) < repr(self.value))
        ):
            self._rank, self.value = rank, value

    def absorb(self, other: "First[T]") -> None:
        """Take what another has chosen, if its rank is lower."""
        if other.value is not None:
            self.offer(other._rank, other.value)  # noqa: SLF001 - of its own kind
