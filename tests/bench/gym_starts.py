"""What the emitter costs stock Gym, in each telemetry set-up: `PYTHONPATH=tests python tests/bench/gym_starts.py`.

Each set-up is one process that measures with the emitter off and on by turns, so that the two can be compared. What is
started has all there is to record: a declared shape, and what OpenSandbox's client is handed for it.
"""

from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.scenario_run import GROUPS_ENABLED, LENS_ABSENT, TelemetrySetup
from support.stock_gym import stock_gym

SETUPS = {
    "the emitter's own provider": TelemetrySetup(lens=False, host=False),
    "an SDK of the host": LENS_ABSENT,
    "an SDK of the host, and Gym's own spans": GROUPS_ENABLED,
}


def main() -> None:
    """Measure and print."""
    for name, setup in SETUPS.items():
        with OtlpSink() as sink:
            environment = ON | {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint}
            environment |= {"SCENARIO_HOST": "yes"} if setup.host else {}
            environment |= {"SCENARIO_SPAN_GROUPS": ",".join(setup.groups)}
            program = ("-m", "support.gym_scenarios", "bench")
            done = stock_gym(lens=setup.lens).run(*program, environment=environment)
        print(f"{name}\n{done.stdout}")


if __name__ == "__main__":
    main()
