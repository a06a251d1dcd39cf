"""A session that the broker keeps: what comes while the program is away is there when it is back."""

# federation: yes

import os
import queue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

port = int(os.environ.get("MQTT_PORT", "1883"))


def connected(client_id, clean_session):
    told = queue.Queue()
    came = queue.Queue()
    client = Client(CallbackAPIVersion.VERSION2, client_id, clean_session=clean_session)
    client.on_connect = lambda _c, _u, flags, _r, _p: told.put(flags.session_present)
    client.on_subscribe = client.on_unsubscribe = lambda *_: told.put("confirmed")
    client.on_message = lambda _c, _u, message: came.put(message.payload.decode())
    client.connect("127.0.0.1", port)
    client.loop_start()
    print(client_id, "session present:", told.get(timeout=10))
    return client, told, came


def end(client):
    client.disconnect()
    client.loop_stop()


reader, told, _ = connected("examples-offline", False)
reader.subscribe("examples/offline", 1)
print(told.get(timeout=10))
end(reader)

writer, _, _ = connected("examples-writer", True)
for number in range(3):
    writer.publish("examples/offline", f"letter {number}", 1).wait_for_publish(10)
end(writer)

reader, told, came = connected("examples-offline", False)
print([came.get(timeout=10) for _ in range(3)])
reader.subscribe("examples/offline", 1)
print(told.get(timeout=10))
reader.unsubscribe("examples/offline")
print(told.get(timeout=10))
end(reader)
end(connected("examples-offline", True)[0])  # the broker forgets the session
