//! Ends of recordings: kills, Ctrl-C, and a full disk lose nothing that was written, and account for the rest.

use std::fs;
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;

/// Many packets per row group.
fn many_packets(n: usize) -> Vec<u8> {
    let frame = |n: usize| {
        let [a, b] = (n as u16).to_be_bytes();
        let mut bytes = vec![0; 42];
        bytes[12..14].copy_from_slice(&[8, 0]);
        let ip = [
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, a, b, 10, 1, 0, 1,
        ];
        bytes[14..34].copy_from_slice(&ip);
        bytes[34..42].copy_from_slice(&[a, b, 0, 53, 0, 8, 0, 0]);
        bytes
    };
    let packets: Vec<_> = (0..n)
        .map(|n| {
            (
                wire::Timestamp(1_700_000_000_000_000_000 + n as i64 * 10_000),
                frame(n),
            )
        })
        .collect();
    pcap_of(&packets)
}

fn pcap_of(packets: &[(wire::Timestamp, Vec<u8>)]) -> Vec<u8> {
    // A pcap header: nanoseconds, little-endian, Ethernet.
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (ts, frame) in packets {
        let seconds = ts.0 / 1_000_000_000;
        let nanos = ts.0 % 1_000_000_000;
        for word in [
            seconds as u32,
            nanos as u32,
            frame.len() as u32,
            frame.len() as u32,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

/// Starts a recording of standard input; returns the process and its input.
fn record_input(recording: &str, flags: &[&str]) -> (Child, ChildStdin) {
    let mut child = Command::new(BINARY)
        .args(["record", "PARSE packet", "-r", "-", "-o", recording])
        .args(flags)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let input = child.stdin.take().expect("piped");
    (child, input)
}

/// SIGKILL at any moment: the readable rows are a prefix of the result, without at most one open row group.
#[test]
fn a_kill_loses_the_open_row_group_at_most() {
    const RECORD: usize = 16 + 42;
    let capture = many_packets(400_000);
    let folder = folder();
    let whole = path(&folder, "whole.pcap");
    fs::write(&whole, &capture).expect("written");
    let want = check(&["query", "PARSE packet", "-r", &whole], 0, &[]).out;
    let want: Vec<&str> = want.lines().collect();
    let recording = path(&folder, "recording");
    for (turn, packets) in [90_000, 399_999, 200_000, 10, 310_000]
        .into_iter()
        .enumerate()
    {
        fs::remove_dir_all(&recording).ok();
        let (mut child, mut input) =
            record_input(&recording, &["--rotate", "1s", "--workers", "2"]);
        input
            .write_all(&capture[..24 + packets * RECORD])
            .expect("it reads");
        // The program is killed while it processes packets: immediately, or when it is about to wait.
        if turn % 2 == 1 {
            std::thread::sleep(std::time::Duration::from_millis(700));
        }
        child.kill().expect("still running");
        child.wait().expect("it is dead");
        let first = run(&["query", "PARSE packet", "-r", &recording, "-q"]);
        let got: Vec<&str> = first.out.lines().collect();
        assert!(
            want.starts_with(&got),
            "{packets}: {} rows\n{}",
            got.len(),
            first.err
        );
        // The next run adds footers, and any Parquet reader sees the same rows.
        check(
            &["record", "PARSE http", "-r", SHOP, "-o", &recording],
            0,
            &[],
        );
        let tuples = Path::new(&recording).join("packet");
        let hidden = |p: &PathBuf| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with('.'))
        };
        let files: Vec<PathBuf> = match fs::read_dir(&tuples) {
            Ok(entries) => entries.map(|e| e.expect("an entry").path()).collect(),
            Err(_) => continue,
        };
        assert!(!files.iter().any(hidden), "{files:?}");
        if !got.is_empty() {
            assert_eq!(
                check(&["query", "PARSE packet", "-r", &recording, "-q"], 0, &[]).out,
                first.out
            );
        }
    }
}

/// Ctrl-C ends reading, and all data read is kept.
#[test]
fn ctrl_c_loses_nothing() {
    let folder = folder();
    let recording = path(&folder, "recording");
    let json = path(&folder, "summary.json");
    let (mut child, mut input) = record_input(&recording, &["--summary-json", &json]);
    input.write_all(&many_packets(100_000)).expect("it reads");
    // Once a file exists, the program handles signals.
    let tuples = Path::new(&recording).join("packet");
    while fs::read_dir(&tuples).map_or(0, Iterator::count) == 0 {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "it is still at work"
        );
        std::thread::yield_now();
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let summary = summary(&json);
    assert!(summary["recorded"]["rows"].as_u64() > Some(0));
    assert_eq!(summary["recorded"]["rows"], summary["packets"]["parsed"]);
    let read = check(&["query", "PARSE packet", "-r", &recording, "-q"], 0, &[])
        .out
        .lines()
        .count();
    assert_eq!(summary["recorded"]["rows"], read as u64);
}

/// A full disk: the error is reported, finished files are readable, and every row is accounted for.
#[test]
fn a_full_disk_is_accounted_for() {
    let folder = folder();
    let capture = path(&folder, "many.pcap");
    let recording = path(&folder, "recording");
    let json = path(&folder, "summary.json");
    fs::write(&capture, many_packets(300_000)).expect("written");
    // File size limit; its signal is ignored, so writing fails.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8000; exec {BINARY} record 'PARSE packet' -r {capture} -o {recording} \
         --summary-json {json}"
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("cannot write the result") && err.contains("lost"),
        "{err}"
    );
    let kept = &summary(&json)["recorded"];
    let rows = kept["rows"].as_u64().expect("a number");
    assert!(rows > 0 && kept["rows_lost"].as_u64() > Some(0), "{kept}");
    let read = check(&["query", "PARSE packet", "-r", &recording, "-q"], 0, &[])
        .out
        .lines()
        .count();
    assert_eq!(read as u64, rows);
    let files: Vec<_> = fs::read_dir(format!("{recording}/packet"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    assert!(
        files
            .iter()
            .all(|p| p.extension().is_some_and(|e| e == "parquet")),
        "{files:?}"
    );
}
