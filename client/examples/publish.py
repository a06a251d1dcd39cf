"""Publish, and wait until the broker has it."""

# federation: yes

import os

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

client = Client(CallbackAPIVersion.VERSION2)
client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
client.loop_start()
for number in range(3):
    info = client.publish("examples/publish", f"number {number}", qos=1)
    info.wait_for_publish(10)
    print("published", number, info.is_published())
client.disconnect()
client.loop_stop()
