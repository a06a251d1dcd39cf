"""A program with a loop of its own around paho's socket."""

# federation: yes

import os
import select
import time

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion


def on_subscribe(client, userdata, mid, reason_code_list, properties):
    client.publish("examples/own_loop", "hello", qos=1)


def on_message(client, userdata, message):
    print(message.topic, message.payload.decode())
    client.disconnect()


client = Client(CallbackAPIVersion.VERSION2)
client.on_connect = lambda client, *_: client.subscribe("examples/own_loop", 1)
client.on_subscribe = on_subscribe
client.on_message = on_message
client.on_disconnect = lambda _c, _u, _f, reason_code, _p: print("disconnected:", reason_code)
client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
until = time.monotonic() + 20
while client.socket() is not None and time.monotonic() < until:
    sock = client.socket()
    readable, writable, _ = select.select([sock], [sock] if client.want_write() else [], [], 0.1)
    if readable:
        client.loop_read()
    if writable:
        client.loop_write()
    client.loop_misc()
