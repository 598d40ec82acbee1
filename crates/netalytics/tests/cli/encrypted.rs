//! TLS with keys: from files, folders, pipes, and the capture itself; and keys that stay secret.

use super::*;

const CAPTURE: &str = "captures/tls-keys/in.pcap";
const KEYS: &str = "captures/tls-keys/keys.log";
const QUERY: &str = "PARSE http SELECT client_port, url, status";

fn read(path: &str) -> Vec<u8> {
    fs::read(std::path::Path::new(ROOT).join(path)).expect("a recorded file")
}

/// The capture as pcapng, with the keys in a block before the packets.
fn with_keys_inside() -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len().next_multiple_of(4)) as u32;
        file.extend([kind.to_le_bytes(), len.to_le_bytes()].concat());
        file.extend(body);
        file.resize(file.len().next_multiple_of(4), 0);
        file.extend(len.to_le_bytes());
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    block(0x0a0d_0d0a, &section);
    let keys = read(KEYS);
    let head = [
        0x544c_534b_u32.to_le_bytes(),
        (keys.len() as u32).to_le_bytes(),
    ]
    .concat();
    block(10, &[head, keys].concat());
    block(1, &[1, 0, 0, 0, 0, 0, 4, 0]);
    let capture = read(CAPTURE);
    let mut rest = &capture[24..];
    while let Some((head, packet)) = rest.split_first_chunk::<16>() {
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let micros = u64::from(word(0)) * 1_000_000 + u64::from(word(4));
        let words = [0, (micros >> 32) as u32, micros as u32, word(8), word(12)];
        let (bytes, behind) = packet.split_at(word(8) as usize);
        block(6, &[&words.map(u32::to_le_bytes).concat(), bytes].concat());
        rest = behind;
    }
    file
}

#[test]
fn keys_come_by_every_road_and_give_the_same_rows() {
    let folder = Folder::new();
    let expected = check(
        &["query", QUERY, "-r", CAPTURE, "--keys", KEYS],
        0,
        &["decrypted", "keys_missing 1"],
    );
    assert!(expected.out.lines().count() > 150);
    let keys = String::from_utf8(read(KEYS)).expect("a key log is text");
    fs::create_dir(folder.path("keys")).expect("a folder");
    let half = keys.len() / 2 + keys[keys.len() / 2..].find('\n').expect("a line end") + 1;
    folder.file("keys/first", &keys.as_bytes()[..half]);
    folder.file("keys/second", keys[half..].trim_end().as_bytes());
    let both = check(
        &[
            "query",
            QUERY,
            "-r",
            CAPTURE,
            "--keys",
            &folder.path("keys"),
        ],
        0,
        &[],
    );
    assert_eq!(both.out, expected.out);
    let inside = folder.file("inside.pcapng", &with_keys_inside());
    let own = check(&["query", QUERY, "-r", &inside], 0, &["decrypted"]);
    assert_eq!(own.out, expected.out);
    let other = check(&["query", QUERY, "-r", CAPTURE, "--keys", &inside], 0, &[]);
    assert_eq!(other.out, expected.out);
    // A pipe has its keys before the packets are read.
    let pipe = folder.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .expect("mkfifo")
            .success()
    );
    let mut end = fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("the pipe");
    end.write_all(keys.as_bytes()).expect("a pipe has 64 KiB");
    let streamed = run_with_stdin(
        &["query", QUERY, "-r", "-", "--keys", &pipe],
        &read(CAPTURE),
    );
    assert_eq!(streamed.out, expected.out, "{}", streamed.err);
}

#[test]
fn keys_are_in_no_output() {
    let folder = Folder::new();
    let inside = folder.file("inside.pcapng", &with_keys_inside());
    let (packets, summary) = (folder.path("out.pcapng"), folder.path("summary.json"));
    let ran = check(
        &[
            "query",
            QUERY,
            "-r",
            &inside,
            "-w",
            &packets,
            "--summary-json",
            &summary,
            "-v",
        ],
        0,
        &[],
    );
    let keys = String::from_utf8(read(KEYS)).expect("a key log is text");
    let secrets = keys.lines().filter_map(|line| line.split(' ').nth(2));
    let written = fs::read(&packets).expect("packets");
    let summary = fs::read_to_string(&summary).expect("a summary");
    let mut tried = 0;
    for secret in secrets {
        let is_in = |text: &[u8]| {
            text.windows(secret.len())
                .any(|part| part == secret.as_bytes())
        };
        assert!(!is_in(ran.out.as_bytes()) && !is_in(ran.err.as_bytes()));
        assert!(!is_in(&written) && !is_in(summary.as_bytes()));
        tried += 1;
    }
    assert!(tried > 50);
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["tls"]["keys_missing"], 1);
    let again = check(&["query", QUERY, "-r", &packets], 0, &[]);
    assert_eq!(again.out, "", "written packets have no keys");
}

#[test]
fn keys_that_cannot_be_used_are_refused() {
    check(
        &["query", QUERY, "-r", CAPTURE, "--keys", "no-such-file"],
        1,
        &["cannot read the keys in no-such-file"],
    );
    check(
        &["query", QUERY, "--keys", KEYS, "--kafka", "127.0.0.1:1"],
        2,
        &["--keys is for packets that this process reads"],
    );
    check(
        &["query", QUERY, "-r", CAPTURE, "--key-wait", "1s"],
        2,
        &["--keys"],
    );
    // An agent's monitor has no flag for keys.
    check(&["monitor", "--keys", KEYS], 2, &["--keys"]);
    let folder = Folder::new();
    let empty = folder.file("empty", b"");
    check(
        &["query", QUERY, "-r", CAPTURE, "--keys", &empty],
        0,
        &["keys_missing"],
    );
    let garbage = folder.file("garbage", &[0xff; 100_000]);
    check(
        &["query", QUERY, "-r", CAPTURE, "--keys", &garbage],
        0,
        &["keys_missing"],
    );
}
