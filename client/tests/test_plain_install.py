"""The plain install: what `import mqloom.client` brings with it, and what it does not."""

import importlib.metadata
import re
import subprocess
import sys

HEAVY = {"amqtt", "cbor2", "matplotlib", "numpy", "ormsgpack", "pandas", "pluggy", "pyarrow", "pyspark", "rich", "zmq"}


def test_importing_the_client_imports_nothing_of_the_gateway_or_heavier() -> None:
    program = "import sys, mqloom.client, mqloom.client.aio; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
    program = "import sys, mqloom.client, mqloom.client.aio; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith(("mqloom.gateway", "mqloom.plugins"))]


def test_the_plain_install_asks_for_little() -> None:
    requirements = importlib.metadata.requires("mqloom") or []
    plain = {re.split(r"[^\w-]", each)[0] for each in requirements if "extra ==" not in each}
    assert not HEAVY & plain
    assert {"msgspec", "paho-mqtt"} <= plain
    assert len(plain) <= 4
