"""What every form of a report is made of."""

import math
from collections import Counter
from dataclasses import dataclass

from sandgauge_report.findings import Finding, FindingKind, findings_of
from sandgauge_report.grouping import By, Row, rows_of
from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.merging.join import sandboxes_of
from sandgauge_report.reading.inputs import Account
from sandgauge_report.sizing import Advice

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
    def not_found(self) -> list[str]:
        """Kinds that were looked for in vain, in words; none where the input cannot show most of them."""
        if self.note is not None:
            return []
        found = {finding.kind for finding in self.findings}
        return [kind.replace("_", " ") for kind in FindingKind if kind not in found]

    @property
    def advice(self) -> list[tuple[Row, Advice]]:
        """All advice with the rows that it is for, the most to save first."""
        given = [(row, advice) for row in self.rows for advice in row.advice if advice.advised is not None]
        return sorted(given, key=lambda item: (item[1].advised or 0.0) / (item[1].reserved or math.inf))

    @property
    def refusals(self) -> Counter[str]:
        """Why there is no advice, and for how many rows."""
        return Counter(advice.refusal for row in self.rows for advice in row.advice if advice.refusal is not None)


def report_of(inventory: Inventory, account: Account, by: By) -> Report:
    """Judge what was read, and put it into rows."""
    sandboxes = sandboxes_of(inventory)
    return Report(
        account=account,
        by=by,
        rows=rows_of(sandboxes, by),
        findings=findings_of(sandboxes),
        note=None if inventory.has_poller_records else NO_POLLER_RECORDS,
    )
