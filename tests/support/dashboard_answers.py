"""Whether a Prometheus answers what dashboards and alerts ask, for the runs, rollouts and sandboxes that it knows."""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

from support.dashboards import EVERYTHING, Expression, filled_in

Query = Callable[[str], list[dict[str, Any]]]
"""Evaluates PromQL now and returns the series as Prometheus shows them, each with `metric` and `value`."""

_INTERVAL_S = 5.0
_SANDBOXES = (
    "group by (nemo_run_id, nemo_gym_rollout_id, nemo_gym_sandbox_id) (last_over_time(gym_sandbox_start_duration[1h]))"
)


def unanswered(query: Query, expressions: Iterable[Expression], *, timeout_s: float) -> set[str]:
    """Return the places of the expressions that gave no data in that time, for whichever sandbox was chosen.

    Raise AssertionError for a series that a table would have no row for.
    """
    waiting = list(expressions)
    deadline = time.monotonic() + timeout_s
    while True:
        chosen = choices(query)
        waiting = [one for one in waiting if not any(_answers(query, one, choice) for choice in _of(one, chosen))]
        if not waiting or time.monotonic() > deadline:
            return {one.place for one in waiting}
        time.sleep(_INTERVAL_S)


def choices(query: Query) -> list[dict[str, str]]:
    """Return what somebody could pick above a dashboard: a sandbox with its rollout and run, and every deployment."""
    return [
        {
            "deployment": EVERYTHING,
            "run": series["metric"]["nemo_run_id"],
            "rollout": series["metric"]["nemo_gym_rollout_id"],
            "sandbox": series["metric"]["nemo_gym_sandbox_id"],
        }
        for series in query(_SANDBOXES)
    ]


def _of(expression: Expression, chosen: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the choices that make a difference to an expression."""
    return list({filled_in(expression.promql, choice): choice for choice in chosen}.values())


def _answers(query: Query, expression: Expression, choice: dict[str, str]) -> bool:
    answer = query(filled_in(expression.promql, choice))
    if expression.row is not None:
        assert all(expression.row in series["metric"] for series in answer), expression.place
    return any(not math.isnan(float(series["value"][1])) for series in answer)
