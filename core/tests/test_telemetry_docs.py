"""Every record of telemetry, and every field of it, is in docs/telemetry.md, and no other."""

import re
from pathlib import Path

import msgspec
import pytest

from mqloom.core.telemetry import KINDS, BatchHeader

TEXT = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_documented_with_its_fields_in_their_order(kind: str) -> None:
    _, found, rest = TEXT.partition(f"\n### {kind}\n")
    assert found, f"docs/telemetry.md has no section {kind!r}"
    section = re.split(r"\n##+ ", rest)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert documented == [field.encode_name for field in msgspec.structs.fields(KINDS[kind])]


def test_no_record_is_documented_that_does_not_exist() -> None:
    assert re.findall(r"\n### (\w+)\n", TEXT) == list(KINDS)


def test_the_header_of_a_batch_is_documented_with_its_fields_in_their_order() -> None:
    (header,) = re.findall(r"`\[\[(version,[^]]+)\]", TEXT)
    assert header.replace("\n", " ").split(", ") == [each.name for each in msgspec.structs.fields(BatchHeader)]
