"""The measurements: jobs with their captures, queries, targets, limits, and nearest peers. Data only; run.py executes them.

A rate is packets ("Mpps"), wire bits ("Gb/s") or tuples ("M/s") by user + system CPU seconds of the whole process on one
core, input in the page cache, output to a file.
"""
from dataclasses import dataclass, field


@dataclass
class Job:
    capture: str
    name: str
    query: str
    unit: str
    bar: float | None = None  # at least, in the unit
    limit: str | None = None  # the pass of bench/limits that it can at best reach
    peers: list = field(default_factory=list)
    bars: dict = field(default_factory=dict)  # peer -> at least so many times its rate
    mib: float = 150  # resident, at most
    truth: tuple = ()  # where the capture's .json says how many tuples there are; summed


FLOW_TOOLS = ["nfpcapd", "argus", "softflowd", "ndpiReader"]
JOBS = [
    Job("tcp64_10k", "packets and bytes by source", "PARSE packet PROCESS (group-count-sum: group=src_ip)", "Mpps", 40, "per source",
        ["sources (HashMap, ahash)", "tcpdump --count"], truth=("packets",)),
    Job("tcp64_10k", "flow records", "PARSE flow PROCESS (count)", "Mpps", 30, "flow table", ["flows (HashMap, ahash)", *FLOW_TOOLS], truth=("tcp_flows",)),
    Job("tcp64_1m", "flow records, a million live", "PARSE flow PROCESS (count)", "Mpps", 15, "flow table", ["flows (HashMap, ahash)", *FLOW_TOOLS], mib=300, truth=("tcp_flows",)),
    Job("tcp128_10k", "connection times", "PARSE tcp_conn_time PROCESS (diff)", "Mpps", 25, "flow table"),
    Job("get256_10k", "GETs, counted", "PARSE http_get PROCESS (count)", "Mpps", 10, "GET and newline", ["httparse by packet"], truth=("http_requests",)),
    Job("get256_10k", "response times by URL", "PARSE http_get PROCESS (diff-group: group=url)", "Mpps", 10, "GET and newline", ["httparse by packet", "packetbeat http"], truth=("http_requests",)),
    Job("http_web", "responses by status", "PARSE http PROCESS (group-count: group=status)", "Gb/s", 30, "GET and newline", ["tshark http,tree", "httparse by packet"], truth=("transactions_logged",)),
    Job("http_web", "response times by URL", "PARSE http PROCESS (diff-group: group=url)", "Gb/s", 30, "GET and newline", ["packetbeat http", "tshark http fields"],
        bars={"packetbeat http": 80}, truth=("transactions_logged",)),
    Job("http_web", "every transaction, all fields", "PARSE http", "Gb/s", None, "every payload byte", ["packetbeat http", "tshark http fields"], truth=("transactions_logged",)),
    Job("http_api", "responses by status", "PARSE http PROCESS (group-count: group=status)", "M/s", 4, "GET and newline", ["tshark http,tree", "httparse by packet"], truth=("transactions_logged",)),
    Job("http_api", "response times by URL template", "PARSE http PROCESS (diff-group: group=url_template)", "M/s", 4, "GET and newline", ["packetbeat http"], truth=("transactions_logged",)),
    Job("mysql_text", "response times by statement", "PARSE mysql_query PROCESS (diff-group: group=fingerprint)", "M/s", 1, "every payload byte", ["packetbeat mysql", "tshark mysql fields"]),
    Job("mysql_prep", "response times by statement", "PARSE mysql_query PROCESS (diff-group: group=fingerprint)", "M/s", 1, "every payload byte", ["tshark mysql fields"]),
    Job("mc_ascii", "response times by command", "PARSE memcached PROCESS (diff-group: group=command)", "M/s", 2, "every payload byte", ["packetbeat memcached", "tshark memcached fields"]),
    Job("mc_bin", "response times by command", "PARSE memcached PROCESS (diff-group: group=command)", "M/s", 2, "every payload byte", ["packetbeat memcached", "tshark memcached fields"]),
    Job("nfs_64k", "every operation, all fields and check-sums", "PARSE nfs", "Gb/s", 20, "every payload byte", ["packetbeat nfs", "tshark rpc srt", "nfstrace breakdown"], truth=("calls",)),
    Job("nfs_chronicle", "every operation, all fields and check-sums", "PARSE nfs", "Gb/s", 20, "every payload byte", ["packetbeat nfs", "tshark rpc srt", "nfstrace breakdown"], truth=("calls",)),
    Job("nfs_1byte", "response times by procedure", "PARSE nfs PROCESS (diff-group: group=procedure)", "M/s", 1, "every payload byte", ["packetbeat nfs", "tshark rpc srt", "nfstrace breakdown"],
        truth=("calls",)),
]

# The packet sizes of NetAlytics' figure 5.
SIZES = [("tcp_conn_time", f"tcp{n}_10k", n, "PARSE tcp_conn_time PROCESS (diff)") for n in (64, 128, 256, 512, 1024)]
SIZES += [("http_get", f"get{n}_10k", n, "PARSE http_get PROCESS (count)") for n in (128, 256, 512, 1024)]

# Synthetic captures: nxgen's arguments; equal bytes on every machine.
SYNTHETIC = {f"tcp{n}_10k": f"fixed --size {n} --flows 10000 --ppf {ppf} --seed {n}" for n, ppf in ((64, 400), (128, 250), (256, 150), (512, 40), (1024, 20))}
SYNTHETIC |= {f"get{n}_10k": f"fixed --get --size {n} --flows 10000 --ppf {ppf} --seed {n + 1}" for n, ppf in ((128, 125), (256, 75), (512, 40), (1024, 20))}
SYNTHETIC["tcp64_1m"] = "fixed --size 64 --flows 1000000 --ppf 8 --seed 6401"
SYNTHETIC["nfs_64k"] = "nfs --mix data --ops 14000 --clients 50 --seed 7"
SYNTHETIC["nfs_chronicle"] = "nfs --mix chronicle --ops 12000 --clients 50 --seed 8"
SYNTHETIC["nfs_1byte"] = "nfs --mix onebyte --ops 400000 --clients 200 --seed 9"

HTTP_TIMES = ["-Y", "http", "-T", "fields", "-e", "http.request.method", "-e", "http.request.full_uri", "-e", "http.response.code", "-e", "http.time"]
MYSQL_FIELDS = ["-Y", "mysql", "-T", "fields", "-e", "mysql.command", "-e", "mysql.query", "-e", "mysql.error_code"]
MEMCACHE_FIELDS = ["-Y", "memcache", "-T", "fields", "-e", "memcache.command", "-e", "memcache.opcode", "-e", "memcache.key"]
PORTS = {"http": 80, "mysql": 3306, "memcached": 11211, "nfs": 2049}


def peer(name, capture, here, work):
    """A peer's command, and what it omits compared with us."""
    crates = f"{here}/target/release/peers"
    if name.startswith("packetbeat "):
        protocol = "memcache" if name.endswith("memcached") else name.split()[1]
        port = PORTS[name.split()[1]]
        config = f"{work}/packetbeat.yml"
        with open(config, "w") as f:
            f.write(f"packetbeat.shutdown_timeout: 5s\npacketbeat.flows.enabled: false\npacketbeat.protocols:\n- type: {protocol}\n  ports: [{port}]\n"
                    f"output.file:\n  path: {work}\n  filename: packetbeat\n  rotate_every_kb: 10000000\nlogging.level: error\n")
        return [f"{here}/target/peers/packetbeat", "-c", config, "--path.home", work, "-I", capture, "-t", "-e"], ""
    tshark = ["tshark", "-n", "-r", capture]
    return {
        "tcpdump --count": (["tcpdump", "-n", "--count", "-r", capture], "counts packets only"),
        "nfpcapd": (["nfpcapd", "-r", capture, "-w", work], ""),
        "argus": (["argus", "-r", capture, "-w", f"{work}/argus.out"], ""),
        "softflowd": (["softflowd", "-m", "4000000", "-r", capture], ""),
        "ndpiReader": (["ndpiReader", "-q", "-i", capture], ""),
        "tshark http,tree": ([*tshark, "-q", "-z", "http,tree"], ""),
        "tshark http fields": ([*tshark, *HTTP_TIMES], ""),
        "tshark mysql fields": ([*tshark, *MYSQL_FIELDS], "no pairing, no times"),
        "tshark memcached fields": ([*tshark, *MEMCACHE_FIELDS], "no pairing, no times"),
        "nfstrace breakdown": (["env", "-C", work, "nfstrace", "-m", "stat", "-I", capture, "--log", "nfstrace.log", "-a", "libbreakdown.so"], "no check-sums; a table of times"),
        "tshark rpc srt": ([*tshark, "-q", "-z", "rpc,srt,100003,3"], "no check-sums; a table of times"),
        "httparse by packet": ([crates, "httparse", capture], "no reassembly, pairing or times"),
        "sources (HashMap, ahash)": ([crates, "sources", capture], "a program of 20 lines"),
        "flows (HashMap, ahash)": ([crates, "flows", capture], "one-way counts only: no TCP, no end, no times"),
    }[name]
