import re
import shlex
import subprocess
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from sandgauge_demo import command, pipeline
from sandgauge_demo.collector import CollectorError
from sandgauge_demo.outcome import read_outcome
from sandgauge_demo.pipeline import Pipeline
from support.demo_run import DemoRun, assert_grouped_by_rollout, assert_shows_the_run, command_of, shown_sandboxes

AWAY = "http://127.0.0.1:9"
MISLEADING = {
    "HTTP_PROXY": AWAY,
    "http_proxy": AWAY,
    "OTEL_SDK_DISABLED": "true",
    "OTEL_EXPORTER_OTLP_ENDPOINT": AWAY,
    "SANDGAUGE_ENABLED": "0",
    "NEMO_GYM_OTEL_RUN_ID": "somebody-else",
}
"""What a user's shell may hold, and the demo must not mind."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A demo without a Collector, run to its end."""
    demo = DemoRun(tmp_path_factory.mktemp("demo"), MISLEADING)
    demo.wait_for_children(4)
    exit_code, output = demo.finish()
    return demo, exit_code, output


def test_it_ends_well_and_leaves_no_process(finished):
    demo, exit_code, output = finished
    assert exit_code == 0, output
    assert demo.left_over() == []


def test_it_shows_what_the_run_asked_for_and_got(finished):
    _, _, output = finished
    assert_shows_the_run(output)


def test_it_says_in_one_line_that_there_is_a_stand_in_and_how_to_get_a_real_collector(finished):
    _, _, output = finished
    (line,) = [line for line in output.splitlines() if "stand-in" in line]
    assert all(way in line for way in ("make collector", "SANDGAUGE_OTELCOL", "PATH"))


def test_without_a_terminal_it_is_plain_text(finished):
    _, _, output = finished
    assert output.isascii()
    assert "\x1b" not in output
    assert "\r" not in output


def test_it_says_where_to_look_next_and_the_files_are_there(finished):
    demo, _, output = finished
    (run,) = demo.folder.iterdir()
    for file in ("joined.jsonl", "sandgauge.yaml"):
        assert str(run / file) in output
        assert (run / file).stat().st_size > 0


def test_the_command_that_it_ends_with_makes_a_page(finished, tmp_path):
    _, _, output = finished
    (line,) = [line for line in output.splitlines() if " report " in line and "--format html" in line]
    command = shlex.split(line.partition("as a page")[2])
    subprocess.run([*command[:-1], str(tmp_path / "report.html")], check=True, timeout=60)
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_it_names_the_live_page(finished):
    _, _, output = finished
    assert re.search(r"live page: http://127\.0\.0\.1:\d+$", output, re.MULTILINE)


def test_the_joined_file_has_every_rollout_once_in_a_line_at_most(finished):
    demo, _, _ = finished
    (run,) = demo.folder.iterdir()
    assert_grouped_by_rollout(demo.joined_lines(), run.name, {"0-0", "0-1", "1-0", "1-1", "2-0"})


@pytest.mark.parametrize("moment", ["first part", "readings"])
def test_ctrl_c_ends_everything_at_once_and_quietly(tmp_path, moment):
    demo = DemoRun(tmp_path, {})
    if moment == "readings":
        demo.wait_for_readings()
    else:
        demo.wait_for_children(1)
    exit_code, output = demo.interrupt()
    assert exit_code == 130, output
    assert "Stopped" in output.splitlines()[-1]
    assert "Traceback" not in output
    assert demo.left_over() == []


def test_a_part_that_dies_is_named_with_its_log(tmp_path):
    demo = DemoRun(tmp_path, {})
    demo.wait_for_readings()
    demo.child("sandgauge_poller").kill()
    exit_code, output = demo.finish()
    assert exit_code == 1
    assert "Error: poller ended with -9" in output
    assert "poller.log:\n{" in output
    assert shown_sandboxes(output) == []
    assert demo.left_over() == []


def test_a_run_that_fails_is_named_with_its_log(tmp_path):
    demo = DemoRun(tmp_path, {}, "--rollouts", "1")
    demo.wait_for_readings()
    demo.child("sandgauge_demo.gym_run").kill()
    exit_code, output = demo.finish()
    assert exit_code == 1
    assert "Error: gym ended with -9" in output
    assert output.startswith("A run of 1 rollout on simulated sandboxes")


def test_a_named_collector_that_cannot_be_used_is_an_error(tmp_path):
    exit_code, output = DemoRun(tmp_path, {"SANDGAUGE_OTELCOL": str(tmp_path / "nowhere")}).finish()
    assert exit_code == 1
    assert "SANDGAUGE_OTELCOL" in output.splitlines()[-1]
    assert "Traceback" not in output


def test_a_folder_that_cannot_be_made_is_an_error_with_a_cure(tmp_path):
    (tmp_path / "runs").write_text("a file")
    exit_code, output = DemoRun(tmp_path, {}).finish()
    assert exit_code == 2
    assert "--folder" in output


class FakePipeline:
    """A pipeline through which nothing comes."""

    def __init__(self, *_args, **_settings):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def start(self):
        return iter(())

    def is_run_over(self):
        return True

    def outcome(self):
        return read_outcome(Path("absent.jsonl"))


def test_records_that_never_come_are_waited_for_with_a_bound_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "Pipeline", FakePipeline)
    monkeypatch.setattr(command, "_PATIENCE_S", -60.0)
    result = CliRunner().invoke(command.demo, ["--rollouts", "3", "--folder", str(tmp_path)])
    assert result.exit_code == 1
    assert "Error: 5 of 5 sandboxes have no summary in the joined file" in result.output


class TestFromAWheel:
    """Without the Collector's configuration, which is not part of a wheel."""

    @pytest.fixture(autouse=True)
    def no_checkout(self, monkeypatch):
        monkeypatch.setattr(pipeline, "source_checkout", lambda: None)

    def parts(self, tmp_path, environ):
        with Pipeline(tmp_path, run_id="r", rollouts=1, environ=environ, pause=lambda _seconds: None) as running:
            yield from running.start()

    def test_the_stand_in_says_what_a_real_collector_takes(self, tmp_path):
        parts = {part.name: part for part in self.parts(tmp_path, {})}
        assert "source checkout" in parts["Collector"].remark
        assert not [child for child in psutil.Process().children() if str(tmp_path) in command_of(child)]

    def test_a_named_collector_is_not_passed_over_in_silence(self, tmp_path):
        with pytest.raises(CollectorError, match="SANDGAUGE_OTELCOL is set, but"):
            list(self.parts(tmp_path, {"SANDGAUGE_OTELCOL": "/usr/bin/otelcol"}))
