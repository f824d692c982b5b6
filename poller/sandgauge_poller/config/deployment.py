"""One deployment: an OpenSandbox control plane, or a Docker daemon whose containers are the sandboxes."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.section import EMPTY_WHEN_NONE, PositiveInt, Section
from sandgauge_poller.config.tls import MutualTls
from sandgauge_poller.config.urls import parse_control_plane, parse_docker_daemon
from sandgauge_poller.config.values import HostRule, Name, ProxyUse, Scope, Secret, ServerProxy

_OPENSANDBOX, _DOCKER = "opensandbox", "docker"
_PARSERS = {_OPENSANDBOX: parse_control_plane, _DOCKER: parse_docker_daemon}


class Deployment(Section):
    """One control plane, or a Docker daemon; `endpoint` and `scopes` are held as `scope_identity` gives them."""

    name: Name
    provider: Literal["opensandbox", "docker"] = "opensandbox"
    endpoint: str
    scopes: Annotated[tuple[Scope, ...], EMPTY_WHEN_NONE] = ()
    api_key: Secret = SecretStr("")
    tls: MutualTls = MutualTls()
    use_server_proxy: ServerProxy = ProxyUse.AUTO
    allowed_endpoint_hosts: Annotated[tuple[HostRule, ...], EMPTY_WHEN_NONE] = ()
    max_concurrent_proxied_reads: PositiveInt = 16
    max_requests_per_second: Annotated[float, Field(ge=0.1, allow_inf_nan=False)] = 50.0
    execd: bool = True

    @model_validator(mode="before")
    @classmethod
    def _no_execd_with_docker(cls, value: object) -> object:
        return {"execd": False, **value} if isinstance(value, dict) and value.get("provider") == _DOCKER else value

    @field_validator("endpoint")
    @classmethod
    def _as_its_provider_is_called(cls, endpoint: str, info: ValidationInfo) -> str:
        parse = _PARSERS.get(info.data.get("provider", ""))
        return parse(endpoint) if parse else endpoint  # of an unknown provider there is no telling

    @field_validator("api_key", "use_server_proxy", "allowed_endpoint_hosts", "max_concurrent_proxied_reads")
    @classmethod
    def _of_opensandbox_alone(cls, value: object, info: ValidationInfo) -> object:
        default = cls.model_fields[info.field_name or ""].default
        if info.data.get("provider") == _DOCKER and value != default:
            raise InvalidValueError("is of no use with provider: docker", "leave it out")
        return value

    @field_validator("tls")
    @classmethod
    def _certificate_for_docker_alone(cls, tls: MutualTls, info: ValidationInfo) -> MutualTls:
        if info.data.get("provider") == _OPENSANDBOX and tls.cert_file is not None:
            raise InvalidValueError("is of use with provider: docker alone", "leave it out", below=("cert_file",))
        return tls

    @field_validator("execd")
    @classmethod
    def _execd_where_there_is_one(cls, execd: bool, info: ValidationInfo) -> bool:
        provider = info.data.get("provider")
        if provider == _DOCKER and execd:
            raise InvalidValueError("cannot be true with provider: docker", "leave it out: no daemon is in there")
        return execd

    @property
    def identities(self) -> frozenset[str]:
        """Every scope identity under which spans may name this control plane."""
        return frozenset((self.endpoint, *self.scopes))
