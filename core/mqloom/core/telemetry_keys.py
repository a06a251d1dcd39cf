"""Keys for telemetry: CURVE, as ZeroMQ has it, made from one secret of the federation's key file.

The collector has one pair of keys and everybody else the other: gateways that send, and readers. Each end knows the
other's public key, so whoever does not have the file neither sends nor reads, nor can pass for the collector.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_COLLECTOR: Final = b"mqloom-collector"
_PEER: Final = b"mqloom-peer"


class Curve(NamedTuple):
    """One end's keys, and the public key of the other end, in the text form of ZeroMQ (Z85)."""

    public: bytes
    secret: bytes
    other: bytes


def collector_curve(secret: bytes) -> Curve:
    """Return the keys of the collector's end."""
    return Curve(*_pair(secret, _COLLECTOR), _pair(secret, _PEER)[0])


def peer_curve(secret: bytes) -> Curve:
    """Return the keys of everybody else's end."""
    return Curve(*_pair(secret, _PEER), _pair(secret, _COLLECTOR)[0])


def _pair(secret: bytes, role: bytes) -> tuple[bytes, bytes]:
    own = blake2b(secret, digest_size=32, person=role).digest()
    return z85(X25519PrivateKey.from_private_bytes(own).public_key().public_bytes_raw()), z85(own)


def z85(data: bytes) -> bytes:
    """Return bytes, a multiple of four, as text: five digits of base 85 for each four."""
    assert len(data) % 4 == 0
    digits = []
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        digits += [_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits).encode()
