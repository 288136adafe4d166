"""Keys and certificates of a federation: a private CA, the SuperLink's certificate, a key for each node.

They are made with the `cryptography` package, which Flower installs.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def make_certificates(folder: Path, hosts: Sequence[str] = LOOPBACK, *, days: int = 365) -> None:
    """Write `ca.crt`, `server.crt` and `server.key` for a SuperLink with the names and addresses `hosts`.

    The CA's key is not kept, so no further certificate can be signed with it.
    """
    ca_key, server_key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paota federation CA")])
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    now = datetime.now(UTC)

    def certificate(name: x509.Name, key: ec.EllipticCurvePrivateKey, is_ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .add_extension(_usage(is_ca), critical=True)
        )

    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    ca = certificate(ca_name, ca_key, True).sign(ca_key, hashes.SHA384())
    server = (
        certificate(server_name, server_key, False).add_extension(names, critical=False).sign(ca_key, hashes.SHA384())
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "server.crt").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    pem, format_ = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    _write_secret(folder / "server.key", server_key.private_bytes(pem, format_, serialization.NoEncryption()))


def make_node_key(folder: Path, name: str) -> Path:
    """Write the key pair `name` and `name.pub` that identifies a SuperNode. Return the path of the private key."""
    key = ec.generate_private_key(ec.SECP384R1())
    pem, ssh = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    private = folder / name
    _write_secret(private, key.private_bytes(pem, ssh, serialization.NoEncryption()))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private.with_name(f"{name}.pub").write_bytes(public + b"\n")
    return private


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_ca, key_cert_sign=is_ca, crl_sign=is_ca, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from the first moment on. An older file or link is replaced."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
