"""Kustomize, built once from its Go module, and the objects that it makes of a folder."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from support.build_cache import building, fingerprint
from support.real_parts import require

MODULE = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"


def kustomize() -> Path:
    """Return the program; without Go the test is skipped, or fails. The first build takes a minute."""
    go = require("Go", shutil.which("go"), "it builds kustomize (1.24 or newer on PATH)")
    version = subprocess.run((go, "env", "GOVERSION"), capture_output=True, check=True).stdout
    with building(f"kustomize-{fingerprint([version, MODULE.encode()])}") as folder:
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            subprocess.run(
                (go, "install", "-trimpath", MODULE),
                env=os.environ | {"CGO_ENABLED": "0", "GOBIN": str(partial)},
                check=True,
            )
            partial.rename(folder)
    return folder / "kustomize"


def build(folder: Path) -> list[dict[str, Any]]:
    """Return the objects of a folder with a kustomization; raises AssertionError with what is wrong about it."""
    done = subprocess.run((kustomize(), "build", folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "kustomize warns"
    return list(yaml.safe_load_all(done.stdout))
