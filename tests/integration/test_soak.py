"""The churn that `make soak` keeps up for half an hour, shorter and of a fleet that is replaced faster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.load

TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(600)
def test_nothing_grows_while_sandboxes_come_and_go():
    fleet = ["--sandboxes", "500", "--churn", "1.5", "--interval", "5"]
    command = [sys.executable, "-m", "bench.long", "--minutes", "2", *fleet]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
