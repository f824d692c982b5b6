"""The command line as a whole: exit codes as documented, completion, version, and errors that nobody foresaw."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sandgauge_demo.deployment import DeploymentSettings
from sandgauge_poller import build_facts, cli
from sandgauge_poller.__main__ import main
from sandgauge_schemas.version import __version__
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
DOCUMENTED = re.findall(r"^\| `([a-z]+)` \| [^|]+ \| [^|]+ \| wrong usage \|$", PAGE, re.MULTILINE)
JOINED = ROOT / "tests" / "fixtures" / "report" / "mixed"
NOBODY = "http://127.0.0.1:9"
SECRET = "c4nary"


def invoke(*arguments):
    return CliRunner().invoke(cli.cli, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def osb():
    with osb_in_thread(DeploymentSettings(metrics_delay_s=0.0)) as deployment:
        yield deployment


@pytest.fixture
def config(tmp_path, osb, otlp_sink):
    """Return a function that writes the configuration of a poller whose parts are all there, but for what changes."""

    def write(**changes):
        whole = {
            "ingest": {"endpoint": "127.0.0.1:0"},
            "status": {"endpoint": "127.0.0.1:0"},
            "deployments": [{"name": "training", "endpoint": osb.url}],
            "export": {"endpoint": otlp_sink.endpoint},
            "state": {"directory": str(tmp_path / "state")},
            **changes,
        }
        path = tmp_path / "sandgauge.yaml"
        path.write_text(yaml.safe_dump(whole))
        return path

    return write


def test_every_command_has_its_exit_codes_documented():
    assert sorted(DOCUMENTED) == sorted(cli.cli.commands)
    named = re.findall(r"^\| `sandgauge ([a-z]+)", PAGE, re.MULTILINE)
    assert sorted(named) == sorted(cli.cli.commands)


def test_exit_code_0(config, osb, tmp_path):
    sandbox_id = osb.create(limits={"cpu": "500m", "memory": "512Mi"})
    with RunningPoller(tmp_path / "poller", {"export": {"endpoint": NOBODY}}) as poller:
        fine = {
            "check": invoke("check", "--config", config()),
            "doctor": invoke("doctor", "--config", config()),
            "read": invoke("read", "--config", config(), sandbox_id),
            "top": invoke("top", "--once", "--endpoint", poller.status_url),
            "report": invoke("report", *JOINED.glob("input*")),
            "health": invoke("health", f"{poller.status_url}/healthz"),
        }
        assert {name: answer.exit_code for name, answer in fine.items()} == dict.fromkeys(fine, 0)
        assert poller.stop() == 0
    assert {*fine, "run", "demo"} == set(DOCUMENTED)  # that of the demo is looked at with all of its output


def test_exit_code_1(config, tmp_path):
    unreachable = config(export={"endpoint": NOBODY})
    found = {"doctor": invoke("doctor", "--config", unreachable), "read": invoke("read", "--config", config(), "none")}
    (tmp_path / "file").write_text("")
    not_a_folder = config(state={"directory": str(tmp_path / "file" / "state")})
    bad = config(logs={"level": "loud"})
    found |= {
        "check": invoke("check", "--config", bad),
        "top": invoke("top", "--once", "--endpoint", NOBODY),
        "report": invoke("report", tmp_path / "file"),
        "health": invoke("health", NOBODY),
        "demo": invoke("demo", "--folder", tmp_path / "file" / "demo"),
    }
    assert {name: answer.exit_code for name, answer in found.items()} == dict.fromkeys(found, 1)
    config(state={"directory": str(tmp_path / "file" / "state")})
    refused = sandgauge("run", "--config", not_a_folder)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert {*found, "run"} == set(DOCUMENTED)


@pytest.mark.parametrize("command", DOCUMENTED)
def test_exit_code_2(command):
    answer = invoke(command, "--no-such-option")
    assert answer.exit_code == 2
    assert "--no-such-option" in answer.stderr


def sandgauge(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "sandgauge_poller", *map(str, arguments)],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def broken(monkeypatch):
    """Let a command meet an error that nobody foresaw, and that quotes what it should not."""

    def fail(_config_file):
        raise ValueError(SECRET)

    monkeypatch.setattr(cli, "_load", fail)


def test_an_unforeseen_error_is_one_line_without_what_it_quotes(broken):
    answer = invoke("check")
    assert (answer.exit_code, answer.stdout) == (1, "")
    (line,) = answer.stderr.splitlines()
    assert line.startswith("Error: unforeseen ValueError at sandgauge_poller/cli.py:")
    assert "report this line with what `sandgauge --version` prints" in line
    assert "--debug" in line
    assert SECRET not in answer.output


def test_debug_shows_the_traceback(broken, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sandgauge", "--debug", "check"])
    with pytest.raises(ValueError, match=SECRET):
        main()


def test_of_several_errors_the_first_is_named(monkeypatch):
    def fail(_config_file):
        raise ExceptionGroup("several", [KeyError(SECRET), ValueError(SECRET)])

    monkeypatch.setattr(cli, "_load", fail)
    assert "unforeseen KeyError" in invoke("check").stderr


def test_a_poller_that_ends_so_leaves_its_traceback_in_the_log(config, monkeypatch):
    program = (
        "import sandgauge_poller.service as service\n"
        "async def run(self, stop): raise ValueError('out of the blue')\n"
        "service.Poller.run = run\n"
        "from sandgauge_poller.__main__ import main; main()\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, "run", "--config", config()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    *logged, last = answer.stderr.splitlines()
    assert answer.returncode == 1
    assert last.startswith("Error: unforeseen ValueError")
    assert "out of the blue" in json.loads(logged[-1])["traceback"]


def test_version_tells_what_runs_here(monkeypatch):
    monkeypatch.setattr(build_facts, "version", {"uvloop": "1.2.3"}.get)
    answer = invoke("--version")
    first, python, system, *packages = answer.stdout.splitlines()
    assert answer.exit_code == 0
    assert first.startswith(f"sandgauge {__version__}")
    assert python == f"Python {platform.python_version()} ({platform.python_implementation()})"
    assert system.startswith(f"{platform.system()} ")
    assert packages == ["uvloop 1.2.3", "aiokafka not installed (extra kafka)"]


@pytest.mark.parametrize(
    ("noted", "shown"),
    [
        (json.dumps({"url": "x", "vcs_info": {"vcs": "git", "commit_id": "5f2a"}}), " (commit 5f2a)"),
        (json.dumps({"url": "file:///x", "dir_info": {"editable": True}}), ""),
        ("[]", ""),
        ("{", ""),
        (None, ""),
    ],
)
def test_the_commit_is_what_the_installer_noted(monkeypatch, noted, shown):
    class Installed(Distribution):
        def read_text(self, filename):
            return noted

        def locate_file(self, path):
            raise NotImplementedError

    monkeypatch.setattr(build_facts, "distribution", lambda _: Installed())
    assert build_facts.build_facts().splitlines()[0] == f"sandgauge {__version__}{shown}"


def test_a_package_that_is_not_installed_is_no_error(monkeypatch):
    def nothing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(build_facts, "version", nothing)
    monkeypatch.setattr(build_facts, "distribution", nothing)
    assert build_facts.build_facts().endswith(
        "uvloop not installed (extra poller)\naiokafka not installed (extra kafka)"
    )


CASES = [
    (["re"], ["read", "report"]),
    (["--de"], ["--debug"]),
    (["doctor", "--"], ["--config", "--json", "--help"]),
    (["report", "--by", "ro"], ["rollout"]),
    (["report", "--fo"], ["--format"]),
    (["top", "--show", "lea"], ["leaked"]),
    (["demo", "--ro"], ["--rollouts"]),
]


@pytest.mark.parametrize(("words", "expected"), CASES, ids=" ".join)
def test_words_are_completed(words, expected):
    line = " ".join(["sandgauge", *words])
    answer = sandgauge(_SANDGAUGE_COMPLETE="zsh_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    assert answer.stdout.splitlines()[1::3] == expected


def test_fish_is_answered_as_it_asks():
    answer = sandgauge(_SANDGAUGE_COMPLETE="fish_complete", COMP_WORDS="sandgauge re", COMP_CWORD="re")
    assert re.findall(r"^plain,(\w+)\t", answer.stdout, re.MULTILINE) == ["read", "report"]


def documented(shell):
    (command,) = re.findall(rf"^\| {shell}[^|]*\| `(.+)` \|$", PAGE, re.MULTILINE)
    return command


def installed(folder):
    """Put a `sandgauge` where a shell finds it."""
    program = folder / "bin" / "sandgauge"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom sandgauge_poller.__main__ import main\nmain()\n")
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_the_documented_command_makes_bash_complete(tmp_path):
    environment = {"HOME": str(tmp_path), "PATH": installed(tmp_path)}
    script = (
        f"{documented('bash')}\n"
        ". ~/.bashrc\n"
        "complete -p sandgauge\n"
        "COMP_WORDS=(sandgauge report --by ro); COMP_CWORD=3; _sandgauge_completion sandgauge ro --by\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    answer = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    *_, how, found = answer.stdout.splitlines()
    assert answer.stderr == ""
    assert how.endswith("-F _sandgauge_completion sandgauge")
    assert found == "rollout"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_documented_command_writes_what_the_shell_reads(tmp_path, shell):
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    environment = {"HOME": str(tmp_path), "PATH": installed(tmp_path)}
    subprocess.run(["bash", "--norc", "-c", documented(shell)], env=environment, timeout=120, check=True)
    if shell == "zsh":
        (source,) = re.findall(r"\$\((.+)\)", (tmp_path / ".zshrc").read_text())
        script = subprocess.run(
            ["bash", "--norc", "-c", source], env=environment, capture_output=True, text=True, timeout=120, check=True
        ).stdout
    else:
        script = (tmp_path / ".config" / "fish" / "completions" / "sandgauge.fish").read_text()
    assert f"_SANDGAUGE_COMPLETE={shell}_complete" in script
    if found := shutil.which(shell):
        subprocess.run([found, "-n", "-c", script], timeout=120, check=True)
