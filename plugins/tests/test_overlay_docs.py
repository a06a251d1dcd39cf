"""Every setting of the overlay is in docs/soft-links.md, with its default."""

import re
from pathlib import Path

import msgspec

from mqloom.plugins.overlay import OverlaySettings
from mqloom.plugins.overlay.limits import BETTER, GAIN_OPEN

PAGE = Path(__file__).parents[2].joinpath("docs", "soft-links.md").read_text(encoding="utf-8")


def test_every_setting_is_documented_with_its_default() -> None:
    documented = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", PAGE, re.MULTILINE))
    fields = msgspec.structs.fields(OverlaySettings)
    assert documented == {each.name: repr(each.default).replace("'", '"') for each in fields}


def test_the_rule_against_flapping_is_the_one_documented() -> None:
    assert f"{BETTER:g} times its gain and {GAIN_OPEN:g} more" in " ".join(PAGE.split())
