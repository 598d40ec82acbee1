"""Clients of a Redis server: RESP2 and RESP3, inline, pipelined, in transactions, subscribed, blocked, unanswered."""

import socket
import sys
import threading
import time

HOST = sys.argv[1]


def words(*all_words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in all_words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Client:
    """Sends the given commands, and reads a number of replies or pushes."""

    def __init__(self):
        self.socket = socket.create_connection((HOST, 6379))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.replies = self.socket.makefile("rb")

    def value(self):
        line = self.replies.readline()
        kind, text = line[:1], line[1:-2]
        if kind in b"$=!" and int(text) >= 0:
            return self.replies.read(int(text) + 2)[:-2]
        if kind in b"*~>%|":
            n = int(text) * (2 if kind in b"%|" else 1)
            return [self.value() for _ in range(max(n, 0))]
        return line[:-2]

    def say(self, data, replies=1):
        self.socket.sendall(data)
        return [self.value() for _ in range(replies)]

    def ask(self, *all_words, replies=1):
        return self.say(words(*all_words), replies)


def main():
    plain = Client()
    for i in range(20):
        plain.ask("SET", f"key:{i}", "v" * i)
        plain.ask("get", f"key:{i}")
    plain.ask("GET", "missing")
    plain.ask("INCR", "key:5")  # an error: no number
    plain.ask("NOSUCH", "command")  # another
    plain.ask("HGET", "key:1")  # wrong number of arguments
    plain.ask("HSET", "hash", "a", 1, "b", 2)
    plain.ask("HGETALL", "hash")
    plain.ask("EVAL", "return {1, {2, 'three'}, KEYS[1]}", 1, "hash")
    # Long values, and a list of what looks like replies.
    plain.ask("SET", "big", b"$5\r\nhello\r\n" * 20000)
    plain.ask("GET", "big")
    plain.ask("RPUSH", "list", *[b"+OK\r\n"] * 500)
    plain.ask("LRANGE", "list", 0, -1)
    # A pipeline, and a transaction.
    plain.say(b"".join(words("INCR", f"n:{i % 3}") for i in range(50)), 50)
    plain.say(words("MULTI") + words("SET", "a", 1) + words("GET", "a") + words("EXEC"), 4)
    plain.say(words("MULTI") + words("DISCARD"), 2)
    # Inline.
    plain.say(b"PING\r\n")
    plain.say(b"SET inline 'a b'\r\nGET inline\r\n", 2)
    # Without answers.
    plain.say(words("CLIENT", "REPLY", "SKIP") + words("SET", "b", 1) + words("GET", "b"), 1)
    plain.say(words("CLIENT", "REPLY", "OFF") + words("SET", "b", 2) + words("CLIENT", "REPLY", "ON"), 1)

    # Blocked until another pushes.
    blocked = Client()
    waiting = threading.Thread(target=lambda: blocked.ask("BLPOP", "queue", 5))
    waiting.start()
    time.sleep(0.1)
    plain.ask("LPUSH", "queue", "job")
    waiting.join()

    # Subscribed, with RESP2 and with RESP3.
    old, new = Client(), Client()
    old.ask("SUBSCRIBE", "news", "weather", replies=2)
    old.ask("PSUBSCRIBE", "sport.*")
    new.ask("HELLO", 3)
    new.ask("SUBSCRIBE", "news")
    for channel in ["news", "sport.chess", "weather"]:
        plain.ask("PUBLISH", channel, "something happened")
    for _ in range(3):
        old.value()
    new.value()
    new.ask("PING")
    old.ask("UNSUBSCRIBE", replies=2)
    # Receives invalidations of keys that it has read and others change.
    new.ask("CLIENT", "TRACKING", "ON")
    new.ask("GET", "key:1")
    plain.ask("SET", "key:1", "changed")
    new.value()
    new.ask("GET", "key:1")
    new.ask("QUIT")
    time.sleep(0.1)


main()
