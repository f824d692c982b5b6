"""Two minutes of sandboxes that come and go, several lives of a fleet: `make soak` does it for half an hour."""

import os
import subprocess
import sys

import pytest

from support.build_cache import REPOSITORY

pytestmark = [pytest.mark.load, pytest.mark.timeout(600)]

MINUTES, AT_ONCE, REPLACED_A_MINUTE, INTERVAL_S = 2, 500, 4, 5


def test_nothing_grows_and_no_series_outlives_its_sandbox():
    ended = subprocess.run(
        (
            *(sys.executable, "-m", "bench.long", "--minutes", str(MINUTES), "--sandboxes", str(AT_ONCE)),
            *("--churn", str(REPLACED_A_MINUTE), "--interval", str(INTERVAL_S)),
        ),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
