"""Hears of HTTP posts, and says no to some: a webhook's receiver, which checks signatures as the Standard Webhooks say, and
a collector of OpenTelemetry's metrics; in TLS with a certificate and its key. Every post that is taken is a line of JSON on standard output; `port N` comes first."""

import base64
import hashlib
import hmac
import json
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

KIND, PORT, SECRET, FAIL = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode(), int(sys.argv[4])
attempts = 0


def say(line):
    print(line, flush=True)


def webhook(headers, body):
    ident, seconds = headers["webhook-id"], headers["webhook-timestamp"]
    assert abs(time.time() - int(seconds)) < 300, "an old message"
    signed = hmac.new(SECRET, f"{ident}.{seconds}.".encode() + body, hashlib.sha256).digest()
    version, _, signature = headers["webhook-signature"].partition(",")
    assert version == "v1" and hmac.compare_digest(base64.b64decode(signature), signed), "a wrong signature"
    assert headers["idempotency-key"] == ident
    return {"id": ident, "body": json.loads(body)}


def otlp(headers, body):
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    assert headers["content-type"] == "application/x-protobuf"
    assert KIND == "otlp-open" or headers["authorization"] == f"Bearer {SECRET.decode()}"
    request = ExportMetricsServiceRequest.FromString(body)
    # Nothing that the definition does not know.
    assert request.SerializeToString() and not unknown(request)
    return MessageToDict(request)


def unknown(message):
    from google.protobuf.unknown_fields import UnknownFieldSet

    if len(UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            repeated = value if not hasattr(value, "ListFields") else [value]
            if any(unknown(one) for one in repeated):
                return True
    return False


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        global attempts
        body = self.rfile.read(int(self.headers["content-length"]))
        attempts += 1
        try:
            taken = {"webhook": webhook, "otlp": otlp, "otlp-open": otlp}[KIND](self.headers, body)
            # The first few are lost after they were seen, as when a server dies at the worst moment.
            status = 503 if attempts <= FAIL else 200
            say(json.dumps({"path": self.path, "status": status, "taken": taken}))
        except Exception as error:  # noqa: BLE001
            status = 400
            say(json.dumps({"error": repr(error)}))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", PORT), Handler)
if sys.argv[5:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[5], sys.argv[6])
    server.socket = context.wrap_socket(server.socket, server_side=True)
say(f"port {server.server_port}")
server.serve_forever()
