"""Certificates: of the poller's own servers, and of those that it calls."""

import ssl

from pydantic import ValidationInfo, field_validator, model_validator

from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_poller.config.section import Section
from sandgauge_poller.config.values import OptionalAuthority, OptionalFile


class Certificate(Section):
    """What the poller shows of itself; without files it shows nothing."""

    cert_file: OptionalFile = None
    key_file: OptionalFile = None

    @field_validator("key_file")
    @classmethod
    def _comes_as_a_pair(cls, key_file: object, info: ValidationInfo) -> object:
        if "cert_file" in info.data and (key_file is None) != (info.data["cert_file"] is None):
            raise InvalidValueError("and cert_file come as a pair", "name both files, or neither")
        return key_file

    @model_validator(mode="after")
    def _fit_together(self) -> "Certificate":
        if self.cert_file is not None:
            try:
                # Without a password the library would ask the terminal for that of an encrypted key.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert_file, self.key_file, password="")
            except OSError:
                raise InvalidValueError(
                    "and cert_file are no certificate with its own, unencrypted key",
                    "name two files in PEM form that belong together",
                    below=("key_file",),
                ) from None
        return self


class ServerTls(Certificate):
    """Certificate of a server; without files it speaks plain HTTP."""


class ClientTls(Section):
    """How the certificate of a called server is checked; without a file by the system's authorities."""

    ca_file: OptionalAuthority = None
    insecure_skip_verify: bool = False


class MutualTls(ClientTls, Certificate):
    """The same where the called server wants a certificate of the poller too."""
