//! Compares ONC RPC calls with `rpc.tsv` of every capture that has one: each row with xid, program, version, procedure,
//! file handle, name, offset, counts, status, and times in nanoseconds. Differences are listed in [`DIFFERENCES`] and
//! explained in `docs/truth/nfs.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    EVERYWHERE, ListedDifferences, Row, as_listed, check_others, compare_captures, nanos, run,
    truth,
};

/// Captures in which the truth lacks calls, or our tuples do; see `docs/truth/nfs.md`.
const DIFFERENCES: &ListedDifferences = &[
    (
        "pcpp-ip4_fragments.pcap",
        // Replies whose calls are not in the capture: tshark does not identify them as RPC.
        &[
            "surplus: 10.118.213.212:789 0x983928f7 - - at 1214528320100586000 - half",
            "surplus: 10.118.213.212:789 0x993928f7 - - at 1214528320101330000 - half",
            "surplus: 10.118.213.212:789 0x9a3928f7 - - at 1214528320101903000 - half",
        ],
    ),
    (
        "nfstrace-eth-ipv4-udp-nfsv3-dup-retransm.pcap",
        // As above, and a WRITE with a missing fragment.
        &[
            "surplus: 10.6.136.186:912 0xce6b855e - - at 1394627010120031000 - half",
            "surplus: 10.6.136.186:912 0xbe6b855e - - at 1394627010120204000 - half",
            "surplus: 10.6.136.186:912 0xbf6b855e - - at 1394627010120341000 - half",
            "surplus: 10.6.136.186:912 0xc06b855e - - at 1394627010120457000 - half",
            "surplus: 10.6.136.186:912 0x7573855e - - at 1394627013518172000 - half",
            "surplus: 10.6.136.186:912 0xe13e865e - - at 1394627112891377000 - half",
            "surplus: 10.6.136.186:912 0xf03e865e nfs WRITE at 1394627113042775000 - half",
        ],
    ),
    (
        "pcpp-ip-frag.pcap.gz",
        // As above; a datagram with a missing fragment is partially reassembled too late for its reply.
        &[
            "surplus: 10.118.213.212:789 0x593a28f7 - - at 1214528396411096000 - half",
            "surplus: 10.118.213.212:789 0x5a3a28f7 - - at 1214528396411511000 - half",
            "surplus: 10.118.213.212:789 0xe73a28f7 - - at 1214528397007455000 - half",
            "surplus: 10.118.213.212:789 0xe83a28f7 - - at 1214528397008141000 - half",
            "surplus: 10.118.213.212:789 0xe93a28f7 - - at 1214528397008272000 - half",
            "surplus: 10.118.213.212:789 0x593a28f7 nfs WRITE at 1214528396406936000 - half",
        ],
    ),
    (
        "nfs.pcap.gz",
        // tshark identifies the client port 647 as DHCP failover.
        &[
            "surplus: 10.77.0.2:647 0x7cfb0527 mount NULL at 1795291212363409000 28000 exact",
            "surplus: 10.77.0.2:647 0x7cfb0528 mount MNT at 1795291212363466000 20000 exact",
            "surplus: 10.77.0.2:647 0x7cfb0529 mount EXPORT at 1795291212363506000 17000 exact",
        ],
    ),
    (
        "nfs_lossy.pcap",
        // tshark identifies port 564 as 9P.
        &[
            "surplus: 10.78.0.2:564 0x030e76e3 mount NULL at 1795291241491967000 10951000 exact",
            "surplus: 10.78.0.2:564 0x030e76e4 mount MNT at 1795291241502964000 9199000 exact",
            "surplus: 10.78.0.2:564 0x030e76e5 mount EXPORT at 1795291241512215000 15317000 exact",
        ],
    ),
];

/// Captures with RPC that the truth does not cover.
const UNTOLD: &[&str] = &["tcpdump-nfs-seg-fault-1.pcapng"];

/// Bulk captures of other projects, stored as bzip2.
const BULK: &[&str] = &[
    "eth-ipv4-tcp-nfsv3.pcap",
    "2sessions-tcp-wsize32k-tcp-wsize512k.pcap",
];

#[test]
fn calls_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 1000, |capture, name| {
        let Some(expected) = truth(capture, "rpc.tsv") else {
            return Ok(0);
        };
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

#[test]
fn bulk_captures_agree_with_the_truth() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for name in BULK {
        let capture = root.join("bench").join(name);
        let Some(unpacked) = unpacked(&capture) else {
            return;
        };
        let expected = truth(&capture, "rpc.tsv").expect("its truth");
        let found = compare(unpacked.path(), &expected);
        assert_eq!(as_listed(name, &found, DIFFERENCES), Ok(()));
    }
}

/// No other protocol is identified as RPC.
#[test]
fn other_protocols_have_no_tuples() {
    check_others(EVERYWHERE, "rpc", "rpc.tsv", UNTOLD);
}

/// The capture decompressed from bzip2, which the program does not read.
fn unpacked(capture: &Path) -> Option<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new()
        .suffix(".pcap")
        .tempfile()
        .expect("a temporary file");
    let out = file.reopen().expect("it was just made");
    let packed = PathBuf::from(format!("{}.bz2", capture.display()));
    let status = Command::new("bzip2")
        .arg("-dc")
        .arg(packed)
        .stdout(out)
        .status();
    assert!(
        testkit::require!("bzip2" => status).success(),
        "bzip2 -dc {}.bz2",
        capture.display()
    );
    Some(file)
}

/// Every difference between the truth's rows and the tuples, as text.
fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let rows = run(capture, "rpc").rows;
    let mut unused: Vec<Option<&Row>> = rows.iter().map(Some).collect();
    let mut found = Vec::new();
    for t in expected {
        // A retransmitted call belongs to the tuple of its first transmission.
        if t.get("note")
            .is_some_and(|note| note.starts_with("retransmission of call"))
        {
            continue;
        }
        let wanted = Wanted::of(t);
        match unused
            .iter()
            .position(|row| row.is_some_and(|row| wanted.is_same_call(row)))
        {
            Some(place) => found.extend(unused[place].take().and_then(|row| wanted.differs(row))),
            None => found.push(format!("missing: {}", wanted.describe())),
        }
    }
    found.extend(
        unused
            .into_iter()
            .flatten()
            .map(|row| format!("surplus: {}", describe(row))),
    );
    found
}

/// The truth's values for a call.
struct Wanted<'a> {
    truth: &'a Row,
    xid: String,
    ts: i64,
}

impl Wanted<'_> {
    fn of(t: &Row) -> Wanted<'_> {
        let xid =
            u32::from_str_radix(t["xid"].trim_start_matches("0x"), 16).expect("a hexadecimal xid");
        let first = t
            .get("t_call_first")
            .or(t.get("t_reply_first"))
            .expect("a time");
        Wanted {
            truth: t,
            xid: xid.to_string(),
            ts: nanos(first),
        }
    }

    fn is_same_call(&self, row: &Row) -> bool {
        // A server sends callbacks on the client's connection.
        let back = self.truth.get("program").is_some_and(|p| p == "1073741824");
        let end = if back {
            ["server_ip", "server_port"]
        } else {
            ["client_ip", "client_port"]
        };
        let client = format!("{}:{}", row[end[0]], row[end[1]]);
        row["xid"] == self.xid
            && row["ts"] == self.ts.to_string()
            && client == format!("{}:{}", self.truth["client"], self.truth["cport"])
    }

    /// The first difference in the tuple; fields without a value in the truth are not compared.
    fn differs(&self, row: &Row) -> Option<String> {
        let t = self.truth;
        let mut found = Vec::new();
        let mut same = |field, truth| found.extend(differs(row, field, truth));
        same(
            "program",
            t.get("program").map(|p| {
                if p == "1073741824" {
                    "nfs_cb".to_owned()
                } else {
                    p.clone()
                }
            }),
        );
        same("version", t.get("version").cloned());
        let number = |name: &str| name.strip_prefix("proc-").map(str::to_owned);
        let known = t
            .get("program")
            .is_none_or(|p| p.parse::<u32>().is_err() || p == "1073741824");
        let procedure = t.get(if known { "procname" } else { "procedure" });
        same(
            "procedure",
            procedure.map(|name| number(name).unwrap_or(name.clone())),
        );
        let several = t.get("version").is_some_and(|v| v == "4");
        if let Some(name) = t.get("name").filter(|_| !several) {
            // The truth lists all names of a call.
            let fields = match row.get("procedure").map(String::as_str) {
                Some("RENAME" | "LINK") => &["name", "to_name"][..],
                _ => &["name"],
            };
            let is: Vec<_> = fields
                .iter()
                .filter_map(|field| row.get(*field).cloned())
                .collect();
            if *name != is.join("/") {
                found.push(format!("name {is:?} not {name}"));
            }
        }
        for (field, truth) in [
            ("offset", "offset"),
            ("count", "count"),
            ("result_count", "reply_count"),
        ] {
            let truth = t.get(truth).filter(|_| !several);
            found.extend(differs(row, field, truth.cloned()));
        }
        let handle = row.get("file_handle").map(|handle| handle_hash(handle));
        if let (Some(truth), Some(is)) = (t.get("fh"), handle)
            && truth.split(' ').next() != Some(&is)
        {
            found.push(format!("file_handle {is} not {truth}"));
        }
        let status = t
            .get("status")
            .and_then(|s| s.parse().ok())
            .and_then(status);
        let mut same = |field, truth| found.extend(differs(row, field, truth));
        same("status", status.map(str::to_owned));
        let time = |field: &str| t.get(field).map(|v| nanos(v));
        let between = |a: Option<i64>, b: Option<i64>| Some((b? - a?).to_string());
        let asked = time("t_call_last");
        let answered = time("t_reply_first");
        let times = [
            ("call_time_ns", between(time("t_call_first"), asked)),
            ("response_time_ns", between(asked, answered)),
            ("transfer_time_ns", between(answered, time("t_reply_last"))),
            ("total_time_ns", between(asked, time("t_reply_last"))),
        ];
        for (field, truth) in times {
            // With missing bytes, our fields are null, and tshark does not reassemble the message.
            let known = row["quality"] == "exact"
                || row.contains_key(field)
                    && !["transfer_time_ns", "total_time_ns"].contains(&field);
            same(field, truth.filter(|_| known));
        }
        (!found.is_empty()).then(|| {
            format!(
                "{}: {} ({})",
                self.describe(),
                found.join(", "),
                row["quality"]
            )
        })
    }

    fn describe(&self) -> String {
        let t = self.truth;
        let f = |name: &str| t.get(name).map_or("-", |v| v);
        format!(
            "{}:{} {} {} {} at {} {}",
            f("client"),
            f("cport"),
            f("xid"),
            f("program"),
            f("procname"),
            self.ts,
            f("note")
        )
    }
}

/// The difference between a field of a tuple and its value in the truth, if the truth has one.
fn differs(row: &Row, field: &str, truth: Option<String>) -> Option<String> {
    let is = row.get(field);
    let truth = truth.filter(|truth| Some(truth) != is)?;
    Some(format!("{field} {} not {truth}", is.map_or("-", |v| v)))
}

fn describe(row: &Row) -> String {
    let f = |name: &str| row.get(name).map_or("-", |v| v);
    format!(
        "{}:{} {:#010x} {} {} at {} {} {}",
        f("client_ip"),
        f("client_port"),
        row["xid"].parse::<u32>().expect("an xid"),
        f("program"),
        f("procedure"),
        f("ts"),
        f("response_time_ns"),
        f("quality")
    )
}

/// tshark's abbreviation of a file handle: CRC-32.
fn handle_hash(hex: &str) -> String {
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    format!("0x{:08x}", crc.sum())
}

fn status(number: u32) -> Option<&'static str> {
    Some(match number {
        0 => "ok",
        2 => "noent",
        13 => "access",
        17 => "exist",
        _ => return None,
    })
}
