"""The two images that a sandbox is made of, built from what the machine has instead of from a registry."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from support.build_cache import building, fingerprint
from support.docker_daemon import DockerDaemon
from support.real_parts import require

SANDBOX_IMAGE = "local/busybox:1"
EXECD_IMAGE = "local/execd:1"
SOURCE = Path(__file__).parent / "execd_stand_in"
APPLETS = ("cat", "kill", "ls", "pidof", "ps", "sh", "sleep", "tail", "test")
# The server makes this the entrypoint of every sandbox, before the command that the sandbox was created with.
BOOTSTRAP = b"""#!/bin/sh
/opt/opensandbox/execd &
exec "$@"
"""


def import_sandbox_images(daemon: DockerDaemon) -> None:
    """Make the sandbox's own image, and the one that the server takes execd and its launcher from."""
    busybox = static_busybox()
    execd = build_execd()
    links = {f"bin/{applet}": "busybox" for applet in APPLETS}
    daemon.import_image(SANDBOX_IMAGE, archive({"bin/busybox": busybox}, links))
    # The server runs `tail` in this image and copies the two files out of the running container.
    files: dict[str, bytes | Path] = {"bin/busybox": busybox, "execd": execd, "bootstrap.sh": BOOTSTRAP}
    daemon.import_image(EXECD_IMAGE, archive(files, links))


def static_busybox() -> Path:
    """Find a busybox that needs no libraries, for an image that has none."""
    found = shutil.which("busybox")
    linked = subprocess.run(("ldd", found or ""), capture_output=True, check=False).returncode == 0
    busybox = require(
        "busybox", None if linked else found, "a static one on PATH (on Debian: apt install busybox-static)"
    )
    return Path(busybox)


def build_execd() -> Path:
    """Compile the stand-in for execd to one static program; return where it is kept."""
    go = require("Go", shutil.which("go"), "it compiles the stand-in for execd (1.25 or newer on PATH)")
    sources = [*sorted(SOURCE.glob("*.go")), SOURCE / "go.mod"]
    version = subprocess.run((go, "env", "GOVERSION"), capture_output=True, check=True, cwd=SOURCE).stdout
    with building(f"execd-stand-in-{fingerprint([version, *(source.read_bytes() for source in sources)])}") as binary:
        if not binary.exists():
            partial = binary.with_suffix(".partial")
            subprocess.run(
                (go, "build", "-trimpath", "-o", str(partial), "."),
                cwd=SOURCE,
                env=os.environ | {"CGO_ENABLED": "0"},
                check=True,
            )
            partial.rename(binary)
    return binary


def archive(files: Mapping[str, bytes | Path], links: Mapping[str, str]) -> bytes:
    """A tar archive of executable files (path to content, or to the file that has it) and symbolic links."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.read_bytes() if isinstance(content, Path) else content
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(data)
            tar.addfile(entry, io.BytesIO(data))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()
