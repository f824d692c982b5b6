"""Credentials of a cluster: from a pod's own files, and from kubeconfigs of every kind that people have."""

import base64
import json
import ssl
import subprocess
from pathlib import Path

import pytest

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.kubernetes.credentials import Credentials, CredentialsError
from sandgauge_poller.reading.kubernetes.in_cluster import in_cluster_credentials
from sandgauge_poller.reading.kubernetes.kubeconfig import kubeconfig_credentials
from support.certificate import make_certificate

SECRET = "hunter2-token"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def base64_of(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def write(folder: Path, *, cluster: object = None, user: object = None, context: object = None, **top: object) -> Path:
    """Write a kubeconfig, which JSON is one form of."""
    file = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "elsewhere", "context": {"cluster": "other", "user": "other"}},
            {"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.invalid:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **top,
    }
    file.write_text(json.dumps(content))
    return file


def headers(credentials: Credentials) -> dict[str, str]:
    return credentials.token.headers()


def test_a_token_and_the_namespace_of_the_context(tmp_path: Path) -> None:
    file = write(tmp_path, user={"token": SECRET}, context={"namespace": "osb"})
    credentials = kubeconfig_credentials(file)
    assert headers(credentials) == {"Authorization": f"Bearer {SECRET}"}
    assert (str(credentials.server), credentials.namespace) == ("https://k8s.invalid:6443", "osb")
    assert SECRET not in repr(credentials)


@pytest.mark.parametrize("token", ["0123", "2026-11-30", "1e5", "true", "null", "~"])
def test_a_token_is_text_whatever_it_looks_like(tmp_path: Path, token: str) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace('"user": {}', f'"user": {{"token": {token}}}'))
    assert headers(kubeconfig_credentials(file)) == {"Authorization": f"Bearer {token}"}


def test_a_context_by_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, **{"current-context": "elsewhere"})
    assert kubeconfig_credentials(file, "here").namespace == "default"


def test_nobody_in_particular_over_plain_http(tmp_path: Path) -> None:
    file = write(tmp_path, cluster={"server": "http://k8s.invalid:8001"}, context={"user": ""})
    credentials = kubeconfig_credentials(file)
    assert headers(credentials) == {}
    assert credentials.tls is None


def test_a_path_of_the_server_and_the_name_in_its_certificate(tmp_path: Path) -> None:
    file = write(tmp_path, cluster={"server": "https://proxy.invalid/k8s/c-1", "tls-server-name": "kubernetes"})
    credentials = kubeconfig_credentials(file)
    assert str(credentials.server / "apis") == "https://proxy.invalid/k8s/c-1/apis"
    assert credentials.server_hostname == "kubernetes"


@pytest.mark.parametrize("inline", [True, False])
def test_authority_and_client_certificate_from_files_and_inline(tmp_path: Path, pair: Path, inline: bool) -> None:
    key = pair.with_name("key.pem")
    for file in (pair, key):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if inline:
        cluster = {"certificate-authority-data": base64_of(pair), "certificate-authority": "not-read"}
        user = {"client-certificate-data": base64_of(pair), "client-key-data": base64_of(key)}
    else:
        cluster = {"certificate-authority": "cert.pem"}
        user = {"client-certificate": "cert.pem", "client-key": str(tmp_path / "key.pem")}
    tls = kubeconfig_credentials(write(tmp_path, cluster=cluster, user=user)).tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert [found["serialNumber"] for found in tls.get_ca_certs()]


def test_no_check_of_the_server_where_it_is_asked_for(tmp_path: Path) -> None:
    tls = kubeconfig_credentials(write(tmp_path, cluster={"insecure-skip-tls-verify": True})).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_NONE, False)


def test_a_token_in_a_file_is_read_again_each_minute_and_after_a_refusal(tmp_path: Path, caplog) -> None:
    now = [100.0]
    token = tmp_path / "token"
    token.write_text("first\n")
    file = write(tmp_path, user={"tokenFile": "token", "token": "stale"})
    credentials = kubeconfig_credentials(file, clock=Clock(monotonic=lambda: now[0]))
    assert headers(credentials) == {"Authorization": "Bearer first"}
    token.write_text("second")
    now[0] += 59
    assert headers(credentials) == {"Authorization": "Bearer first"}
    now[0] += 1
    assert headers(credentials) == {"Authorization": "Bearer second"}
    token.write_text("third")
    credentials.token.refused()
    assert headers(credentials) == {"Authorization": "Bearer third"}
    token.unlink()
    now[0] += 60
    assert headers(credentials) == {"Authorization": "Bearer third"}
    assert f"{token} cannot be read" in caplog.text
    token.write_text("with\ncontrol")
    now[0] += 60
    assert headers(credentials) == {"Authorization": "Bearer third"}
    assert "control" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "place", "reason", "cure"),
    [
        ({"user": {"exec": {"command": "aws"}}}, "users[0].user.exec", "plugin", "token, tokenFile or a client"),
        ({"user": {"auth-provider": {"name": "oidc"}}}, "users[0].user.auth-provider", "OIDC", "token, tokenFile"),
        ({"user": {"username": "u", "password": SECRET}}, "users[0].user.username", "basic", "token, tokenFile"),
        ({"user": {"token": "t", "as": "admin"}}, "users[0].user.as", "somebody else", "rights itself"),
        ({"user": {"token": f"{SECRET}\n{SECRET}"}}, "users[0].user.token", "no token", "in one line"),
        ({"user": {"token": [SECRET]}}, "users[0].user.token", "not a single value", "write text"),
        ({"user": {"tokenFile": "gone"}}, "users[0].user.tokenFile", "gone cannot be read", "read it"),
        ({"user": {"client-key": "gone"}}, "users[0].user.client-key", "gone cannot be read", "user read it"),
        ({"user": {"client-key-data": "eA=="}}, "users[0].user.client-certificate", "is missing", "as a pair"),
        ({"user": {"client-certificate-data": "eA=="}}, "users[0].user.client-key", "is missing", "as a pair"),
        (
            {"user": {"client-certificate-data": "eA==", "client-key-data": "eA=="}},
            *("users[0].user.client-certificate", "do not fit", "unencrypted"),
        ),
        ({"user": {"client-key-data": "?"}}, "users[0].user.client-key-data", "not base64", "in one line"),
        ({"cluster": {"server": "k8s:6443"}}, "clusters[0].cluster.server", "no URL", "https://host:6443"),
        ({"cluster": {"server": ""}}, "clusters[0].cluster.server", "no URL", "https://host:6443"),
        ({"cluster": {"server": "https://u:p@h"}}, "clusters[0].cluster.server", "no URL", "https://host:6443"),
        ({"cluster": {"server": "https://[h"}}, "clusters[0].cluster.server", "no URL", "https://host:6443"),
        (
            {"cluster": {"server": "http://k8s.invalid"}, "user": {"token": SECRET}},
            *("clusters[0].cluster.server", "unencrypted", "write https://"),
        ),
        ({"cluster": {"proxy-url": "http://p"}}, "clusters[0].cluster.proxy-url", "proxy", "reached directly"),
        (
            {"cluster": {"certificate-authority-data": "eA=="}},
            *("clusters[0].cluster.certificate-authority", "holds no certificate", "PEM form"),
        ),
        ({"current-context": "gone"}, "contexts", "no entry", "name a context"),
        ({"current-context": ""}, "contexts", "no entry", "name a context"),
        ({"context": {"cluster": "gone"}}, "clusters", "no entry", "contexts[1].context.cluster"),
        ({"context": {"user": "gone"}}, "users", "no entry", "contexts[1].context.user"),
        ({"users": "u"}, "users", "no entry", "add the one"),
    ],
)
def test_what_cannot_be_used_names_file_key_and_cure(
    tmp_path: Path, changes: dict[str, object], place: str, reason: str, cure: str
) -> None:
    file = write(tmp_path, **changes)
    with pytest.raises(CredentialsError) as caught:
        kubeconfig_credentials(file)
    said = str(caught.value)
    assert said.startswith(f"{file}: {place}: ")
    assert reason in said
    assert cure in said.rpartition("; ")[2]
    assert SECRET not in said


@pytest.mark.parametrize("text", ["", "a: [", "- a", "!!python/object:os.system x", "x" * (1024**2 + 1)])
def test_what_is_no_kubeconfig_is_one_clear_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    with pytest.raises(CredentialsError, match=str(file)):
        kubeconfig_credentials(file)


def test_an_encrypted_key_is_an_error_and_no_question_at_the_terminal(tmp_path: Path, pair: Path) -> None:
    encrypted = tmp_path / "encrypted.pem"
    command = ["openssl", "ec", "-in", str(pair.with_name("key.pem")), "-aes256", "-passout", "pass:x"]
    subprocess.run([*command, "-out", str(encrypted)], check=True, capture_output=True)
    file = write(tmp_path, user={"client-certificate": str(pair), "client-key": str(encrypted)})
    with pytest.raises(CredentialsError, match="unencrypted"):
        kubeconfig_credentials(file)


@pytest.fixture
def service_account(tmp_path: Path, pair: Path) -> Path:
    (tmp_path / "token").write_text(SECRET)
    (tmp_path / "ca.crt").write_bytes(pair.read_bytes())
    (tmp_path / "namespace").write_text("monitor")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1/v1"), ("fd00::1", "https://[fd00::1]/v1"), ("api", "https://api/v1")],
)
def test_a_pod_has_its_own_credentials(service_account: Path, host: str, server: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    credentials = in_cluster_credentials(environ, service_account)
    assert str(credentials.server / "v1") == server
    assert credentials.namespace == "monitor"
    assert headers(credentials) == {"Authorization": f"Bearer {SECRET}"}
    assert credentials.tls is not None
    assert credentials.tls.get_ca_certs()
    assert SECRET not in repr(credentials)


@pytest.mark.parametrize("missing", ["token", "ca.crt", "namespace"])
def test_a_pod_without_one_of_its_files_is_told_which(service_account: Path, missing: str) -> None:
    (service_account / missing).unlink()
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(CredentialsError, match=f"{service_account / missing} cannot be read"):
        in_cluster_credentials(environ, service_account)


def test_outside_of_a_pod_a_kubeconfig_is_the_cure(service_account: Path) -> None:
    with pytest.raises(CredentialsError, match="name a kubeconfig"):
        in_cluster_credentials({}, service_account)
    (service_account / "ca.crt").write_text("x")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(CredentialsError, match="holds no certificate"):
        in_cluster_credentials(environ, service_account)
