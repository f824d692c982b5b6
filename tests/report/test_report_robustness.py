"""Whatever a file holds, a report is made of it or says why not."""

import io
import json
import random
from contextlib import suppress

import pytest
from rich.console import Console

from sandgauge_report.grouping import By
from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.reading.inputs import Account
from sandgauge_report.reading.otlp import SPANS, NotTracesError, spans
from sandgauge_report.rendering.csv_table import write_csv
from sandgauge_report.rendering.html_page import html_page
from sandgauge_report.rendering.json_document import json_document
from sandgauge_report.rendering.report import report_of
from sandgauge_report.rendering.table import print_table
from support.told_run import allocated, ended, failed, keys, refused, requested, rollout_over, sampled, started, used

A = keys()
LINES = [
    requested(A, cpu=1.0, memory_mib=512, count=2),
    started(A, cpu=1.0, memory_mib=512.0),
    refused(A),
    allocated(A, cpu=1.0, memory_mib=512.0),
    sampled(A, 2, 100.0, total_mib=512.0),
    used(A, 2, cpu_used_cores=0.5, memory_working_set_mib=90.0, oom_kills=1),
    failed(A, 12),
    ended(A, 30, readings_count=2, readings_missed=1),
    rollout_over(A, 31),
]
KINDS = ("stringValue", "intValue", "doubleValue", "boolValue", "arrayValue")
ODD = (None, True, 0, -1, 2**70, -(2**70), 1e308, -1e308, "", "9" * 400, "NaN", "x\x1b", "\ud800", [], {}, [[]], "away")
OTLP_WORDS = (
    *("resourceSpans", "resource", "scopeSpans", "spans", "attributes"),
    *("key", "value", "name", "status", "events", "traceId", "startTimeUnixNano"),
)


def with_oddities(rng):
    """Return the lines as documents, a few values in them replaced by odd ones."""
    documents = [json.loads(line) for line in LINES]
    for document in rng.sample(documents, 3):
        (span,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
        odd = rng.choice(ODD)
        if rng.random() < 0.7:
            rng.choice(span["attributes"])["value"] = {rng.choice(KINDS): odd} if rng.random() < 0.8 else odd
        else:
            span[rng.choice(sorted(span))] = odd
    return documents


@pytest.mark.parametrize("seed", range(30))
def test_odd_values_in_an_otherwise_good_run_do_no_harm(seed):
    inventory = Inventory()
    for document in with_oddities(random.Random(seed)):
        with suppress(NotTracesError):
            for one in spans(document):
                inventory.add(one)
    for by in (By.SANDBOX, By.RUN):
        report = report_of(inventory, Account(), by)
        "".join(json_document(report)).encode()
        write_csv(report, io.StringIO())
        html_page(report).encode()
        console = Console(width=80, highlight=False, markup=False)
        with console.capture() as capture:
            print_table(report, console)
        assert "\x1b]" not in capture.get()


def any_value(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*ODD, *sorted(SPANS)])
    if rng.random() < 0.4:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice(OTLP_WORDS): any_value(rng, depth - 1) for _ in range(rng.randrange(5))}


@pytest.mark.parametrize("seed", range(20))
def test_any_document_gives_spans_or_a_reason(seed):
    rng = random.Random(seed)
    for _ in range(200):
        document = {"resourceSpans": [any_value(rng, 6)]} if rng.random() < 0.8 else any_value(rng, 6)
        with suppress(NotTracesError):
            for one in spans(document):
                Inventory().add(one)
