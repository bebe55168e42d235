"""A certificate authority of the tests, and what it issues."""

import ssl
from pathlib import Path

import trustme

from services import Certificate


class Authority:
    """Issues certificates; whoever trusts its file trusts them."""

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self.path = directory / "authority.pem"
        """Its own certificate, in a file."""
        self._authority.cert_pem.write_to_path(self.path)

    def issue(self, name: str) -> Certificate:
        """A certificate for a server of this name."""
        issued = self._authority.issue_cert(name)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        return Certificate(chain, issued.private_key_pem.bytes())

    @property
    def trusting(self) -> ssl.SSLContext:
        """What a client knows that trusts it."""
        return ssl.create_default_context(cafile=self.path)
