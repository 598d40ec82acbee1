//! Names of hosts: from files, DNS answers, and captures.

use super::*;

#[test]
fn names_of_hosts() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let hosts = folder.file("hosts", b"# ours\n10.0.0.2 resolver dns\n");
    let bad = folder.file("bad", b"10.0.0.2 resolver\nnonsense here\n");
    let query = "PARSE packet TO resolver:53 PROCESS (group-count: group=server_ip)";
    let with = |extra: &[&str]| {
        check(
            &[&["query", query, "-r", &capture, "--hosts", &hosts], extra].concat(),
            0,
            &[],
        )
        .out
    };
    assert!(with(&["--format", "table"]).contains("resolver"));
    assert!(!with(&["--format", "table", "--no-resolve"]).contains("resolver"));
    assert_eq!(lines(&with(&[]))[0]["server_ip"], "10.0.0.2");
    check(&["query", query, "-r", &capture], 2, &["resolver", "^"]);
    check(
        &["query", query, "-r", &capture, "--hosts", &bad],
        2,
        &["bad:2: \"nonsense\" is not an IP address"],
    );
    check(
        &[
            "query",
            query,
            "-r",
            &capture,
            "--hosts",
            &folder.path("none"),
        ],
        1,
        &["cannot read"],
    );
}

/// A pcapng file: the shop's first packets, followed by a name resolution block for the server.
fn pcapng_with_names() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padded = body.len().next_multiple_of(4);
        let len = (padded as u32 + 12).to_le_bytes();
        let mut block = [
            &kind.to_le_bytes(),
            &len,
            body,
            &vec![0; padded - body.len()],
        ]
        .concat();
        block.extend(len);
        block
    };
    let mut file = block(
        0x0a0d_0d0a,
        &[
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ]
        .concat(),
    );
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 4, 0]));
    let shop = fs::read(Path::new(ROOT).join("captures/shop/in.pcap")).expect("the recording");
    let mut rest = &shop[24..];
    for _ in 0..200 {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
        let micros = u64::from(word(0)) * 1_000_000 + u64::from(word(4));
        let len = word(8);
        let head: Vec<u8> = [0, (micros >> 32) as u32, micros as u32, len, word(12)]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        file.extend(block(6, &[&head, &rest[16..16 + len as usize]].concat()));
        rest = &rest[16 + len as usize..];
    }
    file.extend(block(
        4,
        &[
            &[1, 0, 13, 0, 10, 20, 0, 10][..],
            b"shop-web\0\0\0\0",
            &[0; 4],
        ]
        .concat(),
    ));
    file
}

#[test]
fn names_of_the_capture_itself_work_in_queries_and_tables() {
    let folder = Folder::new();
    let capture = folder.0.path().join("named.pcapng");
    fs::write(&capture, pcapng_with_names()).expect("a file in a temporary folder");
    let capture = capture.to_str().expect("text");
    let query = "PARSE http TO shop-web:80 PROCESS (group-count: group=server_ip)";
    let ran = check(
        &["query", query, "-r", capture, "--format", "table"],
        0,
        &[],
    );
    assert!(ran.out.contains("shop-web"), "{}", ran.out);
    let ran = check(
        &["query", query, "-r", capture, "--format", "jsonl"],
        0,
        &[],
    );
    assert!(ran.out.contains("10.20.0.10"), "{}", ran.out);
    check(
        &["query", "PARSE http TO shop-wob:80", "-r", capture],
        2,
        &["shop-wob", "did you mean `shop-web`"],
    );
}
