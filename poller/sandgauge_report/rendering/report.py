"""What every form of a report is made of."""

from collections import Counter
from dataclasses import dataclass

from sandgauge_report.findings import Finding
from sandgauge_report.grouping import By, Row
from sandgauge_report.reading.inputs import Account

NO_POLLER_RECORDS = (
    "No record of a poller is in the input: what was allocated and used is unknown, and that is no finding."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows and findings of the input that `account` tells of."""

    account: Account
    by: By
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    note: str | None = None
    """What a reader must know of the whole."""

    @property
    def sandbox_count(self) -> int:
        """Sandboxes and wishes for one."""
        return sum(one.count for row in self.rows for one in row.sandboxes)

    @property
    def advice_rows(self) -> tuple[Row, ...]:
        """Rows that have readings to advise by."""
        return tuple(row for row in self.rows if any(advice.advised is not None for advice in row.advice))

    @property
    def refusals(self) -> Counter[str]:
        """Why there is no advice, and for how many rows."""
        return Counter(advice.refusal for row in self.rows for advice in row.advice if advice.refusal is not None)
