"""From a publication to what matchers see: choosing codecs by topic, and surviving payloads they cannot read."""

from collections.abc import Callable, Sequence

from mqloom.core.publication import Publication
from mqloom.core.topics import topic_matches
from mqloom.gateway.interfaces import Attributes, Codec, CodecChoice, Content
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.mentions import Mentions

Decoder = tuple[str, Callable[[Publication], Attributes]]
"""A codec's name, and its way to decode at present."""


class Contents:
    """Decodes publications, each by the first choice of codecs whose topic filter matches."""

    def __init__(self, choices: Sequence[CodecChoice], journal: Journal, mentions: Mentions) -> None:
        self._choices = choices
        self._journal = journal
        self._mentions = mentions
        self._names: frozenset[str] | None = None
        self._decoders = self._build()

    def decode(self, publications: Sequence[Publication]) -> list[Content]:
        """Return the contents; without attributes where no codec is meant, or none could read the publication."""
        names = self._mentions.names
        if names is not self._names:
            self._names = names
            self._decoders = self._build()
        return [self._decode(publication) for publication in publications]

    def change(self, choices: Sequence[CodecChoice]) -> None:
        """Let other codecs read from now on."""
        self._choices = choices
        self._decoders = self._build()

    def _build(self) -> list[tuple[str, list[Decoder]]]:
        return [(topics, [self._decoder(codec) for codec in codecs]) for topics, *codecs in self._choices]

    def _decoder(self, codec: Codec) -> Decoder:
        if codec.decode_only is None or self._names is None:
            return codec.name, codec.decode
        try:
            return codec.name, self._journal.guard(codec.name, codec.decode_only, self._names)
        except PluginFailed:
            return codec.name, codec.decode

    def _decode(self, publication: Publication) -> Content:
        for topics, decoders in self._decoders:
            if topic_matches(topics, publication.topic):
                return Content(publication.topic, self._merged(decoders, publication))
        return Content(publication.topic, None)

    def _merged(self, decoders: Sequence[Decoder], publication: Publication) -> dict[str, object] | None:
        """Return what all codecs could read; of one name the first counts. None if no codec could read anything."""
        if len(decoders) == 1:
            return self._attributes(decoders[0], publication)
        merged: dict[str, object] | None = None
        for decoder in decoders:
            attributes = self._attributes(decoder, publication)
            if attributes is not None:
                merged = attributes if merged is None else attributes | merged
        return merged

    def _attributes(self, decoder: Decoder, publication: Publication) -> dict[str, object] | None:
        name, decode = decoder
        try:
            return dict(decode(publication))
        except ValueError as error:
            problem = str(error)
        except Exception as error:  # a plugin's own mistake: its payload counts as undecodable
            problem = f"codec raised {type(error).__name__}: {error}"
            self._journal.refuse("plugin_failures", name, problem)
        self._journal.refuse("payloads_undecodable", name, f"on {publication.topic[:100]!r}: {problem}")
        return None
