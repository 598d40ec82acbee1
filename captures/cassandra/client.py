"""The traffic of captures/cassandra: sessions of each version and compression, and what the driver reports of each request, as one line of
JSON: the port and stream on which it was sent, and its result."""
import json
import sys
import time
import uuid

from cassandra import ConsistencyLevel, protocol
from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.connection import Connection
from cassandra.policies import FallthroughRetryPolicy
from cassandra.query import BatchStatement, SimpleStatement

address, log = sys.argv[1], open(sys.argv[2], "w")
send = Connection.send_msg


def send_and_log(self, msg, request_id, cb, *args, **kwargs):
    """Logs a request when its response comes."""
    began = time.perf_counter()
    row = {
        "port": self._socket.getsockname()[1],
        "stream": request_id,
        "version": self.protocol_version,
        "compression": compressions.get(id(self)),
        "message": type(msg).__name__,
        "query": (getattr(msg, "query", None) or "")[:100] or None,
        "consistency": ConsistencyLevel.value_to_name.get(getattr(msg, "consistency_level", None)),
        "page_size": getattr(msg, "fetch_size", None),
    }
    if isinstance(msg, protocol.BatchMessage):
        row["statements"] = len(msg.queries)
    if isinstance(msg, protocol.StartupMessage):
        row["compression"] = compressions[id(self)] = msg.options.get("COMPRESSION")

    def log_response(response, *rest, **named):
        row["seconds"] = round(time.perf_counter() - began, 7)
        if isinstance(response, protocol.ResultMessage):
            row["rows"] = len(response.parsed_rows) if response.parsed_rows is not None else None
            row["more"] = response.paging_state is not None
            row["warnings"] = len(response.warnings or [])
            row["traced"] = str(response.trace_id) if response.trace_id else None
        if isinstance(response, protocol.ErrorMessage):
            row["error_code"] = response.code
        known = {name: value for name, value in row.items() if value is not None}
        print(json.dumps(known, separators=(",", ":")), file=log, flush=True)
        return cb(response, *rest, **named)

    return send(self, msg, request_id, log_response, *args, **kwargs)


compressions = {}
Connection.send_msg = send_and_log


def session(version, compression):
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.ONE, retry_policy=FallthroughRetryPolicy(), request_timeout=20)
    cluster = Cluster(
        [address],
        protocol_version=version,
        compression=compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
        monitor_reporting_enabled=False,
        idle_heartbeat_interval=0,
    )
    return cluster, cluster.connect()


def failing(act):
    try:
        act()
    except Exception as error:  # what the driver made of the response is printed
        print(type(error).__name__, str(error)[:100], file=sys.stderr)


for number, (version, compression) in enumerate([(4, False), (3, "snappy"), (4, "lz4"), (5, False), (5, "lz4")]):
    cluster, shop = session(version, compression)
    if number == 0:
        shop.execute("CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
        shop.execute("CREATE KEYSPACE wide WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        shop.execute("CREATE TABLE wide.t (id int PRIMARY KEY)")
    name = f"orders{number}"
    shop.execute("USE shop")
    shop.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, customer text, tags map<text, frozen<list<int>>>, ref uuid)")
    insert = shop.prepare(f"INSERT INTO {name} (id, customer, ref) VALUES (?, ?, ?)")
    for key in range(30):
        shop.execute(insert, (key, f"customer {key % 7}", uuid.UUID(int=key)))
    # Many at once: their responses come in another order.
    for future in [shop.execute_async(insert, (key, "customer " * (key % 9), None)) for key in range(30, 60)]:
        future.result()
    shop.execute(f"INSERT INTO {name} (id, customer, tags) VALUES (1000, '{'long ' * 2000}', {{'a': [1, 2], 'b': [3]}})")
    select = shop.prepare(f"SELECT * FROM shop.{name} WHERE id = ?")
    for key in range(10):
        shop.execute(select, (key,))
    assert len(list(shop.execute(SimpleStatement(f"SELECT id FROM {name}", fetch_size=25)))) == 61
    shop.execute(SimpleStatement(f"SELECT count(*) FROM {name}", consistency_level=ConsistencyLevel.LOCAL_QUORUM))
    shop.execute(f"SELECT * FROM {name} WHERE ref = {uuid.UUID(int=5)} ALLOW FILTERING")
    shop.execute(SimpleStatement(f"UPDATE {name} SET customer = 'x' WHERE id = 1 IF EXISTS", serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL))
    batch = BatchStatement()
    for key in range(5):
        batch.add(insert, (2000 + key, "y" * 300, None))
    batch.add(SimpleStatement(f"DELETE FROM {name} WHERE id = 2"))
    shop.execute(batch)
    shop.execute(f"SELECT id FROM {name} LIMIT 2", trace=True)
    for act in (
        lambda: shop.execute("SELECT nothing FROM missing"),
        lambda: shop.execute("SELEC 1"),
        lambda: shop.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)"),
        lambda: shop.execute(SimpleStatement("SELECT * FROM wide.t WHERE id = 1", consistency_level=ConsistencyLevel.QUORUM)),
    ):
        failing(act)
    # The table's statements are to be prepared again.
    shop.execute(f"ALTER TABLE {name} ADD note text")
    shop.execute(select, (3,))
    time.sleep(0.3)
    cluster.shutdown()
