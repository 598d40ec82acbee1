# Sends requests to servers at a steady rate; each request has its time: /item/PHASE/SECOND. Reads commands, one per line: `begin PHASE`
# and `end`, which it acknowledges after the last response.
#
#     load.py HTTP,HTTP MARIADB MEMCACHED
import http.client
import socket
import subprocess
import sys
import threading
import time

webs, database, cache = sys.argv[1].split(","), sys.argv[2], sys.argv[3]
changed = threading.Condition()
phase, busy = None, 0


def steadily(ask, pause):
    """Asks while a phase lasts; `ask` gets its name, the second of it, and a count."""
    global busy
    n = 0
    while True:
        with changed:
            changed.wait_for(lambda: phase)
            name, began = phase
            busy += 1
        n += 1
        try:
            ask(name, int(time.monotonic() - began), n)
        except OSError as error:
            print(f"{ask.__name__}: {error}", file=sys.stderr)
        with changed:
            busy -= 1
            changed.notify_all()
        time.sleep(pause)


def web(address):
    def ask_web(name, second, n):
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", f"/{('item', 'item', 'old', 'none')[n % 4]}/{name}/{second}")
        connection.getresponse().read()
        connection.close()

    return ask_web


def ask_database(name, second, n):
    text = "".join(f"SELECT '{name}', {second}, name FROM item WHERE id = {i};\n" for i in range(4))
    client = ["mariadb", "--no-defaults", f"-h{database}", "-uapp", "-psecret", "shop"]
    subprocess.run(client, input=text.encode(), stdout=subprocess.DEVNULL, check=False)


def ask_cache(name, second, n):
    key = f"{name}-{second}"
    with socket.create_connection((cache, 11211), timeout=10) as connection:
        connection.sendall(f"set {key} 0 0 3\r\nabc\r\nget {key}\r\nget no-{key}\r\n".encode())
        heard = b""
        while heard.count(b"END\r\n") < 2:
            heard += connection.recv(4096)


for address in webs:
    threading.Thread(target=steadily, args=(web(address), 0.05), daemon=True).start()
threading.Thread(target=steadily, args=(ask_database, 0.5), daemon=True).start()
threading.Thread(target=steadily, args=(ask_cache, 0.2), daemon=True).start()
for line in sys.stdin:
    words = line.split()
    with changed:
        phase = (words[1], time.monotonic()) if words[0] == "begin" else None
        changed.notify_all()
        if phase is None:
            changed.wait_for(lambda: busy == 0)
    print("ok", flush=True)
