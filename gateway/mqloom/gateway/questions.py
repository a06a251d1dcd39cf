"""Where would this publication go? Decoded and matched as if it were published here, but it goes nowhere."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import RecordError, TopicError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX, WAYS_MAX
from mqloom.core.publication import Publication
from mqloom.core.records import RouteAnswer, Way, decode_question, encode_route
from mqloom.core.topics import check_topic, topic_matches
from mqloom.gateway.guarded import GuardedOverlay
from mqloom.gateway.interfaces import Explanation
from mqloom.gateway.journal import Journal, PluginFailed
from mqloom.gateway.routes import Routes
from mqloom.gateway.traffic import Traffic

UNDECODED_LENGTH_MAX: Final = 500
"""Characters of what a codec says of a payload; more are cut off."""


class Answering(NamedTuple):
    """What an answer is worked out with."""

    gateway: GatewayId
    neighbours: Sequence[GatewayId]
    data: Sequence[str]
    traffic: Traffic
    routes: Routes
    overlay: GuardedOverlay
    journal: Journal

    def reply(self, client: ClientId, data: bytes) -> list[PublishLocally]:
        """Return the answer to a client's question, as it is published for it; by too long a name it gets none."""
        if len(client) > ID_LENGTH_MAX:
            self.journal.refuse("questions_refused", "client", f"by a name of over {ID_LENGTH_MAX} characters")
            return []
        topic = layout.control(self.gateway, client)
        return [PublishLocally(topic=topic, payload=encode_route(self.answer(data)), qos=1)]

    def answer(self, data: bytes) -> RouteAnswer:
        """Return the answer to a question; one that cannot be answered is counted."""
        number = 0
        try:
            question = decode_question(data)
            number = question.number
            check_topic(question.topic)
            if not any(topic_matches(topics, question.topic) for topics in self.data):
                allowed = ", ".join(self.data)
                raise TopicError(f"it would stay on its broker: only {allowed} take part", question.topic)
            publication = Publication(self.gateway, 0, 0, 0, 0, question.topic, question.payload, 1)
            return self._route(publication, number)
        except RecordError as error:
            return self._refuse("malformed", error.problem, number)
        except TopicError as error:
            return self._refuse("topic", str(error), number)
        except PluginFailed:
            problem = "the matcher failed on it: it would be put on the gateway's dead topic; see the gateway's log"
            return self._refuse("matcher", problem, number)

    def _refuse(self, reason: str, problem: str, number: int) -> RouteAnswer:
        self.journal.refuse("questions_refused", reason, problem)
        return RouteAnswer(answer="refused", number=number, problem=problem)

    def _route(self, publication: Publication, number: int) -> RouteAnswer:
        with self.journal.setting_aside("payloads_undecodable") as undecoded:  # it is nobody's publication
            keys = self.traffic.wanted_by(publication)
        wanted = Counter(self.routes.anchor_of(key) for key in keys)
        here = wanted.pop(None, 0)
        anchors = {anchor: count for anchor, count in sorted(wanted.items(), key=str) if anchor is not None}
        unheard = self.traffic.unheard
        targets = sorted({*anchors, *unheard})
        reasons = self._reasons(targets)
        if reasons is None:
            sides = {side for key in keys if (side := self.routes.source_of(key)) is not None}
            hops = self.overlay.route(targets, None, lambda: sides.union(unheard)) if targets else ()
            reasons = RouteAnswer(answer="route", ways=tuple(self._way(hop, ()) for hop in list(hops)[:WAYS_MAX]))
        return replace(
            reasons,
            number=number,
            here=here,
            anchors=dict(list(anchors.items())[:WAYS_MAX]),
            unheard=tuple(unheard[:WAYS_MAX]),
            left_out=max(0, len(anchors) - WAYS_MAX),
            undecoded=tuple(problem[:UNDECODED_LENGTH_MAX] for problem in undecoded),
        )

    def _reasons(self, targets: Sequence[GatewayId]) -> RouteAnswer | None:
        """Return what the overlay says of ways and reasons; None if it says nothing, or nothing that can be told."""
        explanation = self.overlay.explain(targets)
        if explanation is None:
            return None
        try:
            return self.journal.guard("overlay", self._told, explanation)
        except PluginFailed:
            return None

    def _told(self, explanation: Explanation) -> RouteAnswer:
        """Raises whatever is wrong with what a plugin gave."""
        said = RouteAnswer(
            answer="route",
            strategy=explanation.strategy,
            ways=tuple(self._way(hop, serves) for hop, serves in list(explanation.copies.items())[:WAYS_MAX]),
            bypassed=tuple(explanation.bypassed[:WAYS_MAX]),
        )
        return msgspec.convert(msgspec.to_builtins(said), RouteAnswer)

    def _way(self, hop: GatewayId, serves: Sequence[GatewayId]) -> Way:
        kind = "primary" if hop in self.neighbours else "soft"
        return Way(gateway=hop, kind=kind, serves=tuple(serves[:WAYS_MAX]))  # type: ignore[arg-type] # one of the two
