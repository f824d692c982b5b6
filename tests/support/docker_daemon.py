"""A Docker daemon of the tests' own, which leaves nothing behind on the machine that runs them.

The daemon and all it starts live in network, mount and process namespaces of their own. So its bridges, its iptables
chains (among them a FORWARD policy that would cut every other bridge), its overlay mounts and its containers end with
one process, however the tests end, and it cannot get in the way of a Docker daemon of the machine. The tests reach
what is published inside over one pair of virtual interfaces; no address translation and no forwarding is set up on
the host, and so nothing inside can reach further than the host.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import psutil

from support.real_parts import require
from support.waiting import wait_until

CGROUPS = Path("/sys/fs/cgroup")
TOOLS = ("dockerd", "docker", "ip", "nsenter", "setpriv", "unshare")
# The kernel ends the child when the thread that started it is gone: even a killed test run leaves no process.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
# dockerd makes /run/docker, and looks there for plugins, whatever its options say: let that be a /run of its own.
PRIVATE_RUN = 'mount -t tmpfs tmpfs /run && exec "$@"'
# RFC 2544 sets this block aside for testing network devices: no real network is hidden by it.
ADDRESSES = IPv4Address("198.18.0.0")
ADDRESS_BLOCKS = 2**15


@dataclass(frozen=True, slots=True)
class DockerDaemon:
    """A running daemon: its API socket, and the IPv4 address at which the host reaches what listens inside."""

    socket: Path
    address: IPv4Address
    folder: Path
    process_id: int

    @property
    def host(self) -> str:
        """The value for DOCKER_HOST."""
        return f"unix://{self.socket}"

    def docker(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run the Docker command line and return what it prints."""
        # HOME apart: contexts and credential helpers of the developer have no say here.
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "DOCKER_HOST": self.host}
        return run("docker", *arguments, stdin=stdin, environment=environment).strip()

    def import_image(self, name: str, content: bytes) -> None:
        """Make an image out of a tar archive, so that no registry is asked for one."""
        self.docker("import", "-", name, stdin=content)

    def inside(self, *command: str) -> list[str]:
        """The command that runs the given one in the daemon's network, and ends with the process that starts it."""
        return [*DIE_WITH_PARENT, "nsenter", f"--net=/proc/{self.process_id}/ns/net", "--", *command]


@contextlib.contextmanager
def private_docker_daemon(folder: Path) -> Iterator[DockerDaemon]:
    """Run a daemon whose data, state, socket and log are in the folder; end it and all it started afterwards."""
    require_docker()
    config, socket, log = folder / "daemon.json", folder / "docker.sock", folder / "dockerd.log"
    config.write_text("{}")
    cgroup = f"/sandgauge-{os.getpid()}-{folder.name}"
    command = [
        *DIE_WITH_PARENT,
        *NAMESPACES,
        *("sh", "-c", PRIVATE_RUN, "dockerd"),
        *("dockerd", "--config-file", str(config), "--host", f"unix://{socket}", "--log-level", "warn"),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")),
        # One cgroup for all containers, made by the daemon itself rather than systemd, is one that can be removed.
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", cgroup),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: in_own_network(process), timeout_s=60, what="a network of its own for dockerd")
        address = join_network(process.pid)
        daemon = DockerDaemon(socket=socket, address=address, folder=folder, process_id=process.pid)
        wait_until(lambda: answers(daemon), timeout_s=120, what="an answer of dockerd")
        try:
            yield daemon
        finally:
            remove_containers(daemon)
    except TimeoutError as error:
        error.add_note(log.read_text()[-4000:])
        raise
    finally:
        end(process)
        remove_cgroups(cgroup)
        shutil.rmtree(folder / "data", ignore_errors=True)


def require_docker() -> None:
    """Skip the test, or fail it where real parts are required, when no daemon can be started here."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    require(
        "Docker",
        None if missing else TOOLS,
        f"not on PATH: {', '.join(missing)} (on Debian: apt install docker.io iproute2)",
    )
    probe = subprocess.run((*NAMESPACES, "true"), capture_output=True, check=False)
    require("Docker", probe if probe.returncode == 0 else None, "its daemon needs namespaces, and those need root")


def in_own_network(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has left the host's network namespace."""
    return (
        process.poll() is None
        and Path(f"/proc/{process.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    )


def link_name(process_id: int) -> str:
    """Name the host's end of the pair that leads to the process's network."""
    return f"sg-{process_id}"


def join_network(process_id: int) -> IPv4Address:
    """Connect the host with the process's network namespace; return the address of the inner end."""
    outer, inner = (ADDRESSES + 4 * (process_id % ADDRESS_BLOCKS) + end for end in (1, 2))
    link = link_name(process_id)
    inside = ("nsenter", f"--net=/proc/{process_id}/ns/net", "--", "ip")
    run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(process_id))
    run("ip", "address", "add", f"{outer}/30", "dev", link)
    run("ip", "link", "set", link, "up")
    run(*inside, "address", "add", f"{inner}/30", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "link", "set", "lo", "up")
    return inner


def answers(daemon: DockerDaemon) -> bool:
    """Whether the daemon serves its API."""
    try:
        daemon.docker("version")
    except subprocess.CalledProcessError:
        return False
    return True


def remove_containers(daemon: DockerDaemon) -> None:
    """Remove all containers while the daemon can still do it: it also takes their cgroups away."""
    containers = daemon.docker("ps", "--all", "--quiet").split()
    if containers:
        daemon.docker("rm", "--force", "--volumes", *containers)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the namespaces' first process, which takes every other one along, and wait until all are gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        psutil.wait_procs(descendants, timeout=60)
    process.wait()
    # The network outlives its processes by the minutes that closed connections linger; its link need not.
    subprocess.run(("ip", "link", "delete", link_name(process.pid)), capture_output=True, check=False)


def remove_cgroups(name: str) -> None:
    """Remove the daemon's cgroups in the unified hierarchy, or in each controller's own."""
    for root in [CGROUPS / name.lstrip("/"), *CGROUPS.glob(f"*{name}")]:
        for folder, _, _ in os.walk(root, topdown=False):
            Path(folder).rmdir()


def run(*command: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end and return its output; its complaint becomes a note of the error."""
    try:
        return subprocess.run(
            command, input=stdin, env=environment, capture_output=True, check=True, timeout=120
        ).stdout.decode()
    except subprocess.CalledProcessError as error:
        error.add_note(error.stderr.decode(errors="replace"))
        raise
