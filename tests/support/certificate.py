"""A certificate of loopback that nobody trusts unless told to."""

import shutil
import ssl
import subprocess
from pathlib import Path

from support.real_parts import require


def make_certificate(folder: Path, names: str = "DNS:localhost,IP:127.0.0.1") -> Path:
    """Make `cert.pem` and `key.pem` for those names, in openssl's words, in a folder; return the former."""
    openssl = require("openssl", shutil.which("openssl"), "it makes the certificate (on Debian: apt install openssl)")
    subject = ["-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    return folder / "cert.pem"


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """Return what a server needs to speak TLS with the certificate; its key is `key.pem` beside it unless named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key or certificate.with_name("key.pem"))
    return context
