"""The tables of docs/scaling.md: sums that can be followed by hand, and no others than the saved results give."""

import re

import pytest

from bench import results as kept
from bench.cost import Cost, Load
from bench.figures import Flood, Minute, Requests, Steady, Subject
from bench.machine import Machine
from bench.results import LongResults, Results
from bench.scaling import FLEETS, PAGE, others_table, poller_table, summary, with_figures

MACHINE = Machine(cores=2, cpu="invented", memory_gib=8, python="3.13.0", sandgauge="0")


def steady(sandboxes, cpu_ms, **figures):
    given = {"rss_mib": 100 + sandboxes * 20_000 / 2**20, "rss_kb_a_sandbox": 20.0, "bytes_a_reading": 300.0}
    return Steady(
        subject=Subject.POLLER,
        sandboxes=sandboxes,
        interval_s=10,
        hanging_share=0,
        uvloop=True,
        reads=1,
        cpu_ms_a_read=cpu_ms,
        fleet_cpu_ms_a_read=0.1,
        core_share=0.5,
        **{**given, "stored_bytes_a_reading": 5000.0, **figures},
    )


def minute(number, started, cpu_ms):
    return Minute(
        minute=number,
        started=started,
        reads=30_000,
        cpu_ms_a_read=cpu_ms,
        core_share=0.3,
        rss_mib=1,
        open_files=1,
        threads=1,
        tasks=1,
        health_s=None,
        cadence_s=None,
        accepted_s=None,
    )


RESULTS = Results(
    machine=MACHINE,
    steady=[steady(5000, 0.6), *(steady(10_000, cpu_ms) for cpu_ms in (0.4, 0.5, 0.9))],
    floods=[
        Flood(what=what, encoding=encoding, spans=1, spans_a_second=rate, cpu_us_a_span=1)
        for what, encoding, rate in (
            ("lifecycle", "protobuf", 7000),
            ("lifecycle", "json", 1),
            ("unrelated", "protobuf", 2),
        )
    ],
    requests=[Requests(connections=1, requests=1, requests_a_second=900, answer_s=None, cpu_ms_a_request=1)],
)
# The first minute is not looked at; of the others each has 30,000 readings at 0.1 ms more than 0.6, for 1,000 starts.
LONG = LongResults(
    machine=MACHINE,
    sandboxes=5000,
    churn=0.2,
    interval_s=10,
    minutes=[minute(1, 5000, 9.9), minute(2, 6000, 0.7), minute(3, 7000, 0.7)],
)


def rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_costs_are_medians_and_a_life_is_what_churn_took_beside_readings():
    cost = Cost.of(RESULTS, LONG)
    assert cost.loads == (Load(500, 0.3, 150_000, 2_500_000), Load(1000, 0.5, 300_000, 5_000_000))
    assert cost.sandbox_kb == 20
    assert cost.idle_mib == pytest.approx(100)
    assert cost.life_cpu_ms == pytest.approx(30_000 * 0.1 / 1000)


@pytest.mark.parametrize(("reads", "share"), [(250, 0.15), (500, 0.3), (750, 0.4), (1000, 0.5), (3000, 1.5)])
def test_between_measured_loads_it_goes_in_proportion_and_beyond_them_as_at_the_last(reads, share):
    load = Cost.of(RESULTS, LONG).at(reads)
    assert (load.reads, load.core_share) == (reads, pytest.approx(share))
    assert load.sent_bytes == pytest.approx(300 * reads)


def test_a_figure_that_was_not_measured_is_asked_for_and_never_taken_for_zero():
    lacking = Results(machine=MACHINE, steady=[steady(5000, 0.6), steady(10_000, 0.5, stored_bytes_a_reading=None)])
    with pytest.raises(ValueError, match="stored_bytes_a_reading; measure again"):
        Cost.of(lacking, LONG)


def test_pollers_take_a_share_of_a_core_each_and_no_more_sandboxes_than_they_may():
    table = rows(poller_table(Cost.of(RESULTS, LONG)))
    assert table[0] == [
        "10,000",
        "10 s",
        "1,000",  # readings a second
        "0.55",  # 1,000 of 0.5 ms, and 10,000 lives of 3 ms in ten minutes
        "1",
        "0.28 GiB",  # 100 MiB and 10,000 times 20 kB
        "0.30 MB/s",
        "5.0 MB/s",
        "10,000",
    ]
    assert table[3][3:5] == ["5.5", "8"]  # 12,500 sandboxes for each, which take 0.69 of a core
    assert table[8][3:5] == ["14", "20"]  # 50,000 for each, though with 833 readings a second a core has room for more


def test_what_others_are_asked_for_grows_with_the_fleet():
    table = rows(others_table())
    for what, _, *values in table:
        first, second, third = (float(re.match(r"[\d,.]+", value)[0].replace(",", "")) for value in values)
        assert (second / first, third / first) == pytest.approx((10, 100), rel=0.05), what
    assert len(FLEETS) == 3
    assert ["questions to control planes, a second", "N · (4 / life + 1 / 300 s)", "100", "1,000", "10,000"] in table


def test_the_summary_says_what_a_reading_costs_at_which_rate():
    said = summary(Cost.of(RESULTS, LONG), RESULTS)
    assert "takes 0.60 ms of CPU, 300 bytes to the Collector and 5,000 to the disk at 500 readings a second; " in said
    assert "0.50 ms of CPU, 300 bytes to the Collector and 5,000 to the disk at 1,000 readings a second: " in said
    assert "900 a second where each is a request of its own, and at 7,000 where" in said


def test_written_again_the_page_stays_as_it_is_and_without_its_marks_it_is_refused():
    once = with_figures(PAGE.read_text(), RESULTS, LONG)
    assert with_figures(once, RESULTS, LONG) == once
    with pytest.raises(ValueError, match="write both"):
        with_figures(once.replace("<!-- end pollers -->", ""), RESULTS, LONG)


def test_the_page_has_what_the_saved_results_give():
    assert PAGE.read_text() == with_figures(PAGE.read_text(), kept.load(), kept.load_long())
