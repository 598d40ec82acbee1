"""Starts an os-ken application that listens on `HOST:PORT`, or `unix:/a/socket` for switches in other network namespaces."""

import argparse
import logging
import os
import signal
import socket
import sys

from os_ken import cfg
from os_ken.base.app_manager import AppManager
from os_ken.controller import controller

# Arguments of the application; os-ken creates applications without arguments.
settings = argparse.Namespace()


class UnixSocket(socket.socket):
    """os-ken sets TCP options on every connection."""

    def setsockopt(self, level, *rest):
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *rest)


def parser(description):
    """Flags of every application."""
    asked = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--openflow", metavar="HOST:PORT|unix:FILE", default="127.0.0.1:6653", help="address for connections of switches (%(default)s)")
    return asked


def run(application, args):
    """Serves until stopped. `application` is a module with one os-ken class."""
    vars(settings).update(vars(args))
    words = ["--ofp-tcp-listen-port"]
    if args.openflow.startswith("unix:"):
        path = os.path.abspath(args.openflow.removeprefix("unix:"))
        if os.path.exists(path):
            os.unlink(path)
        words += ["1", "--ofp-listen-host", path]
        serve = controller.datapath_connection_factory
        controller.datapath_connection_factory = lambda connection, address: serve(UnixSocket(fileno=connection.detach()), address)
    else:
        try:
            host, port = args.openflow.rsplit(":", 1)
            socket.create_server((host, int(port))).close()  # os-ken does not say that it cannot
        except (OSError, ValueError) as why:
            raise SystemExit(f"sdn: {args.openflow}: {why}") from None
        words += [port, "--ofp-listen-host", host]
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    cfg.CONF(words, project="os_ken", default_config_files=[])
    # An unresponsive switch is disconnected after three seconds. os-ken detects a closed connection only by this as well.
    cfg.CONF.set_override("echo_request_interval", 1)
    cfg.CONF.set_override("maximum_unreplied_echo_requests", 2)
    # State is on the switches, so the process may end at any time. os-ken's threads would keep it alive.
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: os._exit(0))
    try:
        AppManager.run_apps(["os_ken.controller.ofp_handler", application])
    except (Exception, SystemExit) as why:
        print(f"sdn: {str(why).removeprefix('sdn: ')}", file=sys.stderr)
    os._exit(1)
