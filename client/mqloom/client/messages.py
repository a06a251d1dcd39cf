"""Publications of the federation as paho's messages, which is what an application's callbacks get."""

import time

from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqloom.core.publication import Publication


def message_of(publication: Publication, *, qos: int, number: int, protocol: MQTTProtocolVersion) -> MQTTMessage:
    """Return a publication as a message: topic, payload, retain flag and, with MQTT 5, properties as it was published.

    `number` stands where paho has a packet id; by it the application can acknowledge what is of QoS 1.
    """
    message = MQTTMessage(mid=number if qos else 0, topic=publication.topic.encode())
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
