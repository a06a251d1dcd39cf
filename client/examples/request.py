"""A question and its answer by MQTT 5: response topic and correlation data."""

# federation: no, it does not carry these

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

answers = queue.Queue()


def on_message(client, userdata, message):
    if message.topic == "examples/request":
        properties = Properties(PacketTypes.PUBLISH)
        properties.CorrelationData = message.properties.CorrelationData
        client.publish(message.properties.ResponseTopic, message.payload.upper(), 1, properties=properties)
    else:
        answers.put((message.payload.decode(), message.properties.CorrelationData))


def on_subscribe(client, userdata, mid, reason_code_list, properties):
    request = Properties(PacketTypes.PUBLISH)
    request.ResponseTopic = "examples/answer"
    request.CorrelationData = b"1"
    client.publish("examples/request", "quietly", 1, properties=request)


client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
client.on_connect = lambda client, *_: client.subscribe([("examples/request", 1), ("examples/answer", 1)])
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
client.loop_start()
print(answers.get(timeout=10))
client.disconnect()
client.loop_stop()
