"""How certificates are checked and shown where something is read."""

import ssl

from sandgauge_poller.config import ClientTls, MutualTls


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Return what a client speaks TLS with; the files were looked at with the configuration, and may be gone since.

    Raises:
        OSError: A file cannot be read any more, or holds something else.

    """
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if isinstance(tls, MutualTls) and tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context
