//! Start and end of captures: signals, LIMIT, closed pipes, privileges, and errors at the start.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::capture::{BINARY, Capture, signal, wait};
use crate::net::{Net, ip, within};

#[test]
fn ctrl_c_prints_the_windows_that_are_open() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE packet PROCESS (group-count: group=dst_port, w=1h)";
    let capture = Capture::start(&net.server, query, &["-i", "eth0", "udp port 4000"]);
    net.send(6, 4000);
    let captured = capture.interrupt();
    captured.check();
    assert_eq!(
        captured
            .column("count")
            .iter()
            .map(|n| n.parse::<u64>().expect("a number"))
            .sum::<u64>(),
        6
    );
    assert!(
        captured.err.contains("packets"),
        "there is a summary: {}",
        captured.err
    );
}

#[test]
fn windows_close_without_further_packets() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE packet PROCESS (group-count: group=dst_port, w=1s)";
    let capture = Capture::start(&net.server, query, &["-i", "eth0", "udp port 4000"]);
    net.send(2, 4000);
    capture.wait_for_rows(1);
    capture.interrupt().check();
}

#[test]
fn silent_windows_count_zero_or_are_named() {
    let Some(net) = Net::new() else { return };
    let arguments = ["-i", "eth0", "udp port 4000"];
    // Without packets during the whole run.
    let silent = Capture::start(
        &net.server,
        "PARSE packet PROCESS (count: w=1s) LIMIT 6s",
        &arguments,
    );
    let counted = Capture::start(
        &net.server,
        "PARSE packet PROCESS (count: w=1s) LIMIT 6s",
        &["-i", "eth0", "udp port 4001"],
    );
    let grouped = Capture::start(
        &net.server,
        "PARSE packet PROCESS (group-count: group=dst_port, w=1s) LIMIT 6s",
        &["-i", "eth0", "udp port 4001"],
    );
    net.send(3, 4001);
    let silent = silent.end();
    let counted = counted.end();
    let grouped = grouped.end();
    let zeros = |rows: &[String]| rows.iter().filter(|n| *n == "0").count();
    let counts = silent.column("count");
    // On a busy machine, the end is late.
    assert!(
        (5..=9).contains(&counts.len()) && zeros(&counts) == counts.len(),
        "{counts:?}"
    );
    let counts = counted.column("count");
    assert!(
        (5..=9).contains(&counts.len()) && zeros(&counts) >= counts.len() - 2,
        "{counts:?}"
    );
    assert_eq!(
        counts
            .iter()
            .map(|n| n.parse::<u64>().expect("a number"))
            .sum::<u64>(),
        3
    );
    let empty = grouped.count("/empty_windows/0/windows");
    assert!(
        (3..=8).contains(&empty) && grouped.rows.len() <= 2,
        "{empty} {:?}",
        grouped.rows
    );
    assert!(
        grouped.count("/empty_windows/0/stretches/0/start_ns") > 0,
        "{}",
        grouped.err
    );
}

#[test]
fn every_window_shows_its_own_best_rows() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE packet PROCESS (group-count-share: group=dst_port, w=1s) \
                 HAVING count > 1 ORDER BY count DESC LIMIT 1 ROWS";
    let capture = Capture::start(&net.server, query, &["--workers", "2", "-i", "eth0", "udp"]);
    for windows in 1..=3 {
        [(8, 4000), (3, 4001), (1, 4002)]
            .into_iter()
            .for_each(|(n, port)| net.send(n, port));
        capture.wait_for_rows(windows);
    }
    let captured = capture.interrupt();
    captured.check();
    let mut windows = captured.column("window_start");
    windows.dedup();
    // A burst may span two windows.
    assert!(
        (3..=7).contains(&windows.len()) && windows.len() == captured.rows.len(),
        "{:?}",
        captured.rows
    );
    assert!(
        captured
            .rows
            .iter()
            .all(|row| row["count"].as_u64().is_some_and(|n| n > 1))
    );
    assert!(
        captured
            .rows
            .iter()
            .any(|row| row["share"].as_f64().is_some_and(|share| share < 1.0))
    );
    assert!(
        captured.count("/stream/rows_beyond_limit") + captured.count("/stream/rows_filtered") >= 1
    );
}

#[test]
fn packet_limit_ends_the_capture() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(
        &net.server,
        "PARSE packet LIMIT 5p",
        &["-i", "eth0", "udp port 4000"],
    );
    net.send(9, 4000);
    let captured = capture.end();
    assert_eq!(
        (captured.code, captured.rows.len()),
        (Some(0), 5),
        "{}",
        captured.err
    );
}

#[test]
fn time_limit_ends_the_capture_without_packets() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(
        &net.server,
        "PARSE packet LIMIT 1s",
        &["-i", "eth0", "udp port 4000"],
    );
    let captured = capture.end();
    assert_eq!(
        (captured.code, captured.rows.len()),
        (Some(0), 0),
        "{}",
        captured.err
    );
}

/// A capture that has started, whose output nothing reads, and the rest of its messages.
fn piped(net: &Net) -> (Child, BufReader<ChildStderr>) {
    let mut child = within(&net.server, BINARY)
        .args(["query", "PARSE packet", "-i", "eth0", "udp port 4000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    err.read_line(&mut String::new()).expect("text");
    (child, err)
}

#[test]
fn closed_pipe_ends_the_capture() {
    let Some(net) = Net::new() else { return };
    let (mut child, _) = piped(&net);
    drop(child.stdout.take());
    while child.try_wait().expect("it can be waited for").is_none() {
        net.send(1, 4000);
    }
    assert_eq!(wait(&mut child).code(), Some(0));
}

/// A field of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("a field");
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn root_drops_to_the_user_nobody() {
    let Some(net) = Net::new() else { return };
    let mut command = within(&net.server, BINARY);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    let capture = Capture::of(command, "PARSE packet", &["-i", "eth0", "udp port 4000"]);
    assert_eq!(status(capture.pid(), "Uid:"), ["65534"; 4]);
    assert_eq!(status(capture.pid(), "Gid:"), ["65534"; 4]);
    assert_eq!(status(capture.pid(), "Groups:"), ["65534"]);
    for set in ["CapPrm:", "CapEff:", "CapInh:", "CapBnd:", "CapAmb:"] {
        assert_eq!(status(capture.pid(), set), ["0000000000000000"], "{set}");
    }
    assert_eq!(status(capture.pid(), "NoNewPrivs:"), ["1"]);
    assert_eq!(status(capture.pid(), "Seccomp:"), ["2"]);
    net.send(3, 4000);
    let captured = capture.interrupt();
    // The kernel's and the adapter's counters remain readable.
    captured.check();
    assert_eq!(
        (captured.count("/source/nic_drops"), captured.rows.len()),
        (0, 3)
    );
}

#[test]
fn system_calls_may_stay_unrestricted() {
    let Some(net) = Net::new() else { return };
    let capture = Capture::start(&net.server, "PARSE packet", &["-i", "eth0", "--no-seccomp"]);
    assert_eq!(status(capture.pid(), "Seccomp:"), ["0"]);
    capture.interrupt().check();
}

/// The list of permitted system calls is sufficient for each kind of capture.
#[test]
fn captures_work_with_system_calls_restricted() {
    let Some(net) = Net::new() else { return };
    for args in [
        &[
            "-i",
            "eth0",
            "--capture",
            "af-packet",
            "--workers",
            "2",
            "--stats",
            "100ms",
        ][..],
        &["-i", "any"],
        &["-i", "eth0", "--capture", "af-xdp", "--xdp-steal"],
    ] {
        let capture = Capture::start(&net.server, "PARSE packet TO *:4000", args);
        assert_eq!(status(capture.pid(), "Seccomp:"), ["2"], "{args:?}");
        net.send(5, 4000);
        let captured = capture.interrupt();
        captured.check();
        assert_eq!(captured.rows.len(), 5, "{args:?}: {}", captured.err);
    }
}

/// SIGHUP ends a recording like Ctrl-C. It creates its files, and those of packets, under restricted system calls; they
/// belong to the new user, and are readable only by it.
#[test]
fn a_hang_up_keeps_all_that_was_recorded() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).expect("a mode");
    let path = |name: &str| folder.path().join(name);
    let mut child = within(&net.server, BINARY)
        .env("SUDO_UID", "1234")
        .env("SUDO_GID", "1234")
        .args([
            "record",
            "PARSE packet",
            "-i",
            "eth0",
            "udp port 4000",
            "--workers",
            "2",
            "--rotate",
            "1s",
        ])
        .arg("-o")
        .arg(path("recording"))
        .arg("-w")
        .arg(path("p.pcapng"))
        .arg("--summary-json")
        .arg(path("summary"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    err.read_line(&mut String::new()).expect("text");
    assert_eq!(status(child.id(), "Seccomp:"), ["2"]);
    let files = || std::fs::read_dir(path("recording/packet")).map_or(0, Iterator::count);
    let mut sent = 0;
    // Until several files of each kind exist.
    while files() < 5 || !path("p-000003.pcapng").exists() {
        assert!(
            child.try_wait().expect("it can be waited for").is_none(),
            "it goes on"
        );
        net.send(2, 4000);
        sent += 2;
    }
    signal(child.id(), "HUP");
    let ended = wait(&mut child).code();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut err, &mut said).expect("text");
    assert_eq!(ended, Some(0), "{said}");
    let read = |input: &Path| {
        let output = Command::new(BINARY)
            .args(["query", "PARSE packet", "-q", "-r"])
            .arg(input)
            .output();
        output
            .expect("it runs")
            .stdout
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    };
    assert_eq!(read(&path("recording")), sent, "{said}");
    let entries = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect()
    };
    let packets = entries(folder.path())
        .into_iter()
        .filter(|path| path.extension().is_some());
    let packets: Vec<_> = packets.collect();
    assert_eq!(
        packets.iter().map(|path| read(path)).sum::<usize>(),
        sent,
        "{said}"
    );
    for file in [
        packets,
        entries(&path("recording/packet")),
        vec![path("summary")],
    ]
    .concat()
    {
        let metadata = file.metadata().expect("it exists");
        assert_eq!(
            (metadata.uid(), metadata.mode() & 0o777),
            (1234, 0o600),
            "{}",
            file.display()
        );
    }
}

#[test]
fn root_drops_to_the_caller_of_sudo_or_the_given_user() {
    let Some(net) = Net::new() else { return };
    for (user, expected) in [(None, "1234"), (Some("daemon"), "1"), (Some("root"), "0")] {
        let mut command = within(&net.server, BINARY);
        command.env("SUDO_UID", "1234").env("SUDO_GID", "1234");
        let args: Vec<&str> = user.map_or(vec![], |user| vec!["--user", user]);
        let args = [&args[..], &["-i", "eth0"]].concat();
        let capture = Capture::of(command, "PARSE packet", &args);
        assert_eq!(status(capture.pid(), "Uid:"), [expected; 4]);
        capture.interrupt();
    }
}

#[test]
fn a_capability_is_enough_and_is_given_up() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("netalytics");
    std::fs::copy(BINARY, &binary).expect("a copy");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).expect("a mode");
    let as_nobody = || {
        let mut command = within(&net.server, "setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&binary);
        command
    };
    let refused = as_nobody()
        .args(["query", "PARSE packet", "-i", "eth0"])
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{err}");
    assert!(
        err.contains("CAP_NET_RAW") && err.contains("setcap"),
        "{err}"
    );

    // With CAP_SETPCAP the bounding set is emptied, too.
    for (capabilities, is_bounded) in [
        ("cap_net_raw+ep", false),
        ("cap_net_raw,cap_setpcap+ep", true),
    ] {
        let setcap = Command::new("setcap")
            .arg(capabilities)
            .arg(&binary)
            .status();
        testkit::require!("file-capabilities" => setcap.is_ok_and(|status| status.success()));
        captures_without_rights(&net, as_nobody(), is_bounded);
    }
}

/// Captures two packets, and checks that no capability remains.
fn captures_without_rights(net: &Net, mut as_nobody: Command, is_bounded: bool) {
    let mut child = as_nobody
        .args([
            "query",
            "PARSE packet LIMIT 2p",
            "-i",
            "eth0",
            "udp port 4000",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    err.read_line(&mut line).expect("text");
    assert!(line.contains("capturing"), "{line}");
    for set in ["CapPrm:", "CapEff:"] {
        assert_eq!(status(child.id(), set), ["0000000000000000"]);
    }
    let bounding = status(child.id(), "CapBnd:");
    assert_eq!(bounding == ["0000000000000000"], is_bounded, "{bounding:?}");
    assert_eq!(status(child.id(), "NoNewPrivs:"), ["1"]);
    net.send(3, 4000);
    assert_eq!(wait(&mut child).code(), Some(0));
    let rows = BufReader::new(child.stdout.take().expect("piped"))
        .lines()
        .count();
    assert_eq!(rows, 2);
}

#[test]
fn capture_errors_state_their_remedy() {
    let Some(net) = Net::new() else { return };
    ip(&format!("-n {} link set eth0 down", net.client)).expect("down");
    for (args, code, words) in [
        (
            &["-i", "eht0"][..],
            1,
            &["interface \"eht0\" does not exist (did you mean \"eth0\"?); available: lo, eth0"][..],
        ),
        (
            &["-i", "eth0", "--no-wait"],
            1,
            &["eth0 is down", "ip link set eth0 up"],
        ),
        (
            &["-i", "lo", "tcp prot 80"],
            2,
            &["\"tcp prot 80\"", "syntax error"],
        ),
        (&["-i", "any", "ether host 1:2:3:4:5:6"], 2, &["ether host"]),
        (
            &["-i", "lo", "tcp", "--capture-filter", "udp"],
            2,
            &["given twice"],
        ),
        (
            &["-i", "lo", "--timestamps", "adapter"],
            2,
            &["lo does not support hardware timestamps"],
        ),
        (
            &["-i", "any", "--timestamps", "adapter"],
            2,
            &["one interface"],
        ),
        (
            &["-i", "lo", "--user", "there-is-none"],
            2,
            &["there-is-none"],
        ),
        (
            &["-i", "lo", "--buffer-size", "9999G"],
            1,
            &["--buffer-size"],
        ),
        (&["-i", "lo", "-r", "x.pcap"], 2, &["cannot be used with"]),
    ] {
        let ran = within(&net.client, BINARY)
            .args(["query", "PARSE packet"])
            .args(args)
            .output();
        let ran = ran.expect("it runs");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{args:?}: no {word:?} in {err}");
        }
    }
}

/// An interface that is down is waited for, with a message; then it is captured, together with another one.
#[test]
fn an_interface_that_is_down_is_waited_for() {
    let Some(net) = Net::new() else { return };
    ip(&format!("-n {} link set eth0 down", net.server)).expect("down");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut child = within(&net.server, BINARY)
        .args([
            "query",
            "PARSE packet LIMIT 3p",
            "-i",
            "lo,eth0",
            "udp port 4000",
            "--format",
            "jsonl",
            "-o",
        ])
        .arg(path("rows"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut err = BufReader::new(child.stderr.take().expect("piped"));
    let mut said = String::new();
    err.read_line(&mut said).expect("text");
    assert!(
        said.contains("eth0 is down; waiting for it to come up"),
        "{said}"
    );
    ip(&format!("-n {} link set eth0 up", net.server)).expect("up");
    while !said.contains("capturing from lo and eth0") {
        assert!(err.read_line(&mut said).expect("text") > 0, "{said}");
    }
    assert!(said.contains("eth0 is up"), "{said}");
    while child.try_wait().expect("it can be waited for").is_none() {
        net.send(1, 4000);
    }
    assert_eq!(wait(&mut child).code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(path("rows"))
            .expect("rows")
            .lines()
            .count(),
        3
    );
}

/// Two SIGINTs within a second lose nothing.
#[test]
fn signals_within_a_second_lose_nothing() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE packet PROCESS (group-count: group=dst_port, w=1h)";
    for names in [["INT", "INT"], ["TERM", "TERM"], ["HUP", "INT"]] {
        let capture = Capture::start(&net.server, query, &["-i", "eth0", "udp port 4000"]);
        net.send(6, 4000);
        names.iter().for_each(|name| signal(capture.pid(), name));
        let captured = capture.end();
        captured.check();
        assert_eq!(captured.column("count"), ["6"], "{names:?}");
    }
}

/// SIGUSR1 prints statistics under restricted system calls; SIGUSR2 has no effect.
#[test]
fn statistics_on_request() {
    let Some(net) = Net::new() else { return };
    let mut capture = Capture::start(
        &net.server,
        "PARSE packet",
        &["-i", "eth0", "udp port 4000"],
    );
    net.send(6, 4000);
    ["USR2", "USR1"]
        .iter()
        .for_each(|name| signal(capture.pid(), name));
    capture.wait_for("worker 0: ");
    capture.interrupt().check();
}

#[test]
fn a_late_ctrl_c_abandons_the_output() {
    let Some(net) = Net::new() else { return };
    // Nothing reads the pipe, so the program cannot end by itself.
    let (mut child, _) = piped(&net);
    net.send(400, 4000);
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(1200));
    if child.try_wait().expect("it can be waited for").is_none() {
        signal(child.id(), "INT");
    }
    wait(&mut child);
}

/// One signal, under restricted system calls: a reader that has stopped is abandoned, a slow one gets every row.
#[test]
fn one_signal_ends_a_capture_whose_reader_has_stopped() {
    let Some(net) = Net::new() else { return };
    for is_slow in [false, true] {
        let (mut child, mut err) = piped(&net);
        let mut said = String::new();
        assert_eq!(status(child.id(), "Seccomp:"), ["2"]);
        // More than a pipe holds.
        net.send(400, 4000);
        std::thread::sleep(Duration::from_secs(1));
        signal(child.id(), "INT");
        let began = Instant::now();
        let mut rows = Vec::new();
        if is_slow {
            let mut out = child.stdout.take().expect("piped");
            for n in 0..30 {
                std::thread::sleep(Duration::from_millis(100));
                rows.resize(n + 1, 0);
                out.read_exact(&mut rows[n..]).expect("a byte");
            }
            out.read_to_end(&mut rows).expect("rows");
        }
        let status = wait(&mut child);
        let took = began.elapsed();
        err.read_to_string(&mut said).expect("text");
        if is_slow {
            assert_eq!(status.code(), Some(0), "{said}");
            let lines = rows.iter().filter(|byte| **byte == b'\n');
            assert_eq!(lines.count(), 400, "{said}");
        } else {
            assert_eq!(status.code(), Some(1), "{said}");
            assert!(took < Duration::from_secs(4), "{took:?}: {said}");
            assert!(
                said.contains("it is incomplete: after the end signal"),
                "{said}"
            );
        }
    }
}

#[test]
fn interfaces_are_listed() {
    let Some(net) = Net::new() else { return };
    let ran = within(&net.server, BINARY)
        .arg("interfaces")
        .output()
        .expect("it runs");
    let out = String::from_utf8_lossy(&ran.stdout);
    let line = out
        .lines()
        .find(|line| line.starts_with("eth0"))
        .expect("a line");
    assert!(line.contains("up") && line.contains("10.9.0.1"), "{out}");
}
