"""Every image that the compose file names, made from local files under the name that it has there."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.build_cache import REPOSITORY
from support.debian_packages import unpacked
from support.docker_daemon import DockerDaemon
from support.python_base import python_base
from support.real_collector import config_files, real_collector
from support.sandbox_images import static_busybox

STAND_INS = Path(__file__).parent / "stand_ins"
BUILD_BACKEND = Path(__file__).parent / "backends" / "build.sh"
# Debian's newest: its own stable release has a Prometheus without what is asked of it here, and no Compose 2.
SUITE = "forky"
PACKAGES = ("docker-buildx", "docker-compose", "prometheus")
PLUGINS = "usr/libexec/docker/cli-plugins"
OVERLAYS = ("otelcol.joined.yaml", "otelcol.fleet.yaml", "otelcol.quantities.yaml", "otelcol.remote-write.yaml")


@dataclass(frozen=True, slots=True)
class DockerCli:
    """The Docker command line with Compose and buildx, against one daemon; it knows nothing of the machine's own."""

    daemon: DockerDaemon
    home: Path

    def run(self, *arguments: str, settings: Mapping[str, str] | None = None, timeout_s: float = 300) -> str:
        """Return what a command prints; what it complains of is a note of its CalledProcessError."""
        done = self.attempt(*arguments, settings=settings, timeout_s=timeout_s)
        try:
            done.check_returncode()
        except subprocess.CalledProcessError as error:
            error.add_note(done.stderr[-4000:])
            raise
        return done.stdout

    def attempt(
        self, *arguments: str, settings: Mapping[str, str] | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command that may fail, in the root of the checkout; `settings` are variables of its environment."""
        return self._run(("docker", *arguments), settings or {}, timeout_s)

    def shell(self, command: str, settings: Mapping[str, str] | None = None) -> None:
        """Run a command of the documentation as a shell would, in the root of the checkout; it must succeed."""
        self._run(("/bin/sh", "-ec", command), settings or {}, timeout_s=300).check_returncode()

    def _run(
        self, command: tuple[str, ...], settings: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=REPOSITORY,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "DOCKER_HOST": self.daemon.host,
                **settings,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )


def docker_cli(daemon: DockerDaemon, home: Path) -> DockerCli:
    """Give the daemon's command line its plugins."""
    plugins = home / ".docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    for plugin in (unpacked(SUITE, PACKAGES) / PLUGINS).iterdir():
        (plugins / plugin.name).symlink_to(plugin)
    return DockerCli(daemon, home)


def make_images(docker: DockerCli, versions: Mapping[str, str], *, real_backends: bool) -> None:
    """Import the Python base, build the poller's image as the compose file says, and make all others.

    `versions` is `.env`. With `real_backends`, Jaeger and Prometheus are built from their Go modules.
    """
    base = f"python:{versions['PYTHON_VERSION']}-slim"
    docker.run(
        "import",
        *("--change", "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"),
        *("--change", "ENV LANG=C.UTF-8"),
        *("--change", 'CMD ["python3"]'),
        str(python_base(versions["PYTHON_VERSION"])),
        base,
    )
    docker.run("compose", "build", "--quiet", "poller")
    programs = {
        "otelcol": real_collector(config_files(*OVERLAYS)),
        "busybox": static_busybox(),
        "prometheus": unpacked(SUITE, PACKAGES) / "usr" / "bin" / "prometheus",
    }
    images = {
        "collector": f"otel/opentelemetry-collector-contrib:{versions['COLLECTOR_VERSION']}",
        "prometheus": f"prom/prometheus:{versions['PROMETHEUS_VERSION']}",
        "trace-sink": f"jaegertracing/jaeger:{versions['JAEGER_VERSION']}",
        "grafana": f"grafana/grafana:{versions['GRAFANA_VERSION']}",
    }
    if real_backends:
        programs["prometheus"] = built("prometheus")
        programs["jaeger"] = built("jaeger")
        images["jaeger"] = images.pop("trace-sink")
    with tempfile.TemporaryDirectory() as context:
        shutil.copytree(STAND_INS, context, dirs_exist_ok=True)
        for name, program in programs.items():
            shutil.copy(program, Path(context) / name)
            (Path(context) / name).chmod(0o755)
        for target, image in images.items():
            arguments = {"POLLER_IMAGE": "sandgauge-poller:local", "PYTHON_IMAGE": base}
            pairs = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
            docker.run("build", "--quiet", "--target", target, "--tag", image, *pairs, context)


def built(backend: str) -> Path:
    """Return the program of a backend, built from its Go module once."""
    folder = subprocess.run((BUILD_BACKEND, backend), stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    return Path(folder) / backend
