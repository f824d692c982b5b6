"""`sandgauge demo` with a real Collector in the middle."""

import pytest

from sandgauge_demo.collector import JOINED
from support.demo_run import DemoRun, assert_grouped_by_rollout, assert_shows_the_run
from support.real_collector import config_files, real_collector

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def otelcol():
    return real_collector(config_files(JOINED))


def test_it_shows_what_the_run_asked_for_and_got(tmp_path, otelcol):
    demo = DemoRun(tmp_path, {"SANDGAUGE_OTELCOL": str(otelcol)})
    demo.wait_for_children(4)
    exit_code, output = demo.finish()
    assert exit_code == 0, output
    assert f"{otelcol}, without backends" in output
    assert "stand-in" not in output
    assert_shows_the_run(output)
    (run,) = demo.folder.iterdir()
    assert_grouped_by_rollout(demo.joined_lines(), run.name, {"0-0", "0-1", "1-0", "1-1", "2-0"})
    assert demo.left_over() == []


def test_ctrl_c_in_the_middle_ends_everything_at_once_and_quietly(tmp_path, otelcol):
    demo = DemoRun(tmp_path, {"SANDGAUGE_OTELCOL": str(otelcol)})
    demo.wait_for_readings()
    exit_code, output = demo.interrupt()
    assert exit_code == 130, output
    assert "Traceback" not in output
    assert demo.left_over() == []
