//! Recordings as root are written to the given folder, even below one accessible only to root; and several interfaces
//! in one run.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::capture::BINARY;
use crate::net::{Net, SERVER, shell, within};

/// Starts the program in `folder`; returns when it captures.
fn start(ns: &str, folder: &Path, args: &[&str]) -> Child {
    let mut command = within(ns, BINARY);
    command
        .args(args)
        .current_dir(folder)
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID");
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let line = lines.next().expect("some output").expect("text");
    assert!(line.starts_with("capturing from "), "{line}");
    // Drains its later messages.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// Number of tuples in a recording, or packets in a file.
fn count(folder: &Path, input: &str) -> u64 {
    let output = Command::new(BINARY)
        .args([
            "query",
            "PARSE packet PROCESS (count)",
            "-r",
            input,
            "--json",
        ])
        .current_dir(folder)
        .output()
        .expect("it runs");
    let row: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{input}: {}", String::from_utf8_lossy(&output.stderr)));
    row["count"].as_u64().expect("a count")
}

#[test]
fn root_records_into_its_own_folders() {
    let Some(net) = Net::new() else { return };
    let home = tempfile::tempdir().expect("a folder");
    let home = home.path();
    std::fs::set_permissions(home, PermissionsExt::from_mode(0o700)).expect("root's only");
    std::fs::create_dir(home.join("empty")).expect("a folder");
    for args in [
        &["-o", "new"][..],
        &["-o", "new"],
        &["-o", "empty"],
        &["-o", "deep/er", "-w", "packets.pcapng"],
        &["-o", "web", "-w", "web/packets.pcapng", "--rotate", "1h"],
    ] {
        let record = [
            "record",
            "PARSE packet",
            "-i",
            "eth0",
            "udp port 9",
            "-c",
            "5",
        ];
        let mut child = start(&net.server, home, &[&record[..], args].concat());
        net.send(5, 9);
        assert!(child.wait().expect("it ends").success(), "{args:?}");
    }
    for (input, packets) in [
        ("new", 10),
        ("empty", 5),
        ("deep/er", 5),
        ("packets.pcapng", 5),
        ("web/packets-000001.pcapng", 5),
    ] {
        assert_eq!(count(home, input), packets, "{input}");
    }
    std::fs::create_dir(home.join("full")).expect("a folder");
    std::fs::write(home.join("full/other"), b"").expect("a file");
    let refused = within(&net.server, BINARY)
        .args(["record", "PARSE packet", "-i", "eth0", "-o", "full"])
        .current_dir(home)
        .env_remove("SUDO_UID")
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && err.contains("full") && err.contains("--user"),
        "{err}"
    );
}

#[test]
fn several_interfaces_in_one_run() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let args = [
        "query",
        "PARSE packet PROCESS (count)",
        "-i",
        "eth0",
        "-i",
        "lo",
        "udp port 9",
        "-c",
        "8",
        "-o",
        "rows",
    ];
    let mut child = start(&net.server, folder.path(), &args);
    net.send(4, 9);
    // On loopback each packet is captured once, on reception.
    shell(
        &net.server,
        &format!("for i in 1 2 3 4; do echo $i >/dev/udp/{SERVER}/9; done"),
    );
    assert!(child.wait().expect("it ends").success());
    let rows = std::fs::read_to_string(folder.path().join("rows")).expect("rows");
    let row: Value = serde_json::from_str(&rows).expect("a row");
    assert_eq!(row["count"], 8, "{rows}");
}
