"""Minimal clients of memcached and MariaDB for the test bed's application."""

import socket
import struct


class Connection:
    """A TCP connection that is closed at the end of `with`."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def read(self, length):
        found = self.file.read(length)
        if len(found) < length:
            raise ConnectionError("the server has closed the connection")
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()


class Cache(Connection):
    """memcached's text protocol."""

    def get(self, key):
        """The value's bytes, or None."""
        self.socket.sendall(f"get {key}\r\n".encode())
        words = self.file.readline().split()
        if words[:1] != [b"VALUE"]:
            return None
        value = self.read(int(words[3]))
        self.read(len(b"\r\nEND\r\n"))
        return value

    def set(self, key, value):
        self.socket.sendall(f"set {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n")
        self.file.readline()


class Database(Connection):
    """MariaDB's protocol: a user without a password, statements as text."""

    CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x8000 | 0x80000  # long password, with schema, protocol 4.1, 4.1's login, names of plugins

    def __init__(self, host, port, user, schema):
        super().__init__(host, port)
        self.packet()  # the server's greeting
        login = struct.pack("<IIB23x", self.CAPABILITIES, 1 << 24, 33)
        login += user.encode() + b"\0" + b"\0" + schema.encode() + b"\0" + b"mysql_native_password\0"
        self.send(1, login)
        self.check(self.packet())

    def send(self, number, body):
        self.socket.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)

    def packet(self):
        head = self.read(4)
        return self.read(int.from_bytes(head[:3], "little"))

    @staticmethod
    def check(packet):
        if packet[:1] == b"\xff":
            raise ConnectionError(packet[9:].decode(errors="replace"))
        return packet

    def query(self, statement):
        """The rows, each a list of texts (None is NULL)."""
        self.send(0, b"\x03" + statement.encode())
        columns = self.check(self.packet())[0]
        while not self.is_end(self.packet()):
            pass  # what the columns are called
        rows = []
        while not self.is_end(packet := self.check(self.packet())):
            rows.append(self.row(packet, columns))
        return rows

    @staticmethod
    def is_end(packet):
        return packet[:1] == b"\xfe" and len(packet) < 9

    @staticmethod
    def row(packet, columns):
        row, at = [], 0
        for _ in range(columns):
            length = packet[at]
            at += 1
            if length == 0xFB:
                row.append(None)
                continue
            if length == 0xFC:
                length = int.from_bytes(packet[at : at + 2], "little")
                at += 2
            row.append(packet[at : at + length].decode())
            at += length
        return row

    def __exit__(self, *error):
        self.send(0, b"\x01")  # goodbye: a server that is not told logs an error
        super().__exit__(*error)
