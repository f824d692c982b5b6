"""A stand-in for the Python image that the poller's is made from, out of what this machine has: no registry is asked.

It holds Debian's own files of a few installed packages, CPython from pyenv in /usr/local, and the pinned wheels, from
which alone pip installs in it. So a build needs no network either.
"""

import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.build_cache import REPOSITORY, building, fingerprint
from support.real_parts import require

CONSTRAINTS = REPOSITORY / "constraints" / "poller.txt"
# What the slim image has that the Dockerfile, pip or Python need; what these depend on comes along.
PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "libc-bin", "passwd", "sed"),
    *("libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libsqlite3-0", "libssl3", "libuuid1", "zlib1g"),
)
ABSENT = re.compile(r"perl|debconf|dpkg|apt")
DOCUMENTATION = re.compile(r"/usr/share/(doc|man|locale|info|lintian|bug)/")
FOLDERS = (
    "dev",
    "etc/ssl/certs",
    "home",
    "opt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/local/bin",
    "var/lib",
    "var/tmp",
)
UNUSED = ("test", "idlelib", "tkinter", "ensurepip", "config-*", "site-packages", "__pycache__", "*.a")
PIP_SETTINGS = "[global]\nno-index = true\nfind-links = /opt/wheels\n"


def python_base(version: str) -> Path:
    """Return a tar archive of the image's root folder for a Python such as 3.13; made once for each set of wheels."""
    home = require(f"Python {version}", pyenv_home(version), f"pyenv install {version}")
    parts = (str(home).encode(), CONSTRAINTS.read_bytes(), Path(__file__).read_bytes())
    with building(f"python-base-{version}-{fingerprint(parts)}.tar") as archive:
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
                root = Path(scratch) / "root"
                fill(root, home)
                partial = Path(scratch) / "root.tar"
                with tarfile.open(partial, "w") as tar:
                    tar.add(root, arcname=".")
                partial.rename(archive)
    return archive


def pyenv_home(version: str) -> Path | None:
    """Return the folder of pyenv's newest CPython of that version."""
    if shutil.which("pyenv") is None:
        return None
    root = subprocess.run(("pyenv", "root"), capture_output=True, check=True, text=True).stdout.strip()
    found = sorted(Path(root, "versions").glob(f"{version}.*"), key=lambda path: int(path.name.split(".")[2]))
    return found[-1] if found else None


def fill(root: Path, home: Path) -> None:
    """Put everything into the image's root folder."""
    for folder in FOLDERS:
        (root / folder).mkdir(parents=True)
    for temporary in ("tmp", "var/tmp"):
        (root / temporary).chmod(0o1777)
    copy_files(debian_files(), root)
    for name in ("passwd", "group"):  # Debian's own accounts, not this machine's
        shutil.copy(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs")
    copy_python(home, root / "usr/local")
    subprocess.run(("chroot", root, "/sbin/ldconfig"), check=True)
    (root / "etc/pip.conf").write_text(PIP_SETTINGS)
    wheels = root / "opt/wheels"
    # As root of the image, which is this machine's user, and with this machine's own way to the packages.
    python = home / "bin/python"
    download = (python, "-m", "pip", "download", "--quiet", "--require-hashes", "-r", CONSTRAINTS, "-d", wheels)
    subprocess.run(download, check=True)


def debian_files() -> Iterator[str]:
    """Yield the paths of the packages' files, and the links that make one of /bin and /usr/bin."""
    depends, provided = package_relations()
    wanted, seen = list(PACKAGES), set[str]()
    while wanted:
        name = wanted.pop()
        package = name if name in depends else provided.get(name)
        if package is None or package in seen or ABSENT.match(package):
            continue
        seen.add(package)
        wanted += depends[package]
    yield from ("/bin", "/sbin", "/lib", "/lib64", "/etc/nsswitch.conf")
    for package in sorted(seen):
        listed = subprocess.run(("dpkg", "-L", package), capture_output=True, check=True, text=True).stdout
        for listed_path in listed.splitlines():
            path = Path(listed_path).parent.resolve() / Path(listed_path).name  # /bin is a link to /usr/bin
            kept = path.is_symlink() or path.is_file()
            if listed_path.startswith("/") and kept and not DOCUMENTATION.match(listed_path):
                yield str(path)


def package_relations() -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return what each installed package depends on, the first of alternatives, and who provides a virtual one."""
    shown = "${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
    listing = subprocess.run(("dpkg-query", "-W", "-f", shown), capture_output=True, check=True, text=True).stdout
    depends: dict[str, list[str]] = {}
    provided: dict[str, str] = {}
    for line in listing.splitlines():
        package, provides, needs = line.split("\t")
        depends[package] = list(names(needs))
        for name in names(provides):
            provided.setdefault(name, package)
    return depends, provided


def names(relations: str) -> Iterator[str]:
    """Yield the package names of a list such as `libc6 (>= 2.36), a | b`."""
    for relation in relations.split(","):
        words = relation.split("|")[0].split()
        if words:
            yield words[0].partition(":")[0]


def copy_files(paths: Iterable[str], root: Path) -> None:
    """Copy files and links as they are, owners and permissions too."""
    command = ("tar", "--create", "--no-recursion", "--directory=/", "--files-from=-")
    listed = "\n".join(path.lstrip("/") for path in dict.fromkeys(paths)).encode()
    archive = subprocess.run(command, input=listed, capture_output=True, check=True).stdout
    subprocess.run(("tar", "--extract", f"--directory={root}"), input=archive, check=True)


def copy_python(home: Path, prefix: Path) -> None:
    """Copy an interpreter and its pip; scripts name the prefix then."""
    version = f"python{'.'.join(home.name.split('.')[:2])}"
    for folder in ("bin", f"lib/{version}"):
        shutil.copytree(
            home / folder, prefix / folder, symlinks=True, ignore=shutil.ignore_patterns(*UNUSED), dirs_exist_ok=True
        )
    for library in (home / "lib").glob("libpython*.so*"):
        shutil.copy(library, prefix / "lib", follow_symlinks=False)
    packages = prefix / "lib" / version / "site-packages"
    packages.mkdir()
    for pip in (home / "lib" / version / "site-packages").glob("pip*"):
        shutil.copytree(pip, packages / pip.name)
    for script in (prefix / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and script.read_bytes()[:2] == b"#!":
            text = script.read_text()
            script.write_text(re.sub(r"\A#!.*", f"#!/usr/local/bin/{version}", text))
    for link, target in (("python3", version), ("python", "python3"), ("pip", "pip3")):
        path = prefix / "bin" / link
        path.unlink(missing_ok=True)
        path.symlink_to(target)
