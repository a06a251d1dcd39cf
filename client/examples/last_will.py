"""A last will, published by the broker for a client that went without a word."""

# federation: yes

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

port = int(os.environ.get("MQTT_PORT", "1883"))
told = queue.Queue()
watcher = Client(CallbackAPIVersion.VERSION2)
watcher.on_connect = lambda client, *_: client.subscribe("examples/last_will/+", 1)
watcher.on_subscribe = lambda *_: told.put("watching")
watcher.on_message = lambda _c, _u, message: told.put(f"{message.topic} {message.payload.decode()}")
watcher.connect("127.0.0.1", port)
watcher.loop_start()
print(told.get(timeout=10))

worker = Client(CallbackAPIVersion.VERSION2)
worker.will_set("examples/last_will/worker", "gone", qos=1)
worker.on_connect = lambda *_: told.put("working")
worker.connect("127.0.0.1", port)
worker.loop_start()
print(told.get(timeout=10))
worker.loop_stop()
worker.socket().close()  # no DISCONNECT
print(told.get(timeout=10))
watcher.disconnect()
watcher.loop_stop()
