"""Certificates as an operator would have: the test's own authority, and PEM files signed by it."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


class Authority:
    """Signs the certificates of servers. `file` is its own certificate, for clients to trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        # RFC 5280 says what an authority's certificate must contain, and current verifiers check that.
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = self._certificate(self._name, self._key.public_key(), ca=True).add_extension(usage, True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, host: str) -> tuple[Path, Path]:
        """A server's certificate and its key, as files; `host` is a DNS name or an IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        builder = self._certificate(name, key.public_key(), ca=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host)]), False)
        certificate, key_file = self._folder / f"{host}.pem", self._folder / f"{host}.key"
        certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        key_file.chmod(0o600)
        return certificate, key_file

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
