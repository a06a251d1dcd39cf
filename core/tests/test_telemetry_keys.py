import pytest

from mqloom.core.telemetry_keys import collector_curve, peer_curve, z85

SECRET = bytes(range(32))


def test_text_is_as_the_standard_of_z85_has_it() -> None:
    assert z85(bytes.fromhex("864FD26FB559F75B")) == b"HelloWorld"


def test_each_end_knows_the_public_key_of_the_other_and_not_its_secret() -> None:
    collector, peer = collector_curve(SECRET), peer_curve(SECRET)
    assert collector.other == peer.public
    assert peer.other == collector.public
    assert len({*collector, *peer}) == 4


def test_another_secret_has_other_keys() -> None:
    assert collector_curve(SECRET).public != collector_curve(SECRET[::-1]).public


def test_zeromq_finds_the_same_public_key() -> None:
    zmq = pytest.importorskip("zmq")
    curve = peer_curve(SECRET)
    assert zmq.curve_public(curve.secret) == curve.public
