import os
import subprocess
import sys
from pathlib import Path

from sandgauge_schemas import names

PAGE = Path(__file__).parents[2] / "docs" / "emitter.md"


def test_the_example_of_the_documentation_runs_as_it_stands(otlp_sink):
    example = PAGE.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    assert len(example.splitlines()) <= 22
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": otlp_sink.endpoint}
    subprocess.run([sys.executable, "-c", example], env=environment, timeout=60, check=True)
    request, start = otlp_sink.spans()
    assert (request.name, start.name) == (names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START)
    assert request.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB] == 4096
    assert start.attributes[names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB] == 4096.0
    assert start.attributes[names.NEMO_GYM_SANDBOX_ID].startswith("sbx-")
    for key, value in {names.NEMO_RUN_ID: "run-7", names.NEMO_GYM_ROLLOUT_ID: "12-3"}.items():
        assert (request.attributes[key], start.attributes[key]) == (value, value)
