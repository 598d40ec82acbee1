//! Compares the protocol names of flows with tshark's (`protos` in `tcp.tsv` and `udp.tsv`) over the whole corpus: no
//! flow has a wrong name, and unnamed flows are listed. docs/recognition.md has the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{EVERYWHERE, Row, captures, run, truth};

/// tshark's protocol names and ours.
const NAMES: &[(&str, &str)] = &[
    ("bgp", "bgp"),
    ("bittorrent", "bittorrent"),
    ("cflow", "netflow"),
    ("cflow", "ipfix"),
    ("cldap", "ldap"),
    ("cql", "cassandra"),
    ("dcerpc", "dcerpc"),
    ("dhcp", "dhcp"),
    ("dhcpv6", "dhcpv6"),
    ("dnp3", "dnp3"),
    ("dns", "dns"),
    ("dtls", "dtls"),
    ("ftp", "ftp"),
    ("gquic", "quic"),
    ("http", "http"),
    ("http2", "http2"),
    ("iec60870_104", "iec104"),
    ("kafka", "kafka"),
    ("kerberos", "kerberos"),
    ("ldap", "ldap"),
    ("llmnr", "dns"),
    ("mdns", "dns"),
    ("memcache", "memcached"),
    ("mongo", "mongodb"),
    ("mysql", "mysql"),
    ("nbdgm", "netbios"),
    ("nbns", "netbios"),
    // NetBIOS name service uses the DNS message format, so the DNS parser reads it.
    ("nbns", "dns"),
    ("nbss", "smb"),
    ("ntp", "ntp"),
    ("pgsql", "postgresql"),
    ("quic", "quic"),
    ("radius", "radius"),
    ("resp", "redis"),
    ("rpc", "rpc"),
    ("sflow", "sflow"),
    ("sip", "sip"),
    ("smb", "smb"),
    ("smb2", "smb"),
    ("smtp", "smtp"),
    ("snmp", "snmp"),
    ("ssdp", "ssdp"),
    ("ssh", "ssh"),
    ("stun", "stun"),
    ("telnet", "telnet"),
    ("tftp", "tftp"),
    ("tls", "tls"),
    ("vnc", "vnc"),
    ("wg", "wireguard"),
];

/// Flows with a different name than tshark's: capture, tshark's name, our name.
const OTHERWISE: &[(&str, &str, &str)] = &[
    // HTTP requests on ports that tshark assigns to another protocol.
    ("wswiki-c05-http-reply-r1.pcap.gz", "cflow", "http"),
    ("wswiki-c05-http-reply-r1.pcap.gz", "iec60870_104", "http"),
    // Starts as HTTP/1.1 and is upgraded.
    ("http2_h2c.pcap", "http2", "http"),
];

/// Flows without a name that could have one: capture, tshark's name, reason.
const NOT_NAMED: &[(&str, &str, &str)] = &[
    ("mercury-capture2.pcap.gz", "dcerpc", "joined midway"),
    (
        "mercury-capture2.pcap.gz",
        "tls",
        "joined midway, by its port alone",
    ),
    ("mercury-emix.pcap.gz", "tls", "inside of OpenVPN"),
    ("mercury-emix.pcap.gz", "ssh", "joined midway, encrypted"),
    (
        "mercury-emix.pcap.gz",
        "tftp",
        "data, on ports that another flow has agreed on",
    ),
    ("pcpp-ip-frag.pcap.gz", "ssh", "joined midway, encrypted"),
    (
        "libtrace-ip-in-mpls.pcap.gz",
        "rpc",
        "not RPC: a guess of tshark's",
    ),
    (
        "wswiki-pgsql-jdbc.pcap.gz",
        "wg",
        "not WireGuard: a guess of tshark's",
    ),
    (
        "ndpi-netflowv9.pcap",
        "cflow",
        "records alone, on another port",
    ),
    (
        "wswiki-grpc_person_search_protobuf_with_image-missing_headers.pcapng",
        "http2",
        "joined in a body",
    ),
    ("percona-tcpdump008.pcap", "mysql", "joined in a result"),
    ("tcpdump-hoobr_nfs_printfh.pcap", "rpc", "malformed"),
    ("suricata-UnknownMessage.pcap", "pgsql", "malformed"),
    ("tcpdump-resp_4_infiniteloop.pcapng", "resp", "malformed"),
    (
        "deepflow-pgsql-all.pcap",
        "pgsql",
        "joined midway, on another port",
    ),
];

/// Names for flows that tshark does not identify.
const WITHOUT_TRUTH: &[(&str, &str, &str)] = &[
    ("ndpi-mongodb.pcap", "mongodb", "on another port"),
    (
        "tcpdump-sflow_multiple_counter_30_pdus.pcap",
        "netflow",
        "on the port of sFlow",
    ),
    ("tcpdump-nfs-seg-fault-1.pcapng", "rpc", "malformed"),
    ("nfs.pcap.gz", "rpc", "mountd, on a port of its own"),
    ("nfs_lossy.pcap", "rpc", "mountd, on a port of its own"),
];

type Ends = (String, BTreeSet<(String, String)>);

#[test]
fn flows_have_the_name_of_their_protocol() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    // Damaged copies of other captures add no information, and noise has no protocol.
    let folders = EVERYWHERE
        .iter()
        .filter(|folder| !["derived", "bench", "captures/malformed"].contains(folder));
    let mut counts = BTreeMap::<String, Counts>::new();
    let mut wrong = BTreeSet::new();
    for capture in captures(&root, &folders.copied().collect::<Vec<_>>()) {
        check(&capture, &mut counts, &mut wrong);
    }
    for capture in captures(&root, &["found", "found/bugs"]) {
        check_by_name(&capture, &mut counts, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    compare_page(&counts);
    let named: BTreeMap<_, _> = counts
        .iter()
        .map(|(name, counts)| (name.as_str(), counts.named))
        .collect();
    for (name, flows_min) in [
        ("cassandra", 7),
        ("dns", 200),
        ("http", 900),
        ("http2", 8),
        ("kafka", 20),
        ("memcached", 20),
        ("mongodb", 9),
        ("mysql", 100),
        ("postgresql", 300),
        ("redis", 50),
        ("rpc", 80),
        ("smb", 100),
        ("tls", 150),
    ] {
        let flows = named.get(name).copied().unwrap_or_default();
        assert!(flows >= flows_min, "{flows} flows of {name}: {named:#?}");
    }
}

/// Number of flows per protocol.
#[derive(Default)]
struct Counts {
    named: u64,
    unnamed: u64,
}

type Wrong = BTreeSet<(String, String, String)>;

/// Protocols of captures without a truth file, by file name prefix. Their flows contain no other protocol.
const BY_NAME: &[(&str, &str)] = &[
    ("dns_", "dns"),
    ("http_", "http"),
    ("mc_", "memcached"),
    ("mysql_", "mysql"),
    ("nfs_", "rpc"),
    ("redis_", "redis"),
    ("rpc_false_dhcp", "dhcp"),
    ("rpc_false_ntp", "ntp"),
    ("tls_", "tls"),
];

fn check_by_name(capture: &Path, counts: &mut BTreeMap<String, Counts>, wrong: &mut Wrong) {
    let file = capture
        .file_name()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned();
    // Damaged files combine captures of several protocols.
    let is_mixed = file.contains("_damaged");
    let of_one = BY_NAME
        .iter()
        .find(|(begin, _)| file.starts_with(begin) && !is_mixed);
    let Some((_, theirs)) = of_one else { return };
    for row in run(capture, "flow").rows {
        let ours = row.get("application").map(String::as_str);
        let counts = counts.entry((*theirs).to_owned()).or_default();
        match ours {
            Some(ours) if ours == *theirs => counts.named += 1,
            None => counts.unnamed += 1,
            Some(_) => {
                wrong.insert((file.clone(), format!("{ours:?}"), (*theirs).to_owned()));
            }
        }
    }
}

/// Compares the recognition table in docs/recognition.md; `UPDATE=1` rewrites it.
fn compare_page(counts: &BTreeMap<String, Counts>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recognition.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let begin = "<!-- table -->\n";
    let end = "<!-- end -->";
    let (before, rest) = page.split_once(begin).expect("the page has a table");
    let (table, after) = rest.split_once(end).expect("the page has a table");
    let mut expected =
        "| protocol | flows | named | unnamed | false |\n|---|---|---|---|---|\n".to_owned();
    for (name, Counts { named, unnamed }) in counts {
        expected += &format!(
            "| {name} | {} | {named} | {unnamed} | 0 |\n",
            named + unnamed
        );
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, [before, begin, &expected, end, after].concat())
            .expect("it can be written");
        return;
    }
    assert_eq!(table, expected, "UPDATE=1 writes it");
}

fn check(capture: &Path, counts: &mut BTreeMap<String, Counts>, wrong: &mut Wrong) {
    let file = capture
        .file_name()
        .expect("a file has a name")
        .to_string_lossy()
        .into_owned();
    let mut expected = BTreeMap::<Ends, BTreeSet<String>>::new();
    for (table, transport) in [("tcp.tsv", "tcp"), ("udp.tsv", "udp")] {
        for row in truth(capture, table).unwrap_or_default() {
            let ends = if transport == "tcp" {
                [("client", "cport"), ("server", "sport")]
            } else {
                [("a", "aport"), ("b", "bport")]
            };
            let protos = row
                .get("protos")
                .into_iter()
                .flat_map(|all| all.split(' '))
                .map(str::to_owned);
            expected
                .entry(ends_of(&row, transport, ends))
                .or_default()
                .extend(protos);
        }
    }
    for row in run(capture, "flow").rows {
        let ends = ends_of(
            &row,
            &row["transport"],
            [("client_ip", "client_port"), ("server_ip", "server_port")],
        );
        let Some(protos) = expected.get(&ends) else {
            continue;
        };
        let known = protos
            .iter()
            .filter(|p| NAMES.iter().any(|(theirs, _)| theirs == p));
        let theirs: Vec<&str> = known.map(String::as_str).collect();
        let has_payload = ["client_payload_bytes", "server_payload_bytes"]
            .iter()
            .any(|f| row[*f] != "0");
        let is_listed = |list: &[(&str, &str, &str)], name: &str| {
            list.iter()
                .any(|(capture, listed, _)| *capture == file && *listed == name)
        };
        match (row.get("application"), theirs.as_slice()) {
            (Some(ours), theirs) if theirs.iter().any(|theirs| NAMES.contains(&(theirs, ours))) => {
                counts.entry(ours.clone()).or_default().named += 1;
            }
            (Some(ours), [theirs, ..]) if OTHERWISE.contains(&(&file, theirs, ours)) => {
                counts.entry(ours.clone()).or_default().named += 1;
            }
            // tshark assigns HTTP flows to other protocols by port, and identifies nothing if a message is incomplete.
            (Some(ours), []) if ours == "http" || is_listed(WITHOUT_TRUTH, ours) => {
                counts.entry(ours.clone()).or_default().named += 1;
            }
            (None, theirs) if theirs.is_empty() || !has_payload => {}
            (None, theirs) if theirs.iter().any(|theirs| is_listed(NOT_NAMED, theirs)) => {
                let first = theirs
                    .iter()
                    .find_map(|theirs| NAMES.iter().find(|(name, _)| name == theirs));
                counts
                    .entry(first.map_or("", |(_, ours)| *ours).to_owned())
                    .or_default()
                    .unnamed += 1;
            }
            (ours, theirs) => {
                wrong.insert((file.clone(), format!("{ours:?}"), theirs.join(" ")));
            }
        }
    }
}

fn ends_of(row: &Row, transport: &str, ends: [(&str, &str); 2]) -> Ends {
    let of = |(addr, port): (&str, &str)| (row[addr].clone(), row[port].clone());
    (transport.to_owned(), ends.map(of).into())
}
