"""Reads the broker's request log (`kafka.request.logger` at TRACE) and writes what the test compares, a line per request. Names of
error codes are those of kafka-python."""

import json
import sys

from kafka.errors import for_code


def errors(value, name=""):
    """Error codes in the order of the response."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from errors(inside, key)
    elif isinstance(value, list):
        for inside in value:
            yield from errors(inside, name)
    elif name.endswith("rrorCode") and value != 0:
        yield value


for line in sys.stdin:
    if "Completed request:" not in line:
        continue
    log = json.loads(line[line.index("Completed request:") + len("Completed request:"):])
    header, request, response = log["requestHeader"], log["request"], log.get("response") or {}
    api = header["requestApiKeyName"]
    if "10.20.2.21" not in log["connection"]:
        continue
    row = {
        "client": log["connection"].split("-10.20.2.21")[1].split("-")[0].lstrip(":"),
        "correlation_id": header["correlationId"],
        "api": api,
        "api_version": header["requestApiVersion"],
        "client_id": header["clientId"],
        "group": request.get("groupId"),
        "transactional_id": request.get("transactionalId"),
        "error": next((for_code(code).message for code in errors(response)), None),
    }
    if api == "PRODUCE":
        row["acks"] = request["acks"]
        topics = request["topicData"]
        row["topics"] = len(topics)
        row["partitions"] = sum(len(topic["partitionData"]) for topic in topics)
        row["record_bytes"] = sum(part["recordsSizeInBytes"] for topic in topics for part in topic["partitionData"])
        parts = [part for topic in response.get("responses", []) for part in topic["partitionResponses"]]
        row["base_offset"] = parts[0]["baseOffset"] if len(parts) == 1 and parts[0]["baseOffset"] >= 0 else None
    if api == "FETCH":
        row["max_wait_ms"], row["min_bytes"] = request["maxWaitMs"], request["minBytes"]
        parts = [part for topic in response["responses"] for part in topic["partitions"]]
        row["record_bytes"] = sum(part["recordsSizeInBytes"] for part in parts) if parts else None
        row["high_watermark"] = parts[0]["highWatermark"] if len(parts) == 1 and parts[0]["highWatermark"] >= 0 else None
    print(json.dumps({name: value for name, value in row.items() if value is not None}))
