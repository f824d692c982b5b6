"""What the joins of the dashboards come to, by Prometheus' own tool on a small fleet that is known in full."""

import json

import pytest

from support.dashboards import filled_in, panel_expressions
from support.promtool import promtool

pytestmark = pytest.mark.integration

EXPRESSIONS = {one.place: one.promql for one in panel_expressions()}
NOW, VALUES = "20m", {"run": "r", "rollout": "7-0", "sandbox": "own", "deployment": ".*"}


def series(metric: str, values: str, **labels: str) -> dict[str, str]:
    """Return a series with short names for labels, one value a minute."""
    long = {
        "id": "nemo_gym_sandbox_id",
        "request": "nemo_gym_sandbox_request_id",
        "scope": "nemo_gym_sandbox_sample_scope",
        "reason": "nemo_gym_sandbox_end_reason",
        "leaked": "nemo_gym_sandbox_leaked",
    }
    everywhere = {"nemo_run_id": "r", "nemo_gym_rollout_id": "7-0"}
    named = {**everywhere, **{long[name]: value for name, value in labels.items()}}
    return {"series": f"{metric}{{{','.join(f'{k}={json.dumps(v)}' for k, v in named.items())}}}", "values": values}


# One request for two sandboxes: one that reads itself, one whose daemon sees the node. A third leaked, and has ended.
FLEET = [
    series("gym_sandbox_requested_memory_mib", "16384", request="q1"),
    series("gym_sandbox_start_duration", "1", request="q1", id="own"),
    series("gym_sandbox_start_duration", "2", request="q1", id="node"),
    series("gym_sandbox_submitted_limits_memory_mib", "8192", request="q1", id="own"),
    series("gym_sandbox_allocation_limits_memory_mib", "8192 _x4 4096", request="q1", id="own"),
    series("gym_sandbox_allocation_limits_memory_mib", "8192", request="q1", id="node"),
    series("gym_sandbox_allocation_limits_memory_mib", "2048", request="q2", id="ended"),
    series("gym_sandbox_memory_total_mib", "4096x20", request="q1", id="own", scope="sandbox"),
    series("gym_sandbox_memory_total_mib", "64000x20", request="q1", id="node", scope="node"),
    series("gym_sandbox_memory_used_mib", "500x9 900 600x10", request="q1", id="own", scope="sandbox"),
    series("gym_sandbox_memory_used_mib", "30000x20", request="q1", id="node", scope="node"),
    series("gym_sandbox_memory_used_mib", "1500x4 stale", request="q2", id="ended", scope="sandbox"),
    series("gym_sandbox_memory_total_mib", "2048x4 stale", request="q2", id="ended", scope="sandbox"),
    series("gym_sandbox_lifetime_s", "60", id="ended", reason="stopped", leaked="false"),
    series("gym_sandbox_lifetime_s", "_x9 600", id="ended", reason="gone", leaked="true"),
    series("gym_sandbox_lifetime_s", "61", id="other", reason="stopped", leaked="false"),
]

SANDBOX = "nemo_gym_sandbox_id"
ROW = 'nemo_run_id="r",nemo_gym_rollout_id="7-0",nemo_gym_sandbox_id'


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("Fleet / Memory: requested, submitted, allocated / A", {"{}": 2 * 16384}),
        ("Fleet / Memory: requested, submitted, allocated / B", {"{}": 8192}),
        ("Fleet / Memory: requested, submitted, allocated / C", {"{}": 4096 + 8192}),
        ("Fleet / Memory: allocated and used, of sandboxes read themselves / A", {"{}": 4096}),
        ("Fleet / Memory: allocated and used, of sandboxes read themselves / B", {"{}": 600}),
        ("Fleet / Own memory known / A", {"{}": 0.5}),
        # Never the node's 30000; and the limit in force now, against the highest reading.
        ("Fleet / Top over-reservers / A", {f'{{{ROW}="own"}}': 4096 - 900, f'{{{ROW}="ended"}}': 2048 - 1500}),
        ("Fleet / Top over-reservers / B", {f'{{{SANDBOX}="own"}}': 4096, f'{{{SANDBOX}="ended"}}': 2048}),
        ("Fleet / Top over-reservers / C", {f'{{{SANDBOX}="own"}}': 900, f'{{{SANDBOX}="ended"}}': 1500}),
        ("Rollout / Memory of each sandbox / A", {f'{{{SANDBOX}="own"}}': 16384, f'{{{SANDBOX}="node"}}': 16384}),
        ("Rollout / Memory of each sandbox / B", {f'{{{SANDBOX}="own"}}': 8192}),
        ("Rollout / Memory of each sandbox / D", {f'{{{SANDBOX}="own"}}': 900, f'{{{SANDBOX}="ended"}}': 1500}),
        ("Rollout / Memory of each sandbox / E", {f'{{{SANDBOX}="node"}}': 30000}),
        ("Rollout / Requests / C", {'{nemo_gym_sandbox_request_id="q1"}': 2}),
        (
            "Rollout / How each sandbox ended / A",
            {
                f'{{{SANDBOX}="ended",nemo_gym_sandbox_end_reason="gone",nemo_gym_sandbox_leaked="true"}}': 600,
                f'{{{SANDBOX}="other",nemo_gym_sandbox_end_reason="stopped",nemo_gym_sandbox_leaked="false"}}': 61,
            },
        ),
        ("Sandbox / Memory requested / A", {"{}": 16384}),
        ("Sandbox / Memory allocated / A", {"{}": 4096}),
        ("Sandbox / Memory / C", {f'{{{SANDBOX}="own"}}': 4096}),
    ],
)
def test_it_comes_to(place, expected, tmp_path):
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    asked = {"expr": filled_in(EXPRESSIONS[place], VALUES), "eval_time": NOW, "exp_samples": samples}
    story = {"tests": [{"interval": "1m", "input_series": FLEET, "promql_expr_test": [asked]}]}
    (tmp_path / "story.yml").write_text(json.dumps(story))
    tested = promtool("test", "rules", tmp_path / "story.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
