"""Clients of the broker at sys.argv[1], with two libraries: topics, producers with each compression and each number of acknowledgments,
transactions, consumers with and without a group, and errors."""

import sys
import time

import confluent_kafka as ck
import kafka
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = sys.argv[1]


def of_confluent(**options):
    return {"bootstrap.servers": SERVER, "client.id": "shop-c", **options}


def topics():
    admin = AdminClient(of_confluent())
    new = [NewTopic("orders", 3, 1), NewTopic("audit", 1, 1), NewTopic("large", 1, 1)]
    for future in admin.create_topics(new).values():
        future.result()
    for future in admin.create_topics([NewTopic("orders", 1, 1)]).values():
        try:
            future.result()
        except ck.KafkaException as error:
            print("expected:", error.args[0].name())


def produce():
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"]:
        for acks in [0, 1, -1]:
            producer = ck.Producer(of_confluent(**{"compression.type": compression, "acks": acks, "linger.ms": 5}))
            for n in range(20):
                producer.produce("orders", f"order {n} " * 5, key=str(n))
            producer.produce("audit", b"x" * 10)
            producer.flush(10)
    producer = ck.Producer(of_confluent(**{"transactional.id": "pay-1"}))
    producer.init_transactions()
    for commit in [True, False]:
        producer.begin_transaction()
        producer.produce("orders", b"in a transaction", partition=1)
        producer.flush(10)
        producer.commit_transaction() if commit else producer.abort_transaction()
    for acks in [0, 1, "all"]:
        producer = kafka.KafkaProducer(bootstrap_servers=SERVER, client_id="shop-p", acks=acks, linger_ms=2)
        for n in range(6):
            producer.send("orders", b"of another library", partition=n % 2)
        producer.flush()
        producer.close()
    producer = ck.Producer(of_confluent())
    for n in range(12):
        producer.produce("large", bytes([65 + n]) * 4000)
        producer.poll(0)
    producer.flush(10)


def consume():
    consumer = ck.Consumer(of_confluent(**{"group.id": "billing", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    deadline = time.time() + 4
    while time.time() < deadline:
        consumer.poll(0.5)
    consumer.commit(asynchronous=False)
    consumer.close()
    consumer = kafka.KafkaConsumer("orders", "large", bootstrap_servers=SERVER, client_id="shop-p", group_id="stock",
                                   auto_offset_reset="earliest", consumer_timeout_ms=2500)
    print("received", sum(1 for _ in consumer))
    consumer.commit()
    consumer.close()
    consumer = ck.Consumer(of_confluent(**{"group.id": "unused", "auto.offset.reset": "error"}))
    consumer.assign([ck.TopicPartition("orders", 0, 100000)])
    for _ in range(3):
        consumer.poll(0.5)
    consumer.close()


topics()
produce()
consume()
