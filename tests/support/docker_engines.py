"""A newer Docker engine than the one that is installed, out of Debian's packages."""

import os

from support.debian_packages import unpacked

PACKAGES = ("docker.io", "containerd")
"""Without runc, which asks for a newer libc: that of the machine serves them all."""


def path_with_docker_of(suite: str) -> str:
    """Return a PATH on which the daemon of that Debian suite is found first; it starts what it needs by PATH too."""
    root = unpacked(suite, PACKAGES)
    return f"{root}/usr/sbin:{root}/usr/bin:{os.environ['PATH']}"
