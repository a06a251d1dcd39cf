"""Where things are on a broker: every topic that MQLoom itself uses, built and read here and nowhere else."""

from typing import Final, NamedTuple

from mqloom.core.errors import TopicError
from mqloom.core.ids import ClientId, GatewayId
from mqloom.core.topics import decode_id, encode_id

RESERVED: Final = "mqloom"
"""The first level of all our topics; data topics must not touch it."""

ROOT: Final = f"{RESERVED}/v1"


class LinkTopic(NamedTuple):
    """What the topic of a frame says: who sent it, and whether it is urgent."""

    sender: GatewayId
    urgent: bool


def level(gateway: GatewayId) -> str:
    """Return a gateway's id as a level of a topic: below it is what is this gateway's."""
    return encode_id(gateway)


def records(gateway: GatewayId) -> str:
    """Return the topic filter by which a gateway reads its clients' subscription records."""
    return f"{_of(gateway)}/sub/+"


def record(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic of one client's subscription record (retained)."""
    return f"{_of(gateway)}/sub/{encode_id(client)}"


def record_client(gateway: GatewayId, topic: str) -> ClientId:
    """Return whose record this topic holds; raises TopicError."""
    return ClientId(decode_id(_below(f"{_of(gateway)}/sub/", topic)))


def out(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic on which a client receives envelopes; plain payloads come below it, under their own topic."""
    return f"{_of(gateway)}/out/{encode_id(client)}"


def is_out(client: ClientId, topic: str) -> bool:
    """Whether on this topic a client receives envelopes, of whatever gateway."""
    prefix, _, name = topic.rpartition("/")
    root, _, gateway = prefix.removesuffix("/out").rpartition("/")
    return prefix.endswith("/out") and root == ROOT and bool(gateway) and name == encode_id(client)


def for_clients(gateway: GatewayId) -> tuple[str, str]:
    """Return what the topics begin with on which a gateway's own clients receive something from it."""
    return f"{_of(gateway)}/out/", f"{_of(gateway)}/ctl/"


def control(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic on which a gateway answers a client."""
    return f"{_of(gateway)}/ctl/{encode_id(client)}"


def questions(gateway: GatewayId) -> str:
    """Return the topic filter by which a gateway reads questions about its routes."""
    return f"{_of(gateway)}/ask/+"


def question(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic on which a client asks a gateway about its routes; the answer comes by `control`."""
    return f"{_of(gateway)}/ask/{encode_id(client)}"


def question_client(gateway: GatewayId, topic: str) -> ClientId:
    """Return who asks on this topic; raises TopicError."""
    return ClientId(decode_id(_below(f"{_of(gateway)}/ask/", topic)))


def orders(gateway: GatewayId) -> str:
    """Return the topic filter by which a gateway reads orders to move."""
    return f"{_of(gateway)}/order/+"


def order(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic on which an operator orders a gateway to move; the answers come by `control`."""
    return f"{_of(gateway)}/order/{encode_id(client)}"


def order_client(gateway: GatewayId, topic: str) -> ClientId:
    """Return who gives an order on this topic; raises TopicError."""
    return ClientId(decode_id(_below(f"{_of(gateway)}/order/", topic)))


def client_answers(gateway: GatewayId) -> str:
    """Return the topic filter by which a gateway reads how far its clients have come with orders to move."""
    return f"{_of(gateway)}/answer/+"


def client_answer(gateway: GatewayId, client: ClientId) -> str:
    """Return the topic on which a client answers an order that came by `control`."""
    return f"{_of(gateway)}/answer/{encode_id(client)}"


def answering_client(gateway: GatewayId, topic: str) -> ClientId:
    """Return who answers on this topic; raises TopicError."""
    return ClientId(decode_id(_below(f"{_of(gateway)}/answer/", topic)))


def link(receiver: GatewayId, sender: GatewayId, *, urgent: bool = False) -> str:
    """Return the topic, on the receiver's broker, to which a neighbour writes its frames."""
    return f"{_of(receiver)}/link/{encode_id(sender)}" + ("/urgent" if urgent else "")


def links(receiver: GatewayId) -> tuple[str, str]:
    """Return the topic filters by which a gateway reads its neighbours' frames, ordinary and urgent."""
    return f"{_of(receiver)}/link/+", f"{_of(receiver)}/link/+/urgent"


def link_sender(receiver: GatewayId, topic: str) -> LinkTopic:
    """Return who wrote to this link topic; raises TopicError."""
    sender, urgent, rest = _below(f"{_of(receiver)}/link/", topic).partition("/urgent")
    if rest:
        raise TopicError("not the topic of a link", topic)
    return LinkTopic(GatewayId(decode_id(sender)), bool(urgent))


def ack(receiver: GatewayId, sender: GatewayId) -> str:
    """Return the topic, on the receiver's broker, on which it acknowledges a neighbour's frames."""
    return f"{_of(receiver)}/link/{encode_id(sender)}/ack"


def park(gateway: GatewayId, neighbour: GatewayId) -> str:
    """Return the topic on which a gateway keeps, for itself, what waits for a link that is down."""
    return f"{_of(gateway)}/park/{encode_id(neighbour)}"


def parks(gateway: GatewayId) -> str:
    """Return what the topics of all parks of a gateway begin with."""
    return f"{_of(gateway)}/park/"


def fence(gateway: GatewayId) -> str:
    """Return the topic of the messages by which a gateway learns that its acknowledgements have arrived."""
    return f"{_of(gateway)}/fence"


def status(gateway: GatewayId) -> str:
    """Return the topic of a gateway's status (retained, and its last will)."""
    return f"{_of(gateway)}/status"


def portrait(gateway: GatewayId) -> str:
    """Return the topic of the portrait of a gateway's links (retained)."""
    return f"{_of(gateway)}/overlay"


def report(gateway: GatewayId) -> str:
    """Return the topic of a gateway's report for operators (retained)."""
    return f"{_of(gateway)}/report"


def place(gateway: GatewayId) -> str:
    """Return the topic on which a gateway keeps, for itself, who its neighbours are after a move (retained)."""
    return f"{_of(gateway)}/place"


def intake(gateway: GatewayId) -> str:
    """Return the topic on which a gateway keeps, for itself, what its intake's session is subscribed to (retained).

    Nobody can ask a broker for that, and the session outlives the configuration that it was made for.
    """
    return f"{_of(gateway)}/intake"


def drain(gateway: GatewayId) -> str:
    """Return the topic on which a gateway keeps, for itself, that it moves all its clients away (retained)."""
    return f"{_of(gateway)}/drain"


def interest(gateway: GatewayId) -> str:
    """Return the topic on which an adapter keeps what plain clients subscribe to (retained)."""
    return f"{_of(gateway)}/interest"


def interest_read(gateway: GatewayId) -> str:
    """Return the topic by which an adapter learns that it has read what it kept."""
    return f"{_of(gateway)}/interest/read"


def mirror(gateway: GatewayId, chunk: int) -> str:
    """Return the topic of a part of a gateway's mirror of its clients' records (retained)."""
    return f"{_of(gateway)}/subs/{chunk}"


def mirrors(gateway: GatewayId) -> str:
    """Return the topic filter of the mirror."""
    return f"{_of(gateway)}/subs/+"


def trial(gateway: GatewayId) -> str:
    """Return the topic, among the mirror's, on which a gateway tries out how its broker behaves."""
    return f"{_of(gateway)}/subs/try"


def here() -> str:
    """Return the topic on which a broker's own gateway says who it is (retained).

    Some brokers replay no retained message to a wildcard; this one topic everybody knows. Whether that gateway is alive
    its status says.
    """
    return f"{ROOT}/here"


def roster() -> str:
    """Return the topic on which a broker's own gateway keeps the signed roster of all brokers (retained)."""
    return f"{ROOT}/roster"


def alerts() -> str:
    """Return the topic on which the analysis of telemetry publishes what is worth telling at once.

    It alone of all that is ours is carried from broker to broker like data, where telemetry is collected.
    """
    return f"{ROOT}/alerts"


def alert_fences() -> str:
    """Return the topic filter of the messages by which whoever publishes alerts learns which the broker has."""
    return f"{ROOT}/alerts/fence/+"


def all_status() -> str:
    """Return the topic filter by which a client finds the gateway beside its broker."""
    return f"{ROOT}/+/status"


def status_gateway(topic: str) -> GatewayId:
    """Return whose status this topic holds; raises TopicError."""
    gateway, _, rest = _below(f"{ROOT}/", topic).partition("/")
    if rest != "status":
        raise TopicError("not the topic of a gateway's status", topic)
    return GatewayId(decode_id(gateway))


def dead(gateway: GatewayId, topic: str) -> str:
    """Return where a message goes that a plugin or our broker refused for good: its topic below, payload as it was."""
    return f"{_of(gateway)}/dead/{topic}"


def _below(prefix: str, topic: str) -> str:
    if not topic.startswith(prefix):
        raise TopicError(f"not below {prefix}", topic)
    return topic.removeprefix(prefix)


def _of(gateway: GatewayId) -> str:
    return f"{ROOT}/{encode_id(gateway)}"
