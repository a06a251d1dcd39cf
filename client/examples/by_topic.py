"""A callback for each kind of topic, and one for the rest; set by decorators."""

# federation: yes

import os

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

client = Client(CallbackAPIVersion.VERSION2)


@client.connect_callback()
def on_connect(client, userdata, flags, reason_code, properties):
    client.subscribe([("examples/by_topic/#", 1), ("examples/by_topic_too", 0)])


@client.subscribe_callback()
def on_subscribe(client, userdata, mid, reason_code_list, properties):
    print("granted:", [reason_code.value for reason_code in reason_code_list])
    for topic in ("temperature/kitchen", "humidity/kitchen", "end"):
        client.publish(f"examples/by_topic/{topic}", "21", qos=1)


@client.topic_callback("examples/by_topic/temperature/+")
def on_temperature(client, userdata, message):
    print("temperature", message.topic.rsplit("/", 1)[1], message.payload.decode())


@client.topic_callback("examples/by_topic/end")
def on_end(client, userdata, message):
    client.disconnect()


@client.message_callback()
def on_message(client, userdata, message):
    print("something else:", message.topic)


client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
client.loop_forever()
