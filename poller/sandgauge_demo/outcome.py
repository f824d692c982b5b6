"""What a run's joined file says so far, read as `sandgauge report` reads it."""

from dataclasses import dataclass
from pathlib import Path

from sandgauge_report.grouping import By
from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.merging.sandboxes import Sandbox
from sandgauge_report.reading.inputs import Account, read_files
from sandgauge_report.rendering.report import Report, report_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far a run is, and what there is to report of it, sandbox by sandbox."""

    report: Report
    rollouts_ended: int

    @property
    def sandboxes(self) -> list[Sandbox]:
        """Sandboxes and wishes for one, in the order in which they were asked for, rollout by rollout."""
        return [one for row in self.report.rows for one in row.sandboxes]

    @property
    def readings(self) -> int:
        """How many good readings have come."""
        return sum(one.readings or 0 for one in self.sandboxes)


def read_outcome(file: Path) -> Outcome:
    """Read a joined file, or what there is of it."""
    inventory, account = Inventory(), Account()
    for span in read_files([str(file)], account):
        inventory.add(span)
    report = report_of(inventory, account, By.SANDBOX)
    return Outcome(report=report, rollouts_ended=len(inventory.rollout_ends))
