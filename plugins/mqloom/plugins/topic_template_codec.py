"""Codec `topic_template`: named levels of the topic become attributes, whatever the payload.

    [plugins.settings.topic_template_codec]
    templates = ["stocks/{symbol}", "plants/{plant}/lines/{line:int}/+"]

A template is a topic filter in which `{name}` or `{name:type}` stands for one level. The first that matches counts; a
level that is not of its type does not match. Without templates the plugin offers nothing.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from mqloom.core.errors import TopicError
from mqloom.core.publication import Publication
from mqloom.core.topics import check_topic_filter
from mqloom.gateway.hookspecs import hookimpl
from mqloom.gateway.interfaces import Attributes, Codec, Settings
from mqloom.gateway.tables import nearest, read_table
from mqloom.plugins.text_values import READINGS, Reading, ValueType

_PLACE: Final = re.compile(r"\{(?P<name>[^{}:]+)(?::(?P<type>[^{}:]*))?\}")


class TopicTemplateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The templates, the first that matches is used."""

    templates: list[str] = field(default_factory=list)


class Template(NamedTuple):
    """A template as a pattern with a group for each named level."""

    pattern: re.Pattern[str]
    places: Sequence[tuple[str, Reading]]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Return the template; raises ValueError with what is wrong with it."""
        levels = text.split("/")
        places: dict[str, Reading] = {}
        pattern = ""
        for number, level in enumerate(levels):
            if place := _PLACE.fullmatch(level):
                name, reading = place["name"], READINGS[_type(place["type"])]
                if name in places:
                    raise ValueError(f"{name!r} stands for two levels: give each its own name")
                places[name] = reading
                levels[number] = "+"
                step = f"({reading.pattern})"
            elif "{" in level or "}" in level:
                raise ValueError(f"write {{name}} or {{name:type}} for a whole level, not {level!r}")
            else:
                step = {"+": "[^/]*+", "#": ".*"}.get(level, re.escape(level))
            # As in a topic filter, a final # stands for no further level too.
            pattern += step if number == 0 else f"(?:/{step})?" if level == "#" else f"/{step}"
        try:
            check_topic_filter("/".join(levels))
        except TopicError as error:
            raise ValueError(error.problem) from None
        if levels[0] in ("+", "#"):  # a wildcard on the first level does not match $SYS and the like
            pattern = rf"(?!\$){pattern}"
        return cls(re.compile(pattern, re.DOTALL), list(places.items()))

    def read(self, topic: str) -> dict[str, object] | None:
        """Return the attributes, or None if the topic does not match."""
        found = self.pattern.fullmatch(topic)
        if found is None:
            return None
        attributes = {
            name: reading.read(text) for (name, reading), text in zip(self.places, found.groups(), strict=True)
        }
        return None if None in attributes.values() else attributes


def _type(text: str | None) -> ValueType:
    if text is None:
        return "text"
    for kind in READINGS:
        if text == kind:
            return kind
    raise ValueError(f"there is no type {text!r}; {nearest(text, READINGS)}")


def _read(settings: Settings) -> tuple[list[Template], list[str]]:
    """Return the templates, and a sentence for each mistake."""
    problems: list[str] = []
    templates: list[Template] = []
    table = read_table(TopicTemplateSettings, settings, "", problems)
    for number, text in enumerate(table.templates if table is not None else (), 1):
        try:
            templates.append(Template.parse(text))
        except ValueError as error:
            problems.append(f"templates#{number}: {text!r}: {error}")
    return templates, problems


@hookimpl
def mqloom_check(settings: Settings) -> Sequence[str]:
    """Explain mistakes in the settings, and in each template."""
    return _read(settings)[1]


@hookimpl
def mqloom_codec(settings: Settings) -> Codec | None:
    """Offer the codec, if there are templates."""
    templates, problems = _read(settings)
    if not templates and not problems:
        return None

    def decode(publication: Publication) -> Attributes:
        """Return the named levels; raises ValueError for a topic that no template matches."""
        for template in templates:
            attributes = template.read(publication.topic)
            if attributes is not None:
                return attributes
        raise ValueError("no template matches the topic")

    return Codec(name="topic_template", decode=decode)
