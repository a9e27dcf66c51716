"""Where the result of a duplex call is delivered, as a header of the request."""

from __future__ import annotations

from typing import NamedTuple

from paceline.axon.tls import ClientTrust, is_fingerprint
from paceline.axon.transports.base import Address


class ReplyTo(NamedTuple):
    """Where a worker delivers: a port on the caller's host, the token to show, the certificate to expect."""

    port: int
    token: str
    fingerprint: str = ""

    def header(self) -> str:
        """Return the value of the axon-reply-to header."""
        return f"{self.port} {self.token} {self.fingerprint}".strip()

    @classmethod
    def parse(cls, header: str) -> ReplyTo | None:
        """Read the header; None if the caller will poll. Raises `ValueError`."""
        if header == "poll":
            return None
        port, token, fingerprint = (*header.split(" "), "")[:3]
        is_valid = port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536
        if not is_valid or header.count(" ") not in (1, 2) or (fingerprint and not is_fingerprint(fingerprint)):
            raise ValueError("it is 'poll', or a port, a token and perhaps a certificate's fingerprint")
        return cls(int(port), token, fingerprint)

    def address(self, host: str) -> Address:
        """Return the full address, on the host that the call came from and no other."""
        return Address(host, self.port, ClientTrust(self.fingerprint) if self.fingerprint else None)
