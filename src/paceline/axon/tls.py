"""TLS with a self-made certificate that clients pin by fingerprint, or with the user's own certificate."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import os
import re
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import ConfigError

_VALID_DAYS = 3650
_CERTIFICATE_REQUEST = (22, 13)  # a handshake message, RFC 8446


@dataclass(frozen=True, eq=False)
class ServerIdentity:
    """A certificate and its key, ready to serve with; a client pins its `fingerprint`."""

    context: ssl.SSLContext
    fingerprint: str

    @classmethod
    def from_files(cls, certificate: str | Path, key: str | Path) -> ServerIdentity:
        """Read the user's own certificate (PEM, with its chain) and private key (PEM)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(certificate, key, _no_passphrase)
            first, end, _ = Path(certificate).read_text().partition("-----END CERTIFICATE-----")
            der = ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE-----") :] + end)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot use certificate {certificate} with key {key}: {error}") from error
        return cls(context, fingerprint_of(der))

    @classmethod
    def self_made(cls, directory: str | Path | None = None) -> ServerIdentity:
        """Make a certificate of our own; kept in `directory` if given, so that its fingerprint lasts."""
        if directory is None:
            with tempfile.TemporaryDirectory(prefix="axon-tls-") as scratch:
                return cls.self_made(scratch)
        certificate, key = Path(directory, "axon-certificate.pem"), Path(directory, "axon-key.pem")
        if not (certificate.exists() and key.exists()):
            try:
                Path(directory).mkdir(parents=True, exist_ok=True)
                _make_certificate(certificate, key)
            except OSError as error:
                raise ConfigError(f"cannot keep a certificate in {directory}: {error}") from error
        return cls.from_files(certificate, key)

    def demand_certificates(self, client_ca: str | Path) -> ServerIdentity:
        """Let in only clients with a certificate of these authorities (PEM), whatever token they have; returns this."""
        try:
            self.context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the authorities of clients from {client_ca}: {error}") from error
        self.context.verify_mode = ssl.CERT_REQUIRED
        return self


@dataclass(frozen=True)
class ClientTrust:
    """How a client checks a worker's certificate, and the one that it shows itself.

    Exactly one way applies: a pinned `fingerprint`, a file of authorities (`ca_file`), or, with neither, the
    authorities this system trusts. `cert_file` and `key_file` are for workers that demand a certificate of clients.
    """

    fingerprint: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None and not is_fingerprint(self.fingerprint):
            raise ConfigError(
                f"fingerprint {self.fingerprint!r} is not 'sha256:' and 64 hex digits; "
                "copy it from the line the worker prints"
            )
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError("a certificate and its key belong together: give both cert_file and key_file, or neither")

    def context(self) -> ssl.SSLContext:
        """Make the settings for a connection; a pinned certificate is checked by `verify` after the handshake."""
        context = self._verifying_context()
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, _no_passphrase)
            except (OSError, ValueError) as error:
                raise ConfigError(f"cannot use certificate {self.cert_file} with {self.key_file}: {error}") from error
        return context

    def _verifying_context(self) -> ssl.SSLContext:
        if self.fingerprint is None:
            try:
                return ssl.create_default_context(cafile=self.ca_file)
            except (OSError, ValueError) as error:
                raise ConfigError(f"cannot read certificate authorities from {self.ca_file}: {error}") from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    def verify(self, der: bytes | None) -> bool:
        """Return whether this is the pinned certificate; true where none is pinned (the handshake has checked it)."""
        if self.fingerprint is None:
            return True
        expected = "sha256:" + self.fingerprint.removeprefix("sha256:").lower()
        return der is not None and hmac.compare_digest(fingerprint_of(der), expected)


def watch_certificate_requests(context: ssl.SSLContext, note: Callable[[], None]) -> None:
    """Have `note` called when the far side of a handshake asks for a certificate, where Python shows its messages."""

    def look(_: object, direction: str, version: object, content: int, message: int, data: bytes) -> None:
        if direction == "read" and (content, message) == _CERTIFICATE_REQUEST:
            note()

    if hasattr(context, "_msg_callback"):  # for debugging; nothing but the words of an error depends on it
        context._msg_callback = look


def _no_passphrase() -> str:
    """Stand in for a question on the terminal, where nobody may be."""
    raise ValueError("the key is encrypted; give one without a passphrase")


def fingerprint_of(der: bytes) -> str:
    """``sha256:`` and the hex digest of a DER certificate."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def is_fingerprint(text: str) -> bool:
    """Return whether this can be a certificate's fingerprint."""
    return re.fullmatch("(sha256:)?[0-9a-fA-F]{64}", text) is not None


def _make_certificate(certificate_path: Path, key_path: Path) -> None:
    # Imported here: it takes longer to load than all the rest of axon, and few processes make certificates.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paceline axon worker")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # devices without a clock battery run behind
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_path.unlink(missing_ok=True)
    with open(os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    certificate_path.write_bytes(certificate.public_bytes(pem))
