"""TLS between a pod and a runner: each end takes one certificate alone."""

import ssl


def server_context(certificate, key, other):
    """Return the TLS settings of an end that listens, has this certificate and takes only the other one (paths)."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(certificate, key)
    made.load_verify_locations(other)
    made.verify_mode = ssl.CERT_REQUIRED
    return made
