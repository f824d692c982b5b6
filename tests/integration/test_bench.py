"""The benchmark's quick form runs, and what it prints can be; what the documentation quotes is what was measured."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import document

TESTS = Path(__file__).parents[1]


@pytest.mark.load
def test_the_quick_form_measures_poller_and_floor():
    command = [sys.executable, "-m", "bench", "--quick"]
    ended = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(TESTS), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    cost = re.search(r"│ 200 +│ poller[^│]*│ +([\d.]+) +│ +([\d.]+) +│", ended.stdout)
    assert cost is not None
    # A busy machine makes all of it dearer, and no reading costs less than the loop that does nothing else.
    assert 0 < float(cost[1]) < 100
    assert 1 < float(cost[2]) < 100
    punctual = re.search(r"│ 200 +│ poller +│ ([\d.]+) / [\d.]+ / [\d.]+ +│ ([\d.]+)%", ended.stdout)
    assert punctual is not None
    assert 1.0 < float(punctual[1]) < 4.0
    assert "kill -9 with 200 sandboxes" in ended.stdout


def test_the_documentation_quotes_the_saved_results():
    text = document.DOCUMENT.read_text()
    assert document.with_figures(text) == text
