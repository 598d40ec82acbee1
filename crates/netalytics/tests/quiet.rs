//! No silent losses: signals, full disks, remains of killed runs, unusual files; and no text of packets, names or
//! queries has an effect on a terminal.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::TcpDialogue;
use testkit::pcap::{ByteOrder, TimestampPrecision, pcap_bytes};

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SHOP: &str = "captures/shop/in.pcap";

struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder for test files"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// `n` datagrams in a capture.
    fn capture(&self, n: usize) -> String {
        let path = self.path("many.pcap");
        fs::write(&path, datagrams(n)).expect("written");
        path
    }
}

/// Each from another source, so that row groups are large compared with footers.
fn datagrams(n: usize) -> Vec<u8> {
    let mut rng = testkit::SeededRng::new(1);
    let mut bytes = pcap_bytes(&[], TimestampPrecision::Nanos, ByteOrder::Little);
    for i in 0..n as u64 {
        let random = rng.next_u64().to_be_bytes();
        let mut frame = [0; 42];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..26].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame[26..34].copy_from_slice(&[10, random[0], random[1], random[2], 10, 1, 0, 1]);
        frame[34..42].copy_from_slice(&[random[3], random[4], 0, 53, 0, 8, 0, 0]);
        let ns = i * 10_000;
        let times = [
            1_700_000_000 + (ns / 1_000_000_000) as u32,
            (ns % 1_000_000_000) as u32,
        ];
        let lengths = [frame.len() as u32; 2];
        times
            .iter()
            .chain(&lengths)
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

/// The program in the project's folder, with a timeout.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["120", BINARY])
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Checks the exit code, and words on standard error; returns standard output and standard error.
fn check(args: &[&str], code: i32, words: &[&str]) -> (String, String) {
    told(&command(args).output().expect("it runs"), code, words)
}

fn told(output: &Output, code: i32, words: &[&str]) -> (String, String) {
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    words
        .iter()
        .for_each(|word| assert!(err.contains(word), "no {word:?} in\n{err}"));
    (out, err)
}

fn json(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a summary")).expect("JSON")
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
}

/// Starts the program with pipes for all streams.
fn start(args: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command
        .args(args)
        .current_dir(ROOT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

/// Waits for a file while the program runs.
fn wait_for(child: &mut Child, path: &Path) {
    while fs::read_dir(path).map_or(0, Iterator::count) == 0 {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "it is still at work"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn rows(recording: &str) -> u64 {
    check(&["query", "PARSE packet", "-r", recording, "-q"], 0, &[])
        .0
        .lines()
        .count() as u64
}

/// Standard input stays open without data: a signal ends the wait, and all data read is kept.
#[test]
fn signals_end_a_recording_that_waits() {
    for name in ["HUP", "TERM", "INT"] {
        let folder = Folder::new();
        let recording = folder.path("recording");
        let summary = folder.path("summary");
        let args = [
            "record",
            "PARSE packet",
            "-r",
            "-",
            "-o",
            &recording,
            "--summary-json",
            &summary,
        ];
        let mut child = start(&args);
        let mut input = child.stdin.take().expect("piped");
        input.write_all(&datagrams(100_000)).expect("it reads");
        wait_for(&mut child, &Path::new(&recording).join("packet"));
        signal(&child, name);
        told(
            &child.wait_with_output().expect("it ends"),
            0,
            &["recorded"],
        );
        let summary = json(&summary);
        assert!(
            summary["recorded"]["rows"].as_u64() > Some(0),
            "{name}: {summary}"
        );
        assert_eq!(summary["recorded"]["rows"], summary["packets"]["parsed"]);
        assert_eq!(summary["recorded"]["rows"], rows(&recording));
        drop(input);
    }
}

/// `nohup` makes the program ignore SIGHUP.
#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let folder = Folder::new();
    let recording = folder.path("recording");
    let script = format!("trap '' HUP; exec {BINARY} record 'PARSE packet' -r - -o {recording}");
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut input = child.stdin.take().expect("piped");
    let bytes = datagrams(100_000);
    let (begin, rest) = bytes.split_at(bytes.len() * 3 / 4);
    input.write_all(begin).expect("it reads");
    wait_for(&mut child, &Path::new(&recording).join("packet"));
    signal(&child, "HUP");
    input.write_all(rest).expect("still running");
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert_eq!(rows(&recording), 100_000);
}

/// The output is not read, so the run cannot have ended when the signal arrives: it prints the results so far and
/// reports that they are incomplete.
#[test]
fn a_signal_in_the_middle_of_files_is_no_success() {
    let folder = Folder::new();
    let capture = folder.capture(300_000);
    let recording = folder.path("recording");
    check(
        &["record", "PARSE packet", "-r", &capture, "-o", &recording],
        0,
        &[],
    );
    let whole = check(&["query", "PARSE packet", "-r", &capture, "-q"], 0, &[]).0;
    for input in [&capture, &recording] {
        for name in ["HUP", "TERM"] {
            let summary = folder.path("summary");
            let mut child = start(&[
                "query",
                "PARSE packet",
                "-r",
                input,
                "--summary-json",
                &summary,
            ]);
            let mut out = child.stdout.take().expect("piped");
            let mut printed = vec![0; 1];
            out.read_exact(&mut printed).expect("a first row");
            signal(&child, name);
            out.read_to_end(&mut printed).expect("the other rows");
            let words = format!("SIG{name} ended the run before the end of the input");
            told(&child.wait_with_output().expect("it ends"), 1, &[&words]);
            let printed = text(&printed);
            assert!(
                whole.starts_with(&printed)
                    && printed.len() < whole.len()
                    && printed.ends_with('\n')
            );
            let summary = json(&summary);
            assert_eq!(summary["complete"], false);
            assert_eq!(summary["rows"], printed.lines().count() as u64);
        }
    }
}

/// Runs the program with a file size limit in KiB; its exit code is 1.
fn run_within(limit_kib: u64, args: &str) -> String {
    let script = format!("ulimit -f {limit_kib}; exec timeout 120 {BINARY} {args}");
    let output = Command::new("bash")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    told(&output, 1, &["File too large"]).1
}

/// Rows reported as stored are readable, even if no footer could be written.
#[test]
fn full_disk_is_reported() {
    let folder = Folder::new();
    let capture = folder.capture(400_000);
    let recording = folder.path("recording");
    let summary = folder.path("summary");
    let record =
        format!("record 'PARSE packet' -r {capture} -o {recording} --summary-json {summary}");
    let file = Path::new(&recording).join("packet/packet-000001.parquet");
    let recorded = |limit_kib: u64| -> (Value, String) {
        fs::remove_dir_all(&recording).ok();
        let err = run_within(limit_kib, &record);
        (json(&summary)["recorded"].clone(), err)
    };
    check(
        &["record", "PARSE packet", "-r", &capture, "-o", &recording],
        0,
        &[],
    );
    // Three and a half of six row groups.
    let size = file.metadata().expect("a file").len();
    let (kept, _) = recorded(size * 7 / 12 / 1024);
    assert!(
        kept["rows"].as_u64() > Some(0) && kept["rows_unfinished"] == 0,
        "{kept}"
    );
    assert_eq!(kept["rows"], rows(&recording));
    // The same row groups, without space for the footer.
    let (kept, err) = recorded((file.metadata().expect("a file").len() - 1) / 1024);
    assert_eq!(
        (&kept["rows"], &kept["files_unfinished"]),
        (&0.into(), &1.into()),
        "{kept}"
    );
    assert!(err.contains("unfinished"), "{err}");
    let unfinished = kept["rows_unfinished"].as_u64().expect("a number");
    assert_eq!(unfinished, rows(&recording));
    assert!(
        unfinished > 0 && unfinished + kept["rows_lost"].as_u64().expect("a number") <= 400_000
    );
    // With space again, the next run adds the footer.
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        0,
        &["recovered"],
    );
    assert_eq!(rows(&recording), unfinished);
}

/// Packets, too: counted packets are readable, and the file ends with a complete packet.
#[test]
fn packets_on_a_full_disk() {
    let folder = Folder::new();
    let capture = folder.capture(50_000);
    let kept = folder.path("kept.pcapng");
    let summary = folder.path("summary");
    let query = format!(
        "query 'PARSE packet PROCESS (count)' -r {capture} -w {kept} --summary-json {summary} -o {}",
        folder.path("out")
    );
    run_within(1000, &query);
    let counted = json(&summary)["packets_kept"].clone();
    let read = rows(&kept);
    assert!(read > 0 && read < 50_000);
    assert_eq!(counted["packets"], read);
    assert_eq!(counted["packets_lost"], 50_000 - read);
    assert_eq!(counted["bytes"], fs::metadata(&kept).expect("a file").len());
}

/// A run that fails before reading leaves no summary of an earlier one.
#[test]
fn no_summary_is_another_runs() {
    let folder = Folder::new();
    let summary = folder.path("summary");
    let foreign = folder.path("foreign");
    let missing = folder.path("missing.pcap");
    for (args, code, words) in [
        (
            &["query", "PARSE nothing", "-r", SHOP][..],
            2,
            "unknown parser",
        ),
        (&["query", "PARSE http", "-r", &missing], 1, "no such file"),
        (
            &["query", "PARSE http", "-r", &folder.path("")],
            1,
            "no recording",
        ),
        (
            &["query", "PARSE http", "-r", SHOP, "-o", "/proc/nothing"],
            1,
            "cannot write",
        ),
        (
            &["query", "PARSE http", "-r", SHOP, "--no-such-flag"],
            2,
            "the flags are wrong",
        ),
        (
            &["query", "PARSE http", "-i", "no-such-interface"],
            1,
            "does not exist",
        ),
    ] {
        check(
            &[
                "query",
                "PARSE http",
                "-r",
                SHOP,
                "--summary-json",
                &summary,
            ],
            0,
            &[],
        );
        assert_eq!(json(&summary)["complete"], true);
        check(&[args, &["--summary-json", &summary]].concat(), code, &[]);
        let now = json(&summary);
        assert_eq!(now["complete"], false, "{args:?}: {now}");
        assert!(
            now["errors"][0]["message"]
                .as_str()
                .is_some_and(|m| m.contains(words)),
            "{args:?}: {now}"
        );
        assert_eq!(
            fs::metadata(&summary).expect("a file").permissions().mode() & 0o777,
            0o600
        );
    }
    // With wrong flags the meaning of others is unknown.
    fs::write(&foreign, "{}").expect("written");
    let args = [
        "query",
        "PARSE http",
        "-r",
        &foreign,
        "--summary-json",
        &foreign,
    ];
    check(&[&args[..], &["--no-such-flag"]].concat(), 2, &[]);
    check(&args, 2, &["is an input"]);
    assert_eq!(fs::read_to_string(&foreign).expect("a file"), "{}");
}

/// State after a `record` killed before the first complete row group.
#[test]
fn recordings_killed_early_are_reported() {
    let folder = Folder::new();
    let recording = folder.path("recording");
    let table = folder.path("recording/http");
    fs::create_dir_all(&table).expect("a folder");
    for name in [".http-000001.parquet.tmp", ".http-000001.parquet.journal"] {
        fs::write(format!("{table}/{name}"), "").expect("written");
    }
    let killed = "killed or failed before its first row group was complete";
    check(
        &["query", "PARSE http", "-r", &recording],
        1,
        &["http-000001.parquet.tmp", killed],
    );
    // With finished files the message is a note.
    check(
        &[
            "record",
            "PARSE mysql_query",
            "-r",
            SHOP,
            "-o",
            &folder.path("other"),
        ],
        0,
        &[],
    );
    fs::rename(
        folder.path("other/mysql_query"),
        folder.path("recording/mysql_query"),
    )
    .expect("moved");
    check(
        &["query", "PARSE mysql_query", "-r", &recording],
        0,
        &["note: ", killed],
    );
    let (_, err) = check(
        &["query", "PARSE mysql_query", "-r", &recording, "-q"],
        0,
        &[],
    );
    assert_eq!(err, "");
}

/// Named pipes do not block it, and links are not followed.
#[test]
fn a_recording_holds_regular_files_only() {
    let folder = Folder::new();
    let recording = folder.path("recording");
    let other = folder.path("other");
    let record = |folder: &str| {
        fs::remove_dir_all(folder).ok();
        check(&["record", "PARSE http", "-r", SHOP, "-o", folder], 0, &[]);
    };
    record(&other);
    let query = ["query", "PARSE http", "-r", &recording, "-q"];
    let pipe = |name: &str| {
        let made = Command::new("mkfifo")
            .arg(format!("{recording}/{name}"))
            .status();
        assert!(made.is_ok_and(|status| status.success()));
    };
    for name in ["http/http-000002.parquet", "http/.http-000002.parquet.tmp"] {
        record(&recording);
        let whole = check(&query, 0, &[]).0;
        pipe(name);
        assert_eq!(
            check(&query, 1, &["pipe", "is not part of a recording"]).0,
            whole,
            "{name}"
        );
        fs::remove_file(format!("{recording}/{name}")).expect("removed");
        symlink(
            format!("{other}/http/http-000001.parquet"),
            format!("{recording}/{name}"),
        )
        .expect("a link");
        assert_eq!(
            check(&query, 1, &["is a link", "is not part of a recording"]).0,
            whole,
            "{name}"
        );
    }
    // A pipe in place of a journal: the file's state is unknown, and nothing blocks.
    record(&recording);
    fs::write(format!("{recording}/http/.http-000002.parquet.tmp"), "PAR1").expect("written");
    pipe("http/.http-000002.parquet.journal");
    check(&query, 0, &[]);
    // Tables outside are neither read nor written.
    record(&recording);
    fs::remove_dir_all(format!("{recording}/http")).expect("removed");
    symlink(format!("{other}/http"), format!("{recording}/http")).expect("a link");
    check(&query, 1, &["symbolic link"]);
    let files = || {
        fs::read_dir(format!("{other}/http"))
            .expect("a folder")
            .count()
    };
    let before = files();
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        1,
        &["is not part of a recording"],
    );
    assert_eq!(files(), before);
    // A hidden link to a foreign file does not get a footer.
    fs::remove_file(format!("{recording}/http")).expect("removed");
    record(&recording);
    let victim = folder.path("victim");
    fs::write(&victim, "precious").expect("written");
    symlink(
        &victim,
        format!("{recording}/http/.http-000002.parquet.tmp"),
    )
    .expect("a link");
    check(
        &["record", "PARSE http", "-r", SHOP, "-o", &recording],
        1,
        &["is not part of a recording"],
    );
    assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
}

/// The Parquet library panics at this file; the backtrace is not shown.
#[test]
fn a_panic_shows_no_backtrace() {
    let Some(corpus) = testkit::corpus() else {
        return;
    };
    let hostile = corpus.join("found/hostile.parquet");
    let folder = Folder::new();
    let recording = folder.path("recording");
    fs::create_dir_all(format!("{recording}/http")).expect("a folder");
    fs::copy(&hostile, format!("{recording}/http/http-000001.parquet")).expect("copied");
    for backtrace in ["1", "full"] {
        let mut command = command(&["query", "PARSE http", "-r", &recording]);
        let output = command
            .env("RUST_BACKTRACE", backtrace)
            .output()
            .expect("it runs");
        let (_, err) = told(&output, 1, &["http-000001.parquet", "damaged"]);
        for word in ["panicked", "stack backtrace", "RUST_BACKTRACE", ".rs:"] {
            assert!(!err.contains(word), "{err}");
        }
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path)
        .expect("it exists")
        .permissions()
        .mode()
        & 0o777
}

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    below
        .flat_map(|path| {
            if path.is_dir() {
                [vec![path.clone()], all_below(&path)].concat()
            } else {
                vec![path]
            }
        })
        .collect()
}

/// For any umask.
#[test]
fn output_is_for_its_owner_only() {
    let folder = Folder::new();
    let script = format!(
        "umask 0; cd {ROOT} && {BINARY} query 'PARSE http' -r {SHOP} -o $0/rows --summary-json $0/summary -w $0/p.pcapng &&
         {BINARY} record 'PARSE http' -r {SHOP} -o $0/deep/recording -w $0/many.pcapng --rotate 300ms"
    );
    let ran = Command::new("sh")
        .args(["-c", &script])
        .arg(folder.0.path())
        .output()
        .expect("a shell");
    told(&ran, 0, &[]);
    let all = all_below(folder.0.path());
    assert!(all.len() > 12, "{all:?}");
    for path in all {
        assert_eq!(
            mode(&path),
            if path.is_dir() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
    }
}

/// Standard error contains nothing with an effect on a terminal.
#[test]
fn messages_are_harmless() {
    let folder = Folder::new();
    let acts = "\u{1b}[31m\u{9b}31m\u{202e}\u{7f}";
    let file = folder.path(&format!("a{acts}\nerror: b"));
    let query = format!("PARSE http WHERE url = '{acts}' and nothing{acts} = 1");
    for args in [
        &["query", "PARSE http", "-r", &file][..],
        &["query", &query, "-r", SHOP],
        &["query", "PARSE http", "-i", acts],
        &["query", "PARSE http", "-r", SHOP, acts],
        &["query", "PARSE http", "-r", SHOP, &format!("--x{acts}")],
        &[
            "query",
            "PARSE http",
            "-r",
            SHOP,
            "--user",
            acts,
            "-v",
            "--rotate",
            acts,
        ],
        &["parsers", acts],
    ] {
        let output = command(args).output().expect("it runs");
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        let err = text(&output.stderr);
        assert!(
            !err.chars()
                .any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')),
            "{err:?}"
        );
        assert!(!err.lines().any(|line| line == "error: b"), "{err:?}");
    }
    fs::write(&file, "no capture").expect("written");
    let (_, err) = check(
        &["query", "PARSE http", "-r", &file, "-v"],
        1,
        &["\\x1b[31m\\x9b31m\\u{202e}"],
    );
    assert!(!err.chars().any(|c| c != '\n' && c.is_control()), "{err:?}");
}

/// On a terminal every format is escaped; in a file CSV is exact.
#[test]
fn rows_on_a_terminal_are_harmless() {
    let folder = Folder::new();
    let agent = "x\u{1b}]0;t\u{7}\u{9b}31m\u{202e}y";
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.handshake();
    talk.client()
        .send(format!("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n").as_bytes());
    talk.server()
        .send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    talk.close();
    let capture = folder.path("in.pcap");
    fs::write(
        &capture,
        pcap_bytes(&talk.take(), TimestampPrecision::Nanos, ByteOrder::Little),
    )
    .expect("written");
    let query = "PARSE http PROCESS (group-count: group=user_agent)";
    let csv = check(&["query", query, "-r", &capture, "--format", "csv"], 0, &[]).0;
    assert!(csv.contains(agent), "{csv:?}");
    for format in ["csv", "jsonl", "table"] {
        let program =
            format!("{BINARY} query '{query}' -r {capture} --format {format} -q --progress never");
        let mut script = Command::new("script");
        script
            .args(["-qec", &program, "/dev/null"])
            .stdin(Stdio::null());
        let output = testkit::require!("script" => script.output());
        let out = text(&output.stdout);
        assert!(out.contains("]0;t"), "{format}: {out:?}");
        let acts = |c: char| (c.is_control() && !"\r\n".contains(c)) || c == '\u{202e}';
        assert!(!out.chars().any(acts), "{format}: {out:?}");
    }
}

/// Sessions in paths, encoded queries, parameters of content types and words that are not commands are redacted.
#[test]
fn redaction_finds_values_in_unusual_places() {
    let folder = Folder::new();
    let mut web = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    web.handshake();
    let target = "/cart;jsessionid=SECRET1/find%3Fq=SECRET2%26x";
    web.client()
        .send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    let response =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; boundary=SECRET3\r\nContent-Length: 0\r\n\r\n";
    web.server().send(response.as_bytes());
    web.close();
    let mut cache = TcpDialogue::new("10.0.0.1:40001", "10.0.0.3:11211");
    cache.handshake();
    cache.client().send(b"get a\r\n");
    cache.server().send(b"END\r\n");
    cache.client().send(b"SECRET4 b\r\n");
    cache.server().send(b"ERROR\r\n");
    cache.close();
    for (parser, talk, secrets) in [
        ("http", web.take(), &["SECRET1", "SECRET2", "SECRET3"][..]),
        ("memcached", cache.take(), &["SECRET4"]),
    ] {
        let capture = folder.path("in.pcap");
        let recording = folder.path(parser);
        fs::write(
            &capture,
            pcap_bytes(&talk, TimestampPrecision::Nanos, ByteOrder::Little),
        )
        .expect("written");
        let parse = format!("PARSE {parser}");
        let seen = check(&["query", &parse, "-r", &capture], 0, &[]).0;
        check(
            &["record", &parse, "-r", &capture, "-o", &recording],
            0,
            &[],
        );
        let kept = check(&["query", &parse, "-r", &recording], 0, &[]).0;
        for secret in secrets {
            assert!(
                seen.contains(secret) && !kept.contains(secret),
                "{secret}:\n{seen}\n{kept}"
            );
        }
        let names = if parser == "http" {
            &["/cart;jsessionid=~", "/find%3Fq=~", "text/html; boundary=~"][..]
        } else {
            &["\"get\""]
        };
        names
            .iter()
            .for_each(|name| assert!(kept.contains(name), "{name}: {kept}"));
    }
}
