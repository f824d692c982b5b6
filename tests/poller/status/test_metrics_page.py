"""The page that Prometheus scrapes, from every instrument of the contract."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics, make_meter_provider
from sandgauge_poller.status.metrics_page import MetricsPage
from sandgauge_schemas import names
from support.self_metrics import SELF_METRICS, use_everything

OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
ENDINGS = {"s": "_seconds", "By": "_bytes"}


def expected_family(metric):
    return metric.replace(".", "_") + ENDINGS.get(names.METRIC_UNITS[metric], "")


async def rendered(*, times=1):
    histograms = SelfHistograms("test")
    page = MetricsPage(histograms)
    provider = make_meter_provider(lambda _: True, histograms, interval_s=3600, other_readers=[page.reader])
    use_everything(SelfMetrics(provider.get_meter("test"), histograms))
    try:
        return [body.decode() for body, _ in await asyncio.gather(*(page.render("") for _ in range(times)))]
    finally:
        provider.shutdown()


async def test_every_metric_is_there_under_the_name_that_prometheus_wants():
    (page,) = await rendered()
    families = {family.name for family in text_string_to_metric_families(page)} - {"target_info"}
    assert families == {expected_family(metric) for metric in SELF_METRICS}


async def test_the_documentation_names_what_is_on_the_page():
    (page,) = await rendered()
    named = set(re.findall(r"sandgauge_poller_[a-z_]+", OPERATIONS.read_text()))
    assert named
    assert named <= set(re.findall(r"sandgauge_poller_[a-z_]+", page))


async def test_labels_are_those_of_the_contract_and_name_no_sandbox():
    (page,) = await rendered()
    labels = {label for family in text_string_to_metric_families(page) for s in family.samples for label in s.labels}
    bounded = {names.DEPLOYMENT, names.STATE, names.KIND, names.OUTCOME, names.REASON, names.SIGNAL}
    assert labels == bounded | {"le", "service_name", "service_version"}


async def test_scrapes_at_once_each_get_a_whole_page():
    pages = await rendered(times=5)
    assert len(set(pages)) == 1
    assert pages[0].count("# TYPE sandgauge_poller_spans_total") == 1


async def test_the_registry_of_the_process_is_left_alone():
    before = {family.name for family in REGISTRY.collect()}
    await rendered()
    assert {family.name for family in REGISTRY.collect()} == before


def test_no_global_meter_provider_is_set():
    code = (
        "from opentelemetry import metrics\n"
        "from sandgauge_poller.self_histograms import SelfHistograms\n"
        "from sandgauge_poller.self_metrics import make_meter_provider\n"
        "from sandgauge_poller.status.metrics_page import MetricsPage\n"
        "histograms = SelfHistograms('test')\n"
        "readers = [MetricsPage(histograms).reader]\n"
        "make_meter_provider(lambda _: True, histograms, other_readers=readers).shutdown()\n"
        "assert metrics._internal._METER_PROVIDER is None\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
