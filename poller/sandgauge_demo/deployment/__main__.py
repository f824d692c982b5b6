"""`python -m sandgauge_demo.deployment`: a simulated deployment in a process of its own, until it is told to end."""

import argparse
import asyncio
import os
import resource
import signal
import sys

from sandgauge_demo.deployment.direct import EndpointForm
from sandgauge_demo.deployment.model import ExecdKind, Runtime
from sandgauge_demo.deployment.server import DeploymentSettings, SimulatedOpenSandbox


def main() -> None:
    """Serve until SIGINT or SIGTERM. The first line of standard output is the control plane's URL."""
    settings = _settings(sys.argv[1:])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a port and a connection for each sandbox
    asyncio.run(_serve(settings))


def _settings(arguments: list[str]) -> DeploymentSettings:
    parser = argparse.ArgumentParser(prog="python -m sandgauge_demo.deployment", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="of the control plane; 0 takes a free one")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds the API key")
    parser.add_argument("--proxy-needs-key", action="store_true", help="authenticate proxied paths too")
    parser.add_argument("--runtime", type=Runtime, choices=list(Runtime), default=Runtime.DOCKER)
    parser.add_argument("--execd-kind", type=ExecdKind, choices=list(ExecdKind), default=ExecdKind.RUNC)
    parser.add_argument("--endpoint-form", type=EndpointForm, choices=list(EndpointForm), default=EndpointForm.PORT)
    parser.add_argument("--metrics-delay", type=float, default=1.0, metavar="SECONDS", help="block of one reading")
    parser.add_argument("--proxy-pool", type=int, default=100, metavar="CONNECTIONS", help="of the server's proxy")
    parser.add_argument("--control", action="store_true", help="open the control routes below /_control")
    chosen = parser.parse_args(arguments)
    api_key = os.environ.get(chosen.api_key_env, "") if chosen.api_key_env else None
    if api_key == "":
        parser.error(f"--api-key-env {chosen.api_key_env}: the variable is unset or empty; set it to the key")
    return DeploymentSettings(
        host=chosen.host,
        port=chosen.port,
        api_key=api_key,
        proxy_needs_key=chosen.proxy_needs_key,
        runtime=chosen.runtime,
        execd_kind=chosen.execd_kind,
        endpoint_form=chosen.endpoint_form,
        metrics_delay_s=chosen.metrics_delay,
        proxy_pool_size=chosen.proxy_pool,
        control=chosen.control,
    )


async def _serve(settings: DeploymentSettings) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with SimulatedOpenSandbox(settings) as server:
        print(server.url, flush=True)  # noqa: T201 - how the starting process learns the port
        await ended.wait()


if __name__ == "__main__":
    main()
