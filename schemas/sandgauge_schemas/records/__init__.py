"""One frozen record for each span kind of the contract; each goes to attributes and comes back equal.

Reading is tolerant, since spans come from anywhere: an attribute of the wrong type counts as absent.
"""

from sandgauge_schemas.records.allocation import Allocation, AllocationRecord, ComponentAllocation
from sandgauge_schemas.records.keys import JoinKeys, ReadingStatus
from sandgauge_schemas.records.requests import (
    REQUEST_KEYS,
    START_KEYS,
    RequestRecord,
    Sidecar,
    StartRecord,
    Submission,
)
from sandgauge_schemas.records.sample import SampleRecord
from sandgauge_schemas.records.summary import SUMMARY_QUANTITIES, Statistics, SummaryRecord
from sandgauge_schemas.records.usage import UsageRecord

__all__ = [
    "REQUEST_KEYS",
    "START_KEYS",
    "SUMMARY_QUANTITIES",
    "Allocation",
    "AllocationRecord",
    "ComponentAllocation",
    "JoinKeys",
    "ReadingStatus",
    "RequestRecord",
    "SampleRecord",
    "Sidecar",
    "StartRecord",
    "Statistics",
    "Submission",
    "SummaryRecord",
    "UsageRecord",
]
