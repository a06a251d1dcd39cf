"""Server references of MQTT 5: which places they name."""

import pytest

from mqloom.core.errors import OrderError
from mqloom.core.limits import REFERENCE_LENGTH_MAX, REFERENCES_MAX
from mqloom.core.references import Reference, references_in


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("myserver.xyz.org", [("myserver.xyz.org", 1883)]),
        ("myserver.xyz.org:8884", [("myserver.xyz.org", 8884)]),
        ("10.10.151.22:8883 [fe80::9610:3eff:fe1c]:1884", [("10.10.151.22", 8883), ("fe80::9610:3eff:fe1c", 1884)]),
        ("[fe80::1] fe80::2", [("fe80::1", 1883), ("fe80::2", 1883)]),
        ("  one   two: ", [("one", 1883), ("two", 1883)]),
        ("bad:port also:0 worse:70000 [open x] good:1", [("x]", 1883), ("good", 1)]),
    ],
)
def test_the_standards_examples_are_read_and_what_is_no_place_is_left_out(
    text: str, places: list[tuple[str, int]]
) -> None:
    assert references_in(text, tls=False) == places


def test_with_tls_a_place_without_a_port_has_the_port_of_tls() -> None:
    assert references_in("one two:1883", tls=True) == [("one", 8883), ("two", 1883)]


@pytest.mark.parametrize("text", ["", "   ", ":1883", "host:x", "[]:1", "h" * 256, "a" * (REFERENCE_LENGTH_MAX + 1)])
def test_one_that_names_no_place_does_not_count(text: str) -> None:
    with pytest.raises(OrderError) as caught:
        references_in(text, tls=False)
    assert caught.value.reason == "malformed"


def test_of_many_places_the_first_count() -> None:
    text = " ".join(f"h{number}" for number in range(100))
    assert references_in(text, tls=False) == [(f"h{number}", 1883) for number in range(REFERENCES_MAX)]


def test_a_place_is_shown_as_it_is_written() -> None:
    assert str(Reference("host", 1)) == "host:1"
    assert str(Reference("fe80::1", 1)) == "[fe80::1]:1"
