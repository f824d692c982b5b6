"""Two minutes of the churn that `make soak` keeps up for half an hour."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.load

TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(360)
def test_nothing_grows_while_sandboxes_come_and_go():
    command = [sys.executable, str(TESTS / "bench" / "soak.py"), "--minutes", "2", "--ids", "2000"]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
