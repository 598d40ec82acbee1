"""Requests of captures/nfs, through libnfs: files written, read, renamed, and removed; calls that fail. Arguments: the
server's address, the first local port is chosen by the system. Each context is a TCP connection."""

import ctypes
import os
import sys

lib = ctypes.CDLL("libnfs.so.13")
lib.nfs_init_context.restype = ctypes.c_void_p
lib.nfs_get_error.restype = ctypes.c_char_p
lib.nfs_readdir.restype = ctypes.c_void_p


class Client:
    """One mount."""

    def __init__(self, server, user):
        self.context = ctypes.c_void_p(lib.nfs_init_context())
        lib.nfs_set_uid(self.context, user)
        lib.nfs_set_gid(self.context, user)
        self.call("mount", server.encode(), b"/export")

    def call(self, name, *args, fails=False):
        """Calls a function of libnfs, which returns a negative number on errors."""
        result = getattr(lib, f"nfs_{name}")(self.context, *args)
        assert (result < 0) == fails, (name, args, result, lib.nfs_get_error(self.context))
        return result

    def open(self, path, flags):
        handle = ctypes.c_void_p()
        self.call("open", path, flags, ctypes.byref(handle))
        return handle

    def write(self, path, data, chunk):
        handle = self.open(path, os.O_CREAT | os.O_WRONLY)
        for at in range(0, len(data), chunk):
            part = data[at : at + chunk]
            self.call("pwrite", handle, ctypes.c_uint64(at), ctypes.c_uint64(len(part)), part)
        self.call("fsync", handle)
        self.call("close", handle)

    def read(self, path, length, chunk):
        handle = self.open(path, os.O_RDONLY)
        buffer = ctypes.create_string_buffer(chunk)
        for at in range(0, length, chunk):
            self.call("pread", handle, ctypes.c_uint64(at), ctypes.c_uint64(chunk), buffer)
        self.call("close", handle)

    def list(self, path):
        directory = ctypes.c_void_p()
        self.call("opendir", path, ctypes.byref(directory))
        lib.nfs_closedir(self.context, directory)


writer, reader = Client(sys.argv[1], 1000), Client(sys.argv[1], 1001)
writer.call("mkdir", b"/orders")
for n in range(12):
    writer.write(b"/orders/%d" % n, bytes([65 + n]) * (700 * n + 1), 4096)
for n in range(12):
    reader.read(b"/orders/%d" % n, 700 * n + 1, 4096)
writer.write(b"/large", os.urandom(1) * 60_000, 16_384)
reader.read(b"/large", 60_000, 16_384)
reader.list(b"/orders")
status = ctypes.create_string_buffer(512)
reader.call("stat64", b"/large", status)
reader.call("statvfs", b"/", status)
reader.call("access", b"/large", os.R_OK)
writer.call("chmod", b"/large", 0o600)
writer.call("truncate", b"/large", ctypes.c_uint64(1000))
writer.call("rename", b"/orders/0", b"/orders/first")
writer.call("symlink", b"orders/first", b"/link")
reader.call("readlink", b"/link", status, 100)
writer.call("link", b"/orders/1", b"/orders/hard")
# Errors: no such file, an existing directory, a directory that is not empty.
reader.call("stat64", b"/missing", status, fails=True)
writer.call("mkdir", b"/orders", 0o755, fails=True)
writer.call("rmdir", b"/orders", fails=True)
writer.call("unlink", b"/orders/missing", fails=True)
for n in range(1, 12):
    writer.call("unlink", b"/orders/%d" % n)
