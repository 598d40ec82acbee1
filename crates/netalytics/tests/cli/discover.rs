//! `network discover` without results: wrong flags, unreachable switches and servers. Results are tested on the bed
//! (`live/testbed.rs`).

use crate::{Folder, check};

#[test]
fn unreachable_switches_are_reported() {
    let folder = Folder::new();
    let away = [
        "network",
        "discover",
        "--switch",
        "leaf1=unix:/nowhere/db.sock",
    ];
    let refused = |more: &[&str], code, words: &[&str]| check(&[&away, more].concat(), code, words);
    refused(&[], 1, &["cannot query leaf1"]);
    refused(
        &["--switch", "leaf1=unix:/elsewhere/db.sock"],
        2,
        &["two --switch have the same name"],
    );
    refused(
        &["--addresses", "10.0.0.0/8"],
        2,
        &["16777216 addresses", "4096"],
    );
    refused(
        &["--addresses", "10.0.0.0/20", "--addresses", "10.9.0.1"],
        2,
        &["4097 addresses"],
    );
    refused(
        &["--addresses", "web"],
        2,
        &["not a network, such as 10.0.1.0/24"],
    );
    refused(
        &["--link-mbps", "0"],
        2,
        &["--link-mbps", "not a number above 0"],
    );
    refused(
        &["--controller", "https://x"],
        2,
        &["http://127.0.0.1:8081"],
    );
    refused(
        &["--controller", "http://127.0.0.1:9"],
        1,
        &["cannot query the controller"],
    );
    refused(&["--token-file", "t"], 2, &["--server"]);
    let broken = folder.file("broken.toml", b"[[host]]\nname = 3\n");
    refused(&["--into", &broken], 2, &["broken.toml", "line 2"]);
    refused(
        &["--into", "/nowhere/network.toml"],
        1,
        &["/nowhere/network.toml"],
    );
    check(&["network", "discover"], 2, &["--switch"]);
    check(
        &["network", "discover", "--switch", "leaf1=tcp:10.0.0.1:6640"],
        2,
        &["leaf1=unix:/run/leaf1/db.sock"],
    );
    check(&["network"], 2, &["discover"]);
}
