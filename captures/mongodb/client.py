"""The traffic of captures/mongodb: pymongo's commands, and what its listener reports of each, as one line of JSON."""
import json
import sys
import time

import pymongo
from pymongo import monitoring
from pymongo.errors import PyMongoError

address, log = sys.argv[1], open(sys.argv[2], "w")
started = {}


class Listener(monitoring.CommandListener):
    def started(self, event):
        command = event.command
        value = command[event.command_name]
        collection = command.get("collection", value)
        documents = next((len(command[k]) for k in ("documents", "updates", "deletes") if k in command), None)
        started[event.request_id] = {
            "command": event.command_name,
            "database": event.database_name,
            "collection": collection if isinstance(collection, str) else None,
            "documents": documents,
        }

    def end(self, event, reply):
        row = started.pop(event.request_id)
        cursor = reply.get("cursor", {})
        batch = cursor.get("firstBatch", cursor.get("nextBatch"))
        row["returned"] = None if batch is None else len(batch)
        errors = reply.get("writeErrors", [])
        row["matched"], row["modified"] = reply.get("n"), reply.get("nModified")
        row["error_code"] = errors[0]["code"] if errors else reply.get("code")
        row["duration_us"] = event.duration_micros
        print(json.dumps(row), file=log, flush=True)

    def succeeded(self, event):
        self.end(event, event.reply)

    def failed(self, event):
        self.end(event, event.failure)


client = pymongo.MongoClient(address, event_listeners=[Listener()], heartbeatFrequencyMS=500, directConnection=True)
shop = client.shop
orders = shop.orders
orders.insert_many({"_id": n, "customer": f"customer {n % 20}", "total": n * 1.25, "status": "open"} for n in range(400))
orders.insert_one({"_id": 1000, "note": "x" * 20000})
orders.create_index("customer")
for n in range(60):
    orders.find_one({"_id": n})
    orders.update_one({"_id": n}, {"$set": {"status": "paid"}})
    list(orders.find({"customer": f"customer {n % 20}", "total": {"$gt": n}}).sort("_id", -1).limit(5))
list(orders.find({}, batch_size=50))
list(orders.aggregate([{"$match": {"status": "paid"}}, {"$group": {"_id": "$customer", "n": {"$sum": 1}}}]))
orders.count_documents({"status": "open"})
orders.distinct("customer")
orders.delete_many({"total": {"$lt": 10}})
orders.update_many({"status": "open"}, {"$set": {"status": "canceled"}})
for failing in (
    lambda: orders.insert_one({"_id": 50}),
    lambda: orders.insert_many([{"_id": 2000}, {"_id": 51}, {"_id": 2001}], ordered=False),
    lambda: orders.find_one({"$nothing": 1}),
    lambda: shop.command("nothing"),
    lambda: shop.command("collMod", "missing"),
):
    try:
        failing()
    except PyMongoError as error:
        print(type(error).__name__, error, file=sys.stderr)
client.admin.command("ping")
time.sleep(1.2)
shop.log.find_one()
client.close()
