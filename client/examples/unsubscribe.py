"""Two subscriptions, of which one is given up."""

# federation: yes

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

told = queue.Queue()
came = queue.Queue()
client = Client(CallbackAPIVersion.VERSION2)
client.on_connect = lambda *_: told.put("connected")
client.on_subscribe = lambda _c, _u, mid, _r, _p: told.put(mid)
client.on_unsubscribe = lambda _c, _u, mid, _r, _p: told.put(mid)
client.on_message = lambda _c, _u, message: came.put(message.topic)
client.connect_async("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
client.loop_start()
print(told.get(timeout=10))
for topic in ("examples/unsubscribe/a", "examples/unsubscribe/b"):
    result, mid = client.subscribe(topic, 1)
    print(result.name, told.get(timeout=10) == mid)
result, mid = client.unsubscribe("examples/unsubscribe/a")
print(result.name, told.get(timeout=10) == mid)
for topic in ("examples/unsubscribe/a", "examples/unsubscribe/b"):
    client.publish(topic, b"", 1).wait_for_publish(10)
print(came.get(timeout=10))
client.disconnect()
client.loop_stop()
print("nothing else:", came.empty())
