"""A retained value is there for who comes later."""

# federation: no, retained messages stay on their broker

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

port = int(os.environ.get("MQTT_PORT", "1883"))
writer = Client(CallbackAPIVersion.VERSION2)
writer.connect("127.0.0.1", port)
writer.loop_start()
writer.publish("examples/retained", "21 degrees", 1, retain=True).wait_for_publish(10)

came = queue.Queue()
reader = Client(CallbackAPIVersion.VERSION2)
reader.on_connect = lambda client, *_: client.subscribe("examples/retained", 1)
reader.on_message = lambda _c, _u, message: came.put(message)
reader.connect("127.0.0.1", port)
reader.loop_start()
message = came.get(timeout=10)
print(message.payload.decode(), "retained:", message.retain)
writer.publish("examples/retained", b"", 1, retain=True).wait_for_publish(10)
for client in (reader, writer):
    client.disconnect()
    client.loop_stop()
