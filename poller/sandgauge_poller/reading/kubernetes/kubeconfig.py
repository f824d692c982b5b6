"""Credentials from a kubeconfig: tokens and client certificates. No program that it names is run."""

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yarl import URL

from sandgauge_poller.config.urls import is_loopback
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.kubernetes.credentials import (
    BearerToken,
    Credentials,
    CredentialsError,
    is_token,
    make_tls,
    read_file,
    read_token,
)

_ENTRY = {"contexts": "context", "clusters": "cluster", "users": "user"}
_OTHER_USER = "name a user with token, tokenFile or a client certificate, such as a service account's"
_NOT_TAKEN = {
    "exec": ("runs a plugin for credentials, which is not supported", _OTHER_USER),
    "auth-provider": ("fetches credentials (OIDC and others), which is not supported", _OTHER_USER),
    "username": ("is HTTP basic authentication, which is not supported", _OTHER_USER),
    "password": ("is HTTP basic authentication, which is not supported", _OTHER_USER),
    "as": ("acts as somebody else, which is not supported", "name a user that has the rights itself"),
    "as-groups": ("acts as somebody else, which is not supported", "name a user that has the rights itself"),
    "proxy-url": ("is a proxy, and none is used", "name a server that is reached directly"),
}


def kubeconfig_credentials(file: Path, context_name: str = "", clock: Clock = SYSTEM_CLOCK) -> Credentials:
    """Return the credentials of a context, else of the current one; raises CredentialsError with file, key and cure."""
    top = _parse(file)
    context = top.entry("contexts", context_name or top.text("current-context"), "name a context of it as context")
    cluster = context.entry_named_by("cluster", "clusters", top)
    user = context.entry_named_by("user", "users", top)
    cluster.refuse("proxy-url")
    user.refuse("exec", "auth-provider", "username", "password", "as", "as-groups")
    server, token = _server(cluster), _token(user, clock)
    if token.headers() and server.scheme == "http" and not is_loopback(server.host or ""):
        raise cluster.error("server", "is http://, and the user's token would go there unencrypted", "write https://")
    return Credentials(
        server=server,
        namespace=context.text("namespace") or "default",
        token=token,
        tls=_tls(cluster, user),
        server_hostname=cluster.text("tls-server-name") or None,
    )


@dataclass(frozen=True, slots=True)
class _Section:
    """Keys that stand together in the file, and where; their values are never shown."""

    file: Path
    place: str
    keys: Mapping[str, Any] = field(repr=False)

    def error(self, key: str, reason: str, cure: str) -> CredentialsError:
        return CredentialsError(self.where(key), reason, cure)

    def where(self, key: str) -> str:
        return f"{self.file}: {self.place}.{key}" if self.place else f"{self.file}: {key}"

    def refuse(self, *names: str) -> None:
        for name in names:
            if self.keys.get(name):
                raise self.error(name, *_NOT_TAKEN[name])

    def text(self, key: str) -> str:
        value = self.keys.get(key, "")
        if not isinstance(value, str):
            raise self.error(key, "is not a single value", "write text after the colon")
        return value

    def entry(self, listed: str, name: str, cure: str) -> "_Section":
        """Return what the list holds under a name."""
        entries = self.keys.get(listed)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            content = entry.get(_ENTRY[listed]) if isinstance(entry, dict) and entry.get("name") == name else None
            if isinstance(content, dict):
                return _Section(self.file, f"{listed}[{index}].{_ENTRY[listed]}", content)
        raise self.error(listed, "holds no entry of the name that is asked for", cure)

    def entry_named_by(self, key: str, listed: str, top: "_Section") -> "_Section":
        """Return what a list of the file holds under the name that stands here; without a user's name, nobody."""
        name = self.text(key)
        if not name and key == "user":
            return _Section(self.file, "", {})
        return top.entry(listed, name, f"add the one that {self.place}.{key} names")

    def content(self, key: str) -> bytes | None:
        """Return what stands in the key's `-data`, else in the file that it names, or None."""
        if data := self.text(f"{key}-data"):
            try:
                return base64.b64decode(data, validate=True)
            except ValueError:
                raise self.error(f"{key}-data", "is not base64", "write the file in base64, in one line") from None
        named = self.text(key)
        return read_file(self.beside(named), self.where(key), "let the poller's user read it") if named else None

    def beside(self, named: str) -> Path:
        """Return a path, which starts at the folder of the kubeconfig if it is relative."""
        return self.file.parent / named


def _parse(file: Path) -> _Section:
    content = read_file(file, "kubeconfig", "name one that the poller's user may read")
    try:
        # Every scalar as the text that it is: a token may look like a number or a date.
        parsed = yaml.load(content, yaml.BaseLoader)  # noqa: S506  # it makes text, lists and mappings alone
    except (yaml.YAMLError, ValueError, RecursionError):
        # The library's own words quote the file.
        raise CredentialsError(str(file), "is not YAML", "name a kubeconfig") from None
    if not isinstance(parsed, dict):
        raise CredentialsError(str(file), "is not a kubeconfig", "name a kubeconfig")
    return _Section(file, "", parsed)


def _server(cluster: _Section) -> URL:
    cure = "write it as https://host:6443"
    try:
        url = URL(cluster.text("server"))
        fits = url.scheme in {"http", "https"} and url.host and not (url.user or url.password or url.query_string)
    except ValueError:
        fits = None
    if not fits:
        raise cluster.error("server", "is no URL of a server", cure)
    return url


def _token(user: _Section, clock: Clock) -> BearerToken:
    text, named = user.text("token"), user.text("tokenFile")
    if text and not is_token(text):
        raise user.error("token", "is no token that a header carries", "write the token alone, in one line")
    if not named:
        return BearerToken(text)
    file = user.beside(named)
    read_token(file, user.where("tokenFile"))
    return BearerToken(text, file, clock)


def _tls(cluster: _Section, user: _Section) -> ssl.SSLContext | None:
    if cluster.text("server").startswith("http://"):
        return None
    authority = cluster.content("certificate-authority")
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if (certificate is None) != (key is None):
        missing = "client-certificate" if certificate is None else "client-key"
        raise user.error(missing, "is missing", "client-certificate and client-key come as a pair")
    verify = cluster.text("insecure-skip-tls-verify") != "true"
    try:
        make_tls(authority)
    except (ssl.SSLError, ValueError):
        cure = "let it be certificates in PEM form"
        raise cluster.error("certificate-authority", "holds no certificate", cure) from None
    try:
        return make_tls(authority, certificate, key, verify=verify)
    except (ssl.SSLError, ValueError):
        cure = "let them be a certificate and its own, unencrypted key in PEM form"
        raise user.error("client-certificate", "and client-key do not fit together", cure) from None
