"""Programs of a newer Debian than this machine's, unpacked beside it: nothing of the machine's own packages changes."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.build_cache import building, fingerprint
from support.real_parts import require

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def unpacked(suite: str, packages: Sequence[str]) -> Path:
    """Return the root folder of the packages, without what they depend on; fetched once, apt checks the signatures."""
    require(
        f"Debian's {', '.join(packages)}",
        SOURCES if SOURCES.exists() and shutil.which("apt-get") else None,
        "a Debian with its default package sources",
    )
    with building(f"debian-{suite}-{fingerprint(name.encode() for name in (suite, *packages))}") as folder:
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            fetch(partial, suite, packages)
            (partial / "root").rename(folder)
            shutil.rmtree(partial)
    return folder


def fetch(folder: Path, suite: str, packages: Sequence[str]) -> None:
    """Download and unpack into `root`, with lists, cache and sources of the folder's own."""
    for name in ("lists/partial", "cache/archives/partial", "root"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    apt = [
        "apt-get",
        "-qq",
        *("-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}"),
        *("-o", "APT::Sandbox::User=root"),
    ]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *packages], check=True, cwd=folder)
    for package in folder.glob("*.deb"):
        subprocess.run(("dpkg-deb", "-x", package, folder / "root"), check=True)


def mirror() -> str:
    """Return the mirror that this machine's own packages come from."""
    lines = SOURCES.read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("URIs:"))
