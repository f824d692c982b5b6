"""What the doctor says of one thing: a word, what it is about, what was found, and the cure."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from sandgauge_schemas.wording import printable


class Verdict(StrEnum):
    """How a check ended. A warning is something that a poller can live with."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. No text of it ever holds a secret, a header or a body."""

    verdict: Verdict
    what: str
    detail: str
    cure: str = ""

    def __str__(self) -> str:
        """Return it as one line; a cure that is to be saved as a file has several."""
        cure = "\n".join(map(printable, self.cure.split("\n")))
        return printable(f"{self.verdict}  {self.what}: {self.detail}") + (f"; {cure}" if cure else "")

    def as_json(self) -> dict[str, str]:
        """Return the fields for a machine."""
        return asdict(self)


def passed(what: str, detail: str) -> Finding:
    """Return that all is well."""
    return Finding(Verdict.PASS, what, detail)


def warned(what: str, detail: str, cure: str) -> Finding:
    """Return what is odd, and the cure."""
    return Finding(Verdict.WARN, what, detail, cure)


def failed(what: str, detail: str, cure: str) -> Finding:
    """Return what is wrong, and the cure."""
    return Finding(Verdict.FAIL, what, detail, cure)
