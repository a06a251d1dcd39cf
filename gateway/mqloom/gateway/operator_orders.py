"""What operators order: to move a primary link, to move clients, and to read the configuration again.

The last is not ours to do: whoever runs us reads the file, lets it hold, and says what became of it. At most
RELOADS_MAX operators are told that at a time; more are refused.
"""

from mqloom.core import layout
from mqloom.core.effects import Effect, PublishLocally, ReadConfiguration
from mqloom.core.errors import RecordError
from mqloom.core.events import ConfigurationRead, Ordered
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import ID_LENGTH_MAX, RELOADS_MAX
from mqloom.core.migration_records import is_migration
from mqloom.core.reload_records import ReloadAnswer, decode_reload, encode_reload_answer, is_reload
from mqloom.gateway.journal import Journal
from mqloom.gateway.migrations import Migrations
from mqloom.gateway.moves import Moves
from mqloom.gateway.pace import Pace


class OperatorOrders:
    """The orders to one gateway."""

    def __init__(
        self, gateway: GatewayId, migrations: Migrations, moves: Moves, journal: Journal, pace: Pace | None
    ) -> None:
        self._gateway = gateway
        self._migrations = migrations
        self._moves = moves
        self._journal = journal
        self._pace = pace
        self._waiting: dict[ClientId, int] = {}
        self._effects: list[Effect] = []

    def take(self, event: Ordered | ConfigurationRead, now: float) -> None:
        """Do what an operator orders, or say why not; or what became of it."""
        if isinstance(event, ConfigurationRead):
            self._tell(event)
        elif is_reload(event.data):
            self._reload(event.client, event.data, now)
        elif is_migration(event.data):
            self._migrations.asked(event.client, event.data, now)
        else:
            self._moves.ordered(event.client, event.data, now)

    def _reload(self, operator: ClientId, data: bytes, now: float) -> None:
        if len(operator) > ID_LENGTH_MAX:
            self._journal.refuse("reloads_refused", "client", f"by a name of over {ID_LENGTH_MAX} characters")
            return
        try:
            request = decode_reload(data)
        except RecordError as error:
            self._refuse(operator, 0, "malformed", error.problem, now)
            return
        if operator not in self._waiting and len(self._waiting) >= RELOADS_MAX:
            self._refuse(operator, request.number, "many", f"{RELOADS_MAX} wait for that already: try again", now)
            return
        self._waiting[operator] = request.number
        self._effects.append(ReadConfiguration(operator=operator))

    def _tell(self, event: ConfigurationRead) -> None:
        number = self._waiting.pop(event.operator, None)
        if number is None:
            return
        answer = ReloadAnswer(
            answer="refused" if event.problem else "reloaded",
            number=number,
            problem=event.problem,
            changed=event.changed,
            waiting=event.waiting,
        )
        if event.problem:
            self._journal.counters.add("reloads_refused", "configuration")
        self._say(event.operator, answer, qos=1)

    def drain(self) -> list[Effect]:
        """Return what is to be done."""
        effects, self._effects = self._effects, []
        return effects

    def _refuse(self, operator: ClientId, number: int, reason: str, problem: str, now: float) -> None:
        """Refuse, at the pace of all refusals: past that it is counted only."""
        self._journal.refuse("reloads_refused", reason, f"ordered by {operator[:100]!r}: {problem}")
        if self._pace is None or self._pace.answer(now):
            self._say(operator, ReloadAnswer(answer="refused", number=number, problem=problem), qos=0)

    def _say(self, operator: ClientId, answer: ReloadAnswer, qos: int) -> None:
        topic = layout.control(self._gateway, operator)
        self._effects.append(PublishLocally(topic=topic, payload=encode_reload_answer(answer), qos=qos))
