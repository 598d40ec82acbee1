"""A gRPC server without descriptions of messages, and a client that calls it. The server writes a line of JSON per call to
the file named by its argument: method, status, and messages of each side."""

import json
import sys
import time
from concurrent import futures

import grpc

ADDRESS = "127.0.0.1:50051"
log = open(sys.argv[1], "w")


def note(method, status, asked, answered):
    log.write(json.dumps({"method": method, "status": status, "requests": asked, "responses": answered}) + "\n")
    log.flush()


def unary(request, context):
    note("Unary", "OK", 1, 1)
    return request


def find(request, context):
    note("Find", "NOT_FOUND", 1, 0)
    context.abort(grpc.StatusCode.NOT_FOUND, "no such item: 50 % of all")


def sleep(request, context):
    note("Sleep", "cancelled by the client", 1, 0)
    time.sleep(0.3)
    return request


def many(request, context):
    for _ in range(3):
        yield request
    note("Many", "OK", 1, 3)


def collect(requests, context):
    count = sum(1 for _ in requests)
    note("Collect", "OK", count, 1)
    return b"all"


def both(requests, context):
    count = 0
    for request in requests:
        count += 1
        yield request
    note("Both", "OK", count, count)


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Find": grpc.unary_unary_rpc_method_handler(find),
        "Sleep": grpc.unary_unary_rpc_method_handler(sleep),
        "Many": grpc.unary_stream_rpc_method_handler(many),
        "Collect": grpc.stream_unary_rpc_method_handler(collect),
        "Both": grpc.stream_stream_rpc_method_handler(both),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Calls", handlers)])
    server.add_insecure_port(ADDRESS)
    server.start()
    return server


def call():
    with grpc.insecure_channel(ADDRESS) as channel:
        path = "/test.Calls/"
        for n in range(20):
            channel.unary_unary(path + "Unary")(b"x" * n)
        for name, call in [("Find", {}), ("Sleep", {"timeout": 0.1}), ("Nothing", {})]:
            try:
                channel.unary_unary(path + name)(b"x", **call)
            except grpc.RpcError as error:
                print(name, error.code())
        for n in range(5):
            list(channel.unary_stream(path + "Many")(b"y" * n))
            channel.stream_unary(path + "Collect")(iter([b"z"] * n))
            list(channel.stream_stream(path + "Both")(iter([b"b"] * n)))


server = serve()
call()
server.stop(1).wait()
