"""Subscribe on each connection, print what comes, and end after the third message."""

# federation: yes

import os

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion


def on_connect(client, userdata, flags, reason_code, properties):
    print("connected:", reason_code)
    client.subscribe("examples/subscribe/#", qos=1)


def on_subscribe(client, userdata, mid, reason_code_list, properties):
    print("granted:", [str(reason_code) for reason_code in reason_code_list])
    for number in range(3):
        client.publish(f"examples/subscribe/{number}", f"payload {number}", qos=1)


def on_message(client, userdata, message):
    print(message.topic, message.qos, message.payload.decode())
    userdata.append(message)
    if len(userdata) == 3:
        client.disconnect()


client = Client(CallbackAPIVersion.VERSION2, userdata=[])
client.on_connect = on_connect
client.on_subscribe = on_subscribe
client.on_message = on_message
client.connect("127.0.0.1", int(os.environ.get("MQTT_PORT", "1883")))
print("ended:", client.loop_forever().name)
