"""The gateway's side of moving clients: operators ask, clients are ordered, and what becomes of it is told.

Theory of operation. A client drives its own move; its record here says how far it is, and outlives everybody's crash. A
gateway only gives the order, signed, and afterwards watches:

    the operator asks       migrate, drain or return: a job, of clients that are here and can be moved
    an order                to each in turn, within the job's bounds (`journeys`); it names the life of the client, so
                            that one that has been started again since does not obey it
    the client's record     moving_to, then leaving_to, then moved_to: what the gateway believes
    the client's answer     moving, arrived, moved, stayed with the problem: what the gateway shows
    neither, for too long   it counts as silent; if it obeys after all it moves all the same

After a crash of the gateway jobs are gone, and orders that were given hold: whoever asked asks again. A drain is kept
as a mark on our broker, and goes on. A client can be moved if its record has an `incarnation`: then it reads orders.
Without one it is served here and immovable, which whoever asks is told, with the reason as far as its record shows it.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

from mqloom.core import layout
from mqloom.core.effects import PublishLocally
from mqloom.core.errors import OrderError, RecordError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.limits import (
    CLIENTS_MAX,
    ID_LENGTH_MAX,
    MIGRATION_JOBS_MAX,
    MIGRATION_PROBLEMS_MAX,
    ORDER_S_MAX,
    PROBLEM_MAX,
)
from mqloom.core.migration_records import (
    Bounds,
    DrainMark,
    MigrationAnswer,
    MigrationRequest,
    decode_mark,
    decode_migration,
    encode_mark,
    encode_migration_answer,
)
from mqloom.core.orders import MoveOrder, decode_order_answer, sign_order
from mqloom.core.records import Record
from mqloom.core.wording import counted
from mqloom.gateway.journal import Journal
from mqloom.gateway.journeys import Job, Journey, JourneyStep, Outcome
from mqloom.gateway.pace import Pace
from mqloom.gateway.rosters import OrderParts
from mqloom.gateway.subscribers import Subscribers

ORDERS_BATCH: Final = 50
"""Orders of one job that are signed in one go, at some 50 microseconds each; more wait for the next waking."""

ENDED_MAX: Final = 4_096
"""Orders that are over as far as they are remembered; what clients say of earlier ones is counted as stale."""

SILENT: Final = (
    "it does not answer: is it running, and has it this federation's public key (`mqloom keys public`)? Its log names "
    "orders that it refuses"
)
RESTARTED: Final = "it was started again before it could obey: order it once more"
MOVING: Final = "it is being moved already: wait until that is over, and order it once more if need be"
NO_TARGET: Final = "no target is in the configuration of its gateway any more: name another with --to"
NO_KEY: Final = "the federation has no order key: see `mqloom keys order`, and start the gateways again"


class Traveller(NamedTuple):
    """A client that can be moved, as its record says."""

    incarnation: str
    is_moving: bool
    """Whether it may have a session elsewhere: it is going there, or comes from there."""


class Migrations:
    """The moves of one gateway's clients."""

    def __init__(
        self,
        gateway: GatewayId,
        epoch: int,
        parts: OrderParts | None,
        subscribers: Subscribers,
        journal: Journal,
        pace: Pace | None = None,
    ) -> None:
        self._gateway = gateway
        self._name = f"{blake2b(gateway.encode(), digest_size=4).hexdigest()}.{epoch:x}"
        self._parts = parts
        self._subscribers = subscribers
        self._journal = journal
        self._pace = pace
        self._number = 0
        self._is_read = False
        self._travellers: dict[ClientId, Traveller] = {}
        self._came_from: dict[ClientId, frozenset[GatewayId]] = {}  # all brokers where each was before
        self._jobs: list[Job] = []
        self._drain: Job | None = None
        self._sessions: dict[str, tuple[Job, Journey]] = {}
        self._ended: dict[str, ClientId] = {}
        self._effects: list[PublishLocally] = []

    def change(self, parts: OrderParts | None) -> None:
        """Order with other keys, to other brokers, from now on."""
        self._parts = parts

    # ---- what operators ask --------------------------------------------------------------------------------------

    def asked(self, operator: ClientId, data: bytes, now: float) -> None:
        """An operator asks for something: do it, or say why not."""
        if len(operator) > ID_LENGTH_MAX:
            self._journal.refuse("migrations_refused", "client", f"by a name of over {ID_LENGTH_MAX} characters")
            return
        try:
            request = decode_migration(data)
        except RecordError as error:
            self._refuse(operator, 0, "malformed", error.problem, now)
            return
        problem = self._problem(request)
        if problem:
            self._refuse(operator, request.number, "request", problem, now)
            return
        match request.action:
            case "migrate":
                self._migrate(operator, request, self._known(request.clients))
            case "return":
                source = request.to[0]
                here = [client for client in self._travellers if source in self._came_from.get(client, ())]
                self._migrate(operator, request, here)
            case "drain":
                self._begin_drain(operator, request)
            case "undrain":
                self._end_drain(operator, request)

    def _problem(self, request: MigrationRequest) -> str:
        if request.action == "undrain":
            return ""  # it can always be: a mark that we do not obey is removed, too
        if self._parts is None:
            return NO_KEY
        unknown = sorted(set(request.to) - set(self._parts.brokers))
        if unknown:
            return f"{unknown[0]!r} is not in the configuration of {self._gateway}"
        if not request.to:
            return "there is nowhere to go: no target was named"
        if request.to == (self._gateway,) and request.action != "migrate":
            return f"{self._gateway} cannot send its clients to itself"
        goes_on = request.action == "drain" and self._drain is not None
        if not goes_on and len(self._jobs) >= MIGRATION_JOBS_MAX:
            return f"{MIGRATION_JOBS_MAX} requests are under way here: try again when one is done"
        return ""

    def _known(self, clients: Sequence[ClientId]) -> list[ClientId]:
        return [client for client in dict.fromkeys(clients) if client in self._travellers]

    def _migrate(self, operator: ClientId, request: MigrationRequest, clients: Sequence[ClientId]) -> None:
        job = Job(request.to, request.bounds)
        others = [client for client in dict.fromkeys(request.clients) if client not in self._travellers]
        reasons = {client: self._subscribers.immovable(client) for client in others}
        job.immovable = {str(client): reason for client, reason in reasons.items() if reason is not None}
        job.unknown = tuple(client for client in others if reasons[client] is None)
        job.add(list(clients))
        job.watch(operator, request.number)
        self._jobs.append(job)
        if clients:
            text = f"moving {counted(len(clients), 'client')} to {', '.join(request.to)}: {operator} asks"
            self._journal.tell("info", text)

    def order(self, clients: Sequence[ClientId], to: GatewayId, deadline_s: float, agent: str) -> Job | str:
        """Begin to move clients for an agent; returns the job, which tells what has become of each, or a problem."""
        request = MigrationRequest(number=0, action="migrate", to=(to,))
        problem = self._problem(request)
        if not problem and to == self._gateway:
            problem = f"they are at {to} already"
        if problem:
            self._journal.refuse("migrations_refused", "agent", f"asked by agent {agent}: {problem}")
            return problem
        here = self._known(clients)
        gone = dict.fromkeys(client for client in clients if client not in self._travellers)
        job = Job((to,), Bounds(deadline_s=min(deadline_s, ORDER_S_MAX)))
        job.outcome = Outcome(stayed=dict.fromkeys(gone, "it is not here any more, or cannot be moved"))
        job.add(here)
        self._jobs.append(job)
        self._journal.tell("info", f"moving {counted(len(here), 'client')} to {to}: agent {agent} asks")
        return job

    def movable(self) -> list[ClientId]:
        """Return the clients that can be moved, and are not about to be."""
        if self._parts is None:
            return []
        return [
            client
            for client, each in self._travellers.items()
            if not each.is_moving and not any(job.has(client) for job in self._jobs)
        ]

    def _begin_drain(self, operator: ClientId, request: MigrationRequest) -> None:
        self._keep_mark(encode_mark(DrainMark(to=request.to, bounds=request.bounds)))
        self._drain_to(DrainMark(to=request.to, bounds=request.bounds)).watch(operator, request.number)

    def _drain_to(self, mark: DrainMark) -> Job:
        if self._drain is None:
            self._drain = Job(mark.to, mark.bounds, is_standing=True)
            self._jobs.append(self._drain)
        else:
            self._drain.again(mark.to, mark.bounds)
        self._drain.add([client for client, each in self._travellers.items() if not each.is_moving])
        size = counted(self._drain.size, "client")
        text = f"{self._gateway} is drained: {size}, and whoever comes, to {', '.join(mark.to)}"
        self._journal.tell("info", text)
        return self._drain

    def _end_drain(self, operator: ClientId, request: MigrationRequest) -> None:
        self._keep_mark(b"")  # whatever is there: as long as it is, nobody may be sent to us
        if self._drain is None:
            self._say(operator, self._progress(Job((), request.bounds), request.number, "done"))
            self._journal.tell("info", f"{self._gateway} is not drained, nor has a mark that says so: {operator} asks")
            return
        self._drain.close()
        self._drain.watch(operator, request.number)
        self._drain = None
        self._journal.tell("info", f"{self._gateway} is no longer drained: clients may stay")

    def _keep_mark(self, mark: bytes) -> None:
        self._effects.append(PublishLocally(topic=layout.drain(self._gateway), payload=mark, qos=1, retain=True))

    def marked(self, data: bytes) -> None:
        """This is what an earlier run of ours has kept: a drain that goes on, or nothing."""
        if not data or self._parts is None or self._is_read:
            return
        try:
            self._drain_to(decode_mark(data))
        except RecordError as error:
            self._journal.refuse("migrations_refused", "mark", f"on {layout.drain(self._gateway)}: {error.problem}")

    def start(self) -> None:
        """All that an earlier run of ours has kept was read; from now on we see there only what we write ourselves."""
        self._is_read = True

    # ---- what clients do -----------------------------------------------------------------------------------------

    def noted(self, client: ClientId, record: Record | None, now: float) -> None:
        """A client has written this record, which counts; None: it has none any more."""
        if record is None or record.moved_to or not (record.incarnation and record.subscriptions):
            self._travellers.pop(client, None)
            self._came_from.pop(client, None)
            self._gone(client, record, now)
            return
        if client not in self._travellers and len(self._travellers) >= CLIENTS_MAX:
            return
        before = self._travellers.get(client)
        is_moving = bool(record.moving_to or record.leaving_to or record.moved_from)
        self._travellers[client] = Traveller(record.incarnation, is_moving)
        places = frozenset(GatewayId(each) for each in (*record.visited, record.moved_from) if each)
        if places:
            self._came_from[client] = places
        under_way = self._journey_of(client)
        if under_way is not None:
            job, journey = under_way
            if record.leaving_to:
                self._reached(job, journey, JourneyStep.ARRIVED)
            elif before is not None and before.incarnation != record.incarnation:
                # With `moving_to` it says that an earlier life may have a session there, and that it ends that one.
                self._end(job, client, RESTARTED, "restarted", now)
            elif record.moving_to:
                self._reached(job, journey, JourneyStep.MOVING)
        elif self._drain is not None and not is_moving:
            self._drain.add_newcomer(client)

    def _gone(self, client: ClientId, record: Record | None, now: float) -> None:
        for job in self._jobs:
            for queue in (job.waiting, job.newcomers, job.resting):
                if client in queue:
                    del queue[client]
                    job.news()
        under_way = self._journey_of(client)
        has_moved = record is not None and bool(record.moved_to)
        if has_moved and self._drain is not None and client in self._drain.problems:
            self._drain.end(client, "", now)  # after all
        if under_way is not None:
            self._end(under_way[0], client, "" if has_moved else "it is gone: its record was deleted", "gone", now)

    def answered(self, client: ClientId, data: bytes, now: float) -> None:
        """A client has said how far it is with an order."""
        try:
            answer = decode_order_answer(data)
        except OrderError as error:
            self._journal.refuse("migrations_refused", "answer", f"of {client[:100]!r}: {error.problem}")
            return
        if self._ended.get(answer.session) == client:
            return  # its record had said so before
        job, journey = self._sessions.get(answer.session, (None, None))
        if job is None or journey is None or journey.client != client:
            text = f"of {client[:100]!r}, about {answer.session[:100]!r}, of which we know nothing (any more)"
            self._journal.refuse("migrations_refused", "stale", text)
            return
        match answer.answer:
            case "moving":
                self._reached(job, journey, JourneyStep.MOVING)
            case "arrived":
                self._reached(job, journey, JourneyStep.ARRIVED)
            case "moved":
                self._end(job, client, "", "", now)
            case "stayed":
                self._end(job, client, answer.problem[:PROBLEM_MAX] or "it does not say why", "stayed", now)

    def _journey_of(self, client: ClientId) -> tuple[Job, Journey] | None:
        for job in self._jobs:
            if client in job.under_way:
                return job, job.under_way[client]
        return None

    def _reached(self, job: Job, journey: Journey, step: JourneyStep) -> None:
        if journey.reach(step):
            job.news()

    def _end(self, job: Job, client: ClientId, problem: str, reason: str, now: float) -> None:
        journey = job.under_way.get(client)
        if journey is not None:
            self._sessions.pop(journey.session, None)
            self._ended[journey.session] = client
            if len(self._ended) > ENDED_MAX:
                del self._ended[next(iter(self._ended))]
        is_tried_again = False
        if problem and reason == "gone" and job.is_standing:
            job.leave_out(client)
        else:
            is_tried_again = job.end(client, problem, now)
        if problem:
            text = f"client {client[:100]!r} stays: {problem}" + (" (it is tried again)" if is_tried_again else "")
            self._journal.refuse("migrations_stayed", reason, text)
        else:
            self._journal.counters.add("migrations_made")

    # ---- time ----------------------------------------------------------------------------------------------------

    def tend(self, now: float) -> None:
        """Order whoever is next, give up on who says nothing, and tell operators how far it is."""
        for job in list(self._jobs):
            for late in job.late(now):
                self._end(job, late, SILENT, "silent", now)
            for _ in range(ORDERS_BATCH):
                client = job.next_client(now)
                if client is None:
                    break
                self._order(job, client, now)
            if job.is_word_due(now):
                self._tell(job)
            if job.is_at_rest and not job.watchers and job is not self._drain:
                self._jobs.remove(job)

    def _order(self, job: Job, client: ClientId, now: float) -> None:
        parts, traveller = self._parts, self._travellers.get(client)
        if parts is None or traveller is None:
            self._end(job, client, NO_KEY if parts is None else "it is gone", "gone", now)
            return
        if self._journey_of(client) is not None and job.is_standing:
            job.rest(client, now)  # it is on its way for somebody else, and may stay here all the same
            return
        if self._journey_of(client) is not None or traveller.is_moving:
            self._end(job, client, MOVING, "moving", now)
            return
        target = job.next_target(frozenset(parts.brokers) - {self._gateway})
        if target is None:
            is_here = self._gateway in job.targets
            problem = f"it is at {self._gateway} already" if is_here else NO_TARGET
            self._end(job, client, problem, "target", now)
            return
        self._number += 1
        session = f"{self._name}.{self._number:x}"
        issued_at = parts.wall_at(now)
        order = MoveOrder(
            federation=parts.federation,
            client=client,
            incarnation=traveller.incarnation,
            session=session,
            source=self._gateway,
            to=target,
            number=max(job.size, 1),
            issued_at=issued_at,
            expires_at=issued_at + job.bounds.deadline_s,
        )
        job.depart(client, target, session, now)
        self._sessions[session] = (job, job.under_way[client])
        self._journal.counters.add("migrations_ordered")
        payload = sign_order(order, parts.keys.signing)
        self._effects.append(PublishLocally(topic=layout.control(self._gateway, client), payload=payload, qos=1))

    def _tell(self, job: Job) -> None:
        is_done = job.is_at_rest
        for operator, number in job.watchers.items():
            self._say(operator, self._progress(job, number, "done" if is_done else "migrating"))
        if is_done:
            job.watchers.clear()
            if job.size:
                left = f"{len(self._travellers):,} that can be moved are here"
                self._journal.tell("info", f"{counted(job.moved, 'client')} moved, {job.stayed:,} stayed, {left}")

    def _progress(self, job: Job, number: int, word: Literal["migrating", "done"]) -> MigrationAnswer:
        fixed_by = Counter[str]()
        immovable = dict(job.immovable)
        if word == "done":  # that takes a while where there are many
            for client, reason in self._subscribers.all_immovable():
                fixed_by[reason] += 1
                if job is self._drain and fixed_by[reason] <= MIGRATION_PROBLEMS_MAX:
                    immovable[client] = reason
        return MigrationAnswer(
            answer=word,
            number=number,
            waiting=job.queued,
            under_way=len(job.under_way),
            moved=job.moved,
            stayed=job.stayed,
            left=len(self._travellers),
            fixed=fixed_by.total(),
            fixed_by=dict(fixed_by),
            problems={str(client): problem for client, problem in job.problems.items()},
            unknown=job.unknown,
            immovable=immovable,
        )

    def _refuse(self, operator: ClientId, number: int, reason: str, problem: str, now: float) -> None:
        """Refuse a request, at the pace of all refusals: past that it is counted only."""
        self._journal.refuse("migrations_refused", reason, f"asked by {operator[:100]!r}: {problem}")
        if self._pace is None or self._pace.answer(now):
            self._say(operator, MigrationAnswer(answer="refused", number=number, problem=problem), qos=0)

    def _say(self, operator: ClientId, answer: MigrationAnswer, qos: int = 1) -> None:
        topic = layout.control(self._gateway, operator)
        self._effects.append(PublishLocally(topic=topic, payload=encode_migration_answer(answer), qos=qos))

    def drain(self) -> list[PublishLocally]:
        """Return what is to be published on our broker."""
        effects, self._effects = self._effects, []
        return effects

    # ---- looking in ----------------------------------------------------------------------------------------------

    @property
    def is_draining(self) -> bool:
        """Whether all clients are sent away."""
        return self._drain is not None

    @property
    def under_way(self) -> int:
        """How many clients are on their way."""
        return len(self._sessions)

    @property
    def deadline(self) -> float | None:
        """When `tend` must be called."""
        times = (job.deadline for job in self._jobs)
        return min((at for at in times if at is not None), default=None)

    def check(self) -> None:
        """State the invariants: every order that is open belongs to one client of one job."""
        for job in self._jobs:
            job.check()
        journeys = [journey for job in self._jobs for journey in job.under_way.values()]
        assert sorted(journey.session for journey in journeys) == sorted(self._sessions)
        assert len({journey.client for journey in journeys}) == len(journeys)
        assert self._drain is None or self._drain in self._jobs
        assert len(self._jobs) <= MIGRATION_JOBS_MAX + 1
