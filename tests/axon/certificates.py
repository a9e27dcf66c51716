"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority that keeps its files in a folder."""

    def __init__(self, folder, name):
        self._folder, self._name = folder, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = self._builder(self._name, self._key, days=30)
        made = made.add_extension(authority, True).add_extension(usage, True)
        self.file = self._write(f"{name}.pem", made.sign(self._key, hashes.SHA256()))

    def issue(self, name, *, days=30, passphrase=None):
        """Sign a certificate for 127.0.0.1; returns its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._builder(subject, key, days=days).add_extension(names, False).add_extension(issuer, False)
        encryption = serialization.NoEncryption()
        if passphrase is not None:
            encryption = serialization.BestAvailableEncryption(passphrase.encode())
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        key_file = self._folder / f"{name}-key.pem"
        key_file.write_bytes(pem)
        return self._write(f"{name}.pem", made.sign(self._key, hashes.SHA256())), str(key_file)

    def _builder(self, subject, key, *, days):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def _write(self, name, certificate):
        path = self._folder / name
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)
