//! Runs a capture through a monitor, converts its tuples to text, and reads truth files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_array::Array;
use monitor::{Monitor, MonitorConfig, PacketAccounting};
use parsers::registry;
use plan::{MonitorSpec, ParserUse};
use testkit::{ByteOrder, SentPacket, TimestampPrecision, pcap_bytes};
use tuple::{Batch, DataType};

/// One tuple: field name to value as text; a null field is absent.
pub type Row = HashMap<String, String>;

/// Every folder of the corpus.
pub const EVERYWHERE: &[&str] = &[
    "captures/cassandra",
    "captures/dns",
    "captures/flowexport",
    "captures/formats",
    "captures/http",
    "captures/http2",
    "captures/ipfrag",
    "captures/kafka",
    "captures/malformed",
    "captures/memcached",
    "captures/mixed",
    "captures/mongodb",
    "captures/mysql",
    "captures/nfs",
    "captures/pgsql",
    "captures/redis",
    "captures/tcp",
    "captures/tls",
    "captures/tunnels",
    "derived",
    "live-captures",
    "bench",
];

/// Every capture below `root` in `folders`, sorted, except bzip2 files.
pub fn captures(root: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        let entries =
            std::fs::read_dir(root.join(folder)).expect("a folder of the corpus can be read");
        found.extend(
            entries
                .map(|e| e.expect("a folder of the corpus can be read").path())
                .filter(|p| {
                    let name = p.file_name().unwrap_or_default().to_string_lossy();
                    let name = name.trim_end_matches(".gz");
                    name.ends_with(".pcap") || name.ends_with(".pcapng")
                }),
        );
    }
    found.sort();
    assert!(!found.is_empty(), "no captures in {folders:?}");
    found
}

/// The truth folder of a capture.
pub fn truth_dir(capture: &Path) -> PathBuf {
    let name = capture.to_string_lossy();
    PathBuf::from(format!("{}.truth", name.trim_end_matches(".gz")))
}

/// A truth table; `name` as in `http.tsv`, plain or gzipped. `None` if the capture has none.
pub fn truth(capture: &Path, name: &str) -> Option<Vec<Row>> {
    let plain = truth_dir(capture).join(name);
    let text = match std::fs::read(&plain) {
        Ok(bytes) => bytes,
        Err(_) => {
            let file = std::fs::File::open(format!("{}.gz", plain.display())).ok()?;
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes)
                .expect("gzip of the corpus");
            bytes
        }
    };
    let text = String::from_utf8(text).expect("truth is UTF-8");
    let mut lines = text.split('\n').filter(|l| !l.is_empty());
    let head: Vec<&str> = lines.next()?.split('\t').collect();
    let rows = lines.map(|line| {
        let cells = line.split('\t').map(unescape);
        head.iter()
            .map(|h| (*h).to_owned())
            .zip(cells)
            .filter(|(_, v)| !v.is_empty())
            .collect()
    });
    Some(rows.collect())
}

/// Decodes the escapes `\t \n \r \0 \\`.
fn unescape(cell: &str) -> String {
    let mut out = String::with_capacity(cell.len());
    let mut chars = cell.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('0') => out.push('\0'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

/// Checks that captures without a truth table have no tuples of its parser, except the files in `untold`.
pub fn check_others(folders: &[&str], parser: &str, table: &str, untold: &[&str]) {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for capture in captures(&root, folders) {
        let is_untold = untold.iter().any(|name| capture.ends_with(name));
        if truth(&capture, table).is_none() && !is_untold {
            let rows = run(&capture, parser).rows;
            assert!(rows.is_empty(), "{}: {:?}", capture.display(), rows[0]);
        }
    }
}

/// Calls `check` with the tuples of a little-endian pcap file with packet loss, for several loss rates and seeds.
pub fn with_losses(capture: &Path, parser: &str, mut check: impl FnMut(f64, Vec<Row>)) {
    let whole = std::fs::read(capture).expect("a capture can be read");
    for (loss, seed) in [0.01, 0.05, 0.15, 0.4]
        .into_iter()
        .flat_map(|loss| (0..10).map(move |seed| (loss, seed)))
    {
        let file = tempfile::Builder::new()
            .suffix(".pcap")
            .tempfile()
            .expect("a temporary file");
        std::fs::write(file.path(), without_packets(&whole, loss, seed))
            .expect("it can be written");
        check(loss, run(file.path(), parser).rows);
    }
}

/// Result of one run.
pub struct Run {
    /// Tuples in the order of emission.
    pub rows: Vec<Row>,
    /// Packet counts by outcome.
    pub accounting: PacketAccounting,
    /// Packets delivered by the source.
    pub packets: u64,
}

/// All fields of one parser's tuples over a whole capture.
pub fn run(capture: &Path, parser: &str) -> Run {
    run_all(capture, &[parser])
}

/// The same for several parsers.
pub fn run_all(capture: &Path, parsers: &[&str]) -> Run {
    let parsers = parsers.iter().map(|name| {
        let parser = registry::find(name).unwrap_or_else(|| panic!("no parser {name}"));
        ParserUse::all_columns(std::sync::Arc::new((parser.schema)()))
    });
    let run = run_spec(
        capture,
        &MonitorSpec {
            parsers: parsers.collect(),
            ..MonitorSpec::default()
        },
    );
    run.rows.iter().for_each(check_total_time);
    run
}

/// The total time is the sum of response time and transfer time, and null if one of the ends was not seen.
fn check_total_time(row: &Row) {
    let time = |field: &str| -> Option<i64> { row.get(field)?.parse().ok() };
    let [response, transfer, total] =
        ["response_time_ns", "transfer_time_ns", "total_time_ns"].map(time);
    let is_right = match (response, transfer, total) {
        (Some(response), Some(transfer), total) => total == Some(response + transfer),
        // DNS has no transfer time.
        (Some(response), None, Some(total)) => row.contains_key("query_name") && total >= response,
        // The response began before the request was complete.
        (None, Some(transfer), Some(total)) => row["quality"] != "half" && total <= transfer,
        (None, None, Some(_)) => false,
        (_, _, None) => true,
    };
    assert!(is_right || row.contains_key("sni"), "{row:?}");
}

/// The tuples of all parsers of a spec.
pub fn run_spec(capture: &Path, spec: &MonitorSpec) -> Run {
    let mut source = capture::open(&[capture.to_owned()]);
    let mut monitor = Monitor::new(spec, MonitorConfig::default());
    let mut batches = Vec::new();
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        let _ = monitor.on_block(block.packets(), block.clock(), &mut batches);
        assert!(monitor.accounting().adds_up());
    }
    monitor.finish(&mut batches);
    Run {
        rows: batches.iter().flat_map(|(_, batch)| rows(batch)).collect(),
        accounting: monitor.accounting(),
        packets: source.counters().packets,
    }
}

/// Converts a batch to text.
pub fn rows(batch: &Batch) -> Vec<Row> {
    (0..batch.rows())
        .map(|row| {
            batch
                .present()
                .filter(|id| batch.column(*id).is_some_and(|c| c.is_valid(row)))
                .map(|id| {
                    let field = batch.schema().field(id);
                    let value = match field.data_type {
                        DataType::Bool => batch.bool(id).value(row).to_string(),
                        DataType::U64 => batch.u64(id).value(row).to_string(),
                        DataType::I64 => batch.i64(id).value(row).to_string(),
                        DataType::F64 => batch.f64(id).value(row).to_string(),
                        DataType::Text | DataType::Json => batch.text(id).value(row).to_owned(),
                        DataType::Hashes => tuple::hashes::to_text(batch.hashes(id).value(row)),
                        DataType::Ip => {
                            let bytes: [u8; 16] = batch
                                .ip(id)
                                .value(row)
                                .try_into()
                                .expect("an address has 16 bytes");
                            wire::Addr(bytes).to_string()
                        }
                    };
                    (field.name.to_string(), value)
                })
                .collect()
        })
        .collect()
}

/// A capture whose rows differ from the truth.
pub struct Difference {
    /// File name.
    pub capture: &'static str,
    /// Reason for the difference.
    pub why: &'static str,
    /// Number of rows only in the truth, and only in our output.
    pub count: (usize, usize),
    /// Digest of all differing rows.
    pub digest: u64,
}

/// Compares each capture in `folders` with its truth. `compare` gets the path and the file name, and returns the number
/// of rows of truth, or the unexpected differences. Fails unless more than `rows_min` rows were compared.
pub fn compare_captures(
    folders: &[&str],
    rows_min: usize,
    mut compare: impl FnMut(&Path, &str) -> Result<usize, String>,
) {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut rows = 0;
    let mut failures = Vec::new();
    for capture in captures(&root, folders) {
        let name = capture
            .file_name()
            .expect("a capture has a name")
            .to_string_lossy();
        match compare(&capture, &name) {
            Ok(compared) => rows += compared,
            Err(found) => failures.push(format!("{name}: {found}")),
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows > rows_min, "{rows} rows of truth");
}

/// Succeeds if the lines `found` of a capture, `-` truth and `+` ours, are the known differences; otherwise returns
/// them as an error.
pub fn as_known(name: &str, found: &[String], known: &[Difference]) -> Result<(), String> {
    let truths = found.iter().filter(|line| line.starts_with('-')).count();
    let count = (truths, found.len() - truths);
    let digest = crate::http::digest(found);
    let known = known.iter().find(|known| known.capture == name);
    assert!(known.is_none_or(|known| !known.why.is_empty()));
    match known {
        None if found.is_empty() => Ok(()),
        Some(known) if (known.count, known.digest) == (count, digest) => Ok(()),
        _ => Err(format!(
            "{count:?} digest {digest:#018x}\n  {}",
            found.join("\n  ")
        )),
    }
}

/// Differences by capture, each as text.
pub type ListedDifferences = [(&'static str, &'static [&'static str])];

/// The same for differences that are listed completely.
pub fn as_listed(name: &str, found: &[String], known: &ListedDifferences) -> Result<(), String> {
    let known = known
        .iter()
        .find(|(capture, _)| *capture == name)
        .map_or(&[][..], |(_, differences)| differences);
    if found == known {
        Ok(())
    } else {
        Err(format!("{found:#?}"))
    }
}

/// Rows on one side only, as text with a sign: `-` truth, `+` ours. Each row of ours matches at most one of the truth.
pub fn unmatched<T>(
    mut truths: Vec<T>,
    ours: impl IntoIterator<Item = T>,
    is_match: impl Fn(&T, &T) -> bool,
    text: impl Fn(&T) -> String,
) -> Vec<String> {
    let mut surplus = Vec::new();
    for row in ours {
        match truths.iter().position(|truth| is_match(truth, &row)) {
            Some(at) => drop(truths.remove(at)),
            None => surplus.push(row),
        }
    }
    let line = |sign: char, row: &T| format!("{sign} {}", text(row));
    let mut lines: Vec<_> = truths
        .iter()
        .map(|row| line('-', row))
        .chain(surplus.iter().map(|row| line('+', row)))
        .collect();
    lines.sort();
    lines
}

/// Parses seconds with a fraction (`1795291157.229334000`, also negative) into nanoseconds.
pub fn nanos(seconds: &str) -> i64 {
    let (negative, digits) = match seconds.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, seconds),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = format!("{fraction:0<9}");
    let nanos = whole.parse::<i64>().expect("whole seconds") * 1_000_000_000
        + fraction[..9]
            .parse::<i64>()
            .expect("a fraction of a second");
    if negative { -nanos } else { nanos }
}

/// First byte of the request, response time, transfer time, and total time in nanoseconds, by the truth. A response before
/// its request means wrong packet times: the times between the two are null.
pub fn true_times(truth: &Row) -> [Option<i64>; 4] {
    let time = |field: &str| truth.get(field).map(|v| nanos(v));
    let between = |a: Option<i64>, b: Option<i64>| Some(b? - a?);
    let asked = time("t_req_last");
    let first = time("t_resp_first");
    let last = time("t_resp_last");
    [
        time("t_req_first"),
        between(asked, first).filter(|ns| *ns >= 0),
        between(first, last),
        between(asked, last).filter(|ns| *ns >= 0),
    ]
}

/// The same times of a tuple.
pub fn times(row: &Row) -> [Option<i64>; 4] {
    [
        "ts",
        "response_time_ns",
        "transfer_time_ns",
        "total_time_ns",
    ]
    .map(|field| Some(row.get(field)?.parse().expect("a number")))
}

/// The little-endian pcap file with random packet loss.
pub fn without_packets(file: &[u8], loss: f64, seed: u64) -> Vec<u8> {
    let mut rng = testkit::SeededRng::new(seed);
    let (head, mut rest) = file.split_at(24);
    let mut out = head.to_vec();
    while let Some(len) = rest.get(8..12) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        let (record, after) = rest.split_at(16 + len);
        if !rng.chance(loss) {
            out.extend_from_slice(record);
        }
        rest = after;
    }
    out
}

/// A capture file of these packets, removed on drop.
pub fn written(sent: &[SentPacket]) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".pcap")
        .tempfile()
        .expect("a temporary file");
    std::fs::write(
        file.path(),
        pcap_bytes(sent, TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("it can be written");
    file
}
