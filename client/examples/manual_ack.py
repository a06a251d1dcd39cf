"""Acknowledge each message only when it has been worked on."""

# federation: yes

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

subscribed = queue.Queue()
work = queue.Queue()
client = Client(CallbackAPIVersion.VERSION2, manual_ack=True)
client.on_connect = lambda client, *_: client.subscribe("examples/manual_ack", 1)
client.on_subscribe = lambda *_: subscribed.put(True)
client.on_message = lambda _c, _u, message: work.put(message)
client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
client.loop_start()
subscribed.get(timeout=10)
for number in range(50):  # more than a broker sends without any acknowledgement
    client.publish("examples/manual_ack", f"task {number}", 1)
for _ in range(50):
    task = work.get(timeout=10)
    print("done:", task.payload.decode(), client.ack(task.mid, task.qos).name)
client.disconnect()
client.loop_stop()
