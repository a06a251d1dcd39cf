"""From a publication to what matchers see: choosing the codec by topic, and surviving payloads it cannot read."""

from collections.abc import Sequence

from mqloom.core.publication import Publication
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Codec, Content
from mqloom.gateway.journal import Journal


class Contents:
    """Decodes publications, each by the first codec whose topic filter matches."""

    def __init__(self, codecs: Sequence[tuple[str, Codec]], journal: Journal) -> None:
        self._codecs = codecs
        self._journal = journal

    def decode(self, publications: Sequence[Publication]) -> list[Content]:
        """Return the contents; without attributes where no codec is meant, or it could not read the payload."""
        return [self._decode(publication) for publication in publications]

    def _decode(self, publication: Publication) -> Content:
        for topics, codec in self._codecs:
            if topic_matches(topics, publication.topic):
                return Content(publication.topic, self._attributes(codec, publication))
        return Content(publication.topic, None)

    def _attributes(self, codec: Codec, publication: Publication) -> dict[str, object] | None:
        try:
            return dict(codec.decode(publication))
        except ValueError as error:
            self._journal.refuse("payloads_undecodable", codec.name, f"on {publication.topic[:100]!r}: {error}")
        except Exception as error:  # a plugin's own mistake: its payload counts as undecodable
            self._journal.refuse("plugin_failures", codec.name, f"codec raised {type(error).__name__}: {error}")
            self._journal.counters.add("payloads_undecodable", codec.name)
        return None
