//! Captures and query files as inputs.

use super::*;

#[test]
fn inputs_that_are_no_captures_are_one_clear_line_each() {
    let folder = Folder::new();
    let png = folder.file("picture.pcap", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0");
    let empty = folder.file("empty.pcap", b"");
    let missing = folder.path("missing.pcap");
    for path in [&png, &empty, &missing, &folder.path("")] {
        let ran = check(&["query", PACKETS, "-q", "-r", path], 1, &[path]);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert!(
            ran.err.starts_with("error: ") && ran.out.is_empty(),
            "{}",
            ran.err
        );
    }
    let good = folder.capture("good.pcap", 4);
    let ran = check(
        &["query", PACKETS, "-r", &missing, &good, &png],
        1,
        &["missing.pcap", "picture.pcap"],
    );
    assert_eq!(
        ran.out.lines().count(),
        4,
        "the good one is read all the same"
    );
}

#[test]
fn packets_before_a_truncation_are_kept() {
    let folder = Folder::new();
    let whole = pcap(&datagrams(10));
    let cut = folder.file("cut.pcap", &whole[..whole.len() - 5]);
    let ran = check(&["query", PACKETS, "-r", &cut], 1, &["cut.pcap: byte "]);
    assert_eq!(ran.out.lines().count(), 9);
}

#[test]
fn captures_come_by_every_road() {
    let folder = Folder::new();
    let bytes = pcap(&datagrams(6));
    let plain = check(
        &["query", PACKETS, "-r", &folder.file("a.pcap", &bytes)],
        0,
        &[],
    );
    assert_eq!(plain.out.lines().count(), 6);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes)
        .expect("writing to memory cannot fail");
    let gzip = gzip.finish().expect("writing to memory cannot fail");
    let packed = check(
        &["query", PACKETS, "-r", &folder.file("a.pcap.gz", &gzip)],
        0,
        &[],
    );
    assert_eq!(packed.out, plain.out);
    for input in [&bytes, &gzip] {
        let piped = run_with_stdin(&["query", PACKETS, "-r", "-"], input);
        assert_eq!(
            (piped.code, piped.out),
            (0, plain.out.clone()),
            "{}",
            piped.err
        );
    }
}

#[test]
fn queries_are_read_from_files() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let query = folder.file("q.nq", b"PARSE packet\nPROCESS (count)\n");
    let ran = check(&["query", "-f", &query, "-r", &capture], 0, &[]);
    assert_eq!(lines(&ran.out)[0]["count"], 4, "{}", ran.out);
    check(
        &["query", "-f", &folder.path("none.nq"), "-r", &capture],
        1,
        &["none.nq"],
    );
}

#[test]
fn an_input_is_never_overwritten() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let before = fs::read(&capture).expect("readable");
    let link = folder.path("link");
    std::os::unix::fs::symlink(&capture, &link).expect("a link");
    check(
        &["query", PACKETS, "-r", &capture, "-o", &capture],
        2,
        &["is an input"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "-o", &link],
        2,
        &["is an input"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "--summary-json", &capture],
        2,
        &["is an input"],
    );
    assert_eq!(fs::read(&capture).expect("readable"), before);
}
