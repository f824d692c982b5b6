"""`make collector`, with a stand-in for Go: what is kept, what is not, and what a user without Go is told."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TOOLS = ("basename", "chmod", "cut", "date", "dirname", "ln", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tr")
BUILDS = "mkdir distribution && echo binary > distribution/otelcol-sandgauge && chmod +x distribution/otelcol-sandgauge"


@pytest.fixture
def workshop(tmp_path):
    shutil.copytree(CHECKOUT / "collector-config", tmp_path / "collector-config")
    path = tmp_path / "bin"
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(shutil.which(tool))
    return tmp_path


def provide_go(workshop, *, version="go1.99.1", run=BUILDS):
    go = workshop / "bin" / "go"
    go.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = version ] && {{ echo "go version {version} linux/amd64"; exit 0; }}\n'
        f'echo "$@" >> {workshop}/runs\n'
        f"{run}\n"
    )
    go.chmod(0o755)


def build(workshop, **environment):
    return subprocess.run(
        ["/bin/sh", workshop / "collector-config" / "build.sh"],
        env={"PATH": str(workshop / "bin"), **environment},
        cwd=workshop,
        capture_output=True,
        text=True,
        check=False,
    )


def runs(workshop):
    return (workshop / "runs").read_text().splitlines()


def test_builds_once_and_prints_only_the_path(workshop):
    provide_go(workshop)
    first, second = build(workshop), build(workshop)
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stdout == second.stdout
    assert Path(first.stdout.strip()).read_text() == "binary\n"
    manifest = workshop / "collector-config" / "builder.yaml"
    assert runs(workshop) == [f"run go.opentelemetry.io/collector/cmd/builder@v0.161.0 --config={manifest}"]
    assert (workshop / "_build" / "otelcol-sandgauge").resolve() == Path(first.stdout.strip()).resolve()
    assert sorted(path.name for path in (workshop / "_build").iterdir()) == [
        Path(first.stdout.strip()).parent.name,
        "otelcol-sandgauge",
    ]


def test_new_manifest_or_new_go_is_a_new_build(workshop):
    provide_go(workshop)
    paths = [build(workshop).stdout]
    provide_go(workshop, version="go1.99.2")
    paths.append(build(workshop).stdout)
    with (workshop / "collector-config" / "builder.yaml").open("a") as manifest:
        manifest.write("# changed\n")
    paths.append(build(workshop).stdout)
    assert len(set(paths)) == len(runs(workshop)) == 3
    assert (workshop / "_build" / "otelcol-sandgauge").resolve() == Path(paths[-1].strip()).resolve()


def test_failed_build_leaves_nothing_behind(workshop):
    provide_go(workshop, run="mkdir distribution; echo 'no such module' >&2; exit 3")
    failed = build(workshop)
    assert failed.returncode != 0
    assert "no such module" in failed.stderr
    assert list((workshop / "_build").iterdir()) == []


def test_build_that_another_one_finished_first_is_taken(workshop):
    provide_go(workshop)
    binary = Path(build(workshop).stdout.strip())
    binary.unlink()
    late = f"{BUILDS} && echo first > {binary} && chmod +x {binary}"
    provide_go(workshop, run=late)
    assert build(workshop).returncode == 0
    assert binary.read_text() == "first\n"


def test_cache_elsewhere(workshop):
    provide_go(workshop)
    path = build(workshop, SANDGAUGE_CACHE=str(workshop / "cache")).stdout.strip()
    assert Path(path).is_relative_to(workshop / "cache")
    assert not (workshop / "_build").exists()


def test_without_go_the_user_learns_what_to_do(workshop):
    told = build(workshop)
    assert told.returncode == 1
    assert "Go is not on PATH" in told.stderr
    assert "SANDGAUGE_OTELCOL" in told.stderr
    assert "Traceback" not in told.stderr
