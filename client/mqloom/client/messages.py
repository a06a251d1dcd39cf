"""Publications of the federation as paho's messages, which is what an application's callbacks get."""

import time

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.client.vocabulary import Deliver
from mqloom.core.ids import PublicationId
from mqloom.core.publication import Publication


class FederationMessage(MQTTMessage):
    """paho's message, of a publication that has come by the federation.

    `publication_id` is the same at every subscriber. `names` are those of the subscriptions that it came for.
    """

    __slots__ = ("names", "publication_id")

    def __init__(self, mid: int, topic: bytes, publication_id: PublicationId, names: tuple[str, ...]) -> None:
        super().__init__(mid, topic)
        self.publication_id = publication_id
        self.names = names


def message_of(delivery: Deliver, *, qos: int, number: int, protocol: MQTTProtocolVersion) -> FederationMessage:
    """Return a publication as a message: topic, payload, retain flag and, with MQTT 5, properties as it was published.

    `number` stands where paho has a packet id; by it the application can acknowledge what is of QoS 1.
    """
    publication = delivery.publication
    message = FederationMessage(number if qos else 0, publication.topic.encode(), publication.id, delivery.names)
    message.timestamp = time.monotonic()
    message.payload = publication.payload
    message.qos = qos
    message.retain = publication.retain
    if protocol == MQTTProtocolVersion.MQTTv5:
        message.properties = _properties_of(publication)
    return message


def _properties_of(publication: Publication) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho has no types there
    if publication.content_type:
        properties.ContentType = publication.content_type
    if publication.user_properties:
        properties.UserProperty = list(publication.user_properties)
    return properties
