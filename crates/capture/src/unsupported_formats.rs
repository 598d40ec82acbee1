//! Descriptions of files that are not supported captures, with advice for the user. Only for messages: no decision
//! depends on it.

/// Formats by their first bytes, with advice.
const KNOWN: &[(&[u8], &str)] = &[
    (
        b"snoop\0\0\0",
        "a snoop capture: convert it with `editcap -F pcap`",
    ),
    (
        b"GMBU",
        "a Microsoft Network Monitor capture: convert it with `editcap -F pcap`",
    ),
    (
        b"RTSS",
        "a Microsoft Network Monitor capture: convert it with `editcap -F pcap`",
    ),
    (
        b"TRSNIFF data",
        "a Sniffer capture: convert it with `editcap -F pcap`",
    ),
    (
        b"XCP\0",
        "a NetXRay capture: convert it with `editcap -F pcap`",
    ),
    (
        b"\x1c\x00\x01\xac",
        "an IXIA lcap capture: convert it with `editcap -F pcap`",
    ),
    (b"BZh", "bzip2 data: unpack it with `bzip2 -d`"),
    (b"\xfd7zXZ\0", "xz data: unpack it with `xz -d`"),
    (b"\x04\x22\x4d\x18", "lz4 data: unpack it with `lz4 -d`"),
    (b"\x89LZO", "lzop data: unpack it with `lzop -d`"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ", "a Windows program"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"<?xml", "XML, perhaps tshark's: use the original capture"),
    (b"#!", "a script"),
];

/// One line about a file that begins with `head`.
pub(crate) fn describe(head: &[u8]) -> String {
    let looks = match KNOWN.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, looks)) => looks,
        None if head.iter().all(|&b| b == 0) => "zeros, as if it was never written",
        None if is_html(head) => "an HTML page, perhaps the error page of a download",
        None if is_text(head) => "text: use the file written by -w of tcpdump or tshark",
        None => return format!("not a capture file: it begins with {}", hex(head)),
    };
    format!("not a supported capture file: it looks like {looks}")
}

fn is_html(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    ["<!doctype", "<html", "<head"].iter().any(|tag| {
        head.get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    })
}

fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut at the end.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    !text
        .chars()
        .any(|c| c.is_control() && !c.is_ascii_whitespace())
}

fn hex(head: &[u8]) -> String {
    head.iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], expected: &str) {
        let described = describe(head);
        assert!(described.contains(expected), "{described}");
    }

    #[test]
    fn known_formats_are_named() {
        check(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG");
        check(b"\x7fELF\x02\x01\x01", "ELF");
        check(b"snoop\0\0\0\0\0\0\x02", "snoop");
        check(b"  <!DOCTYPE HTML>", "HTML");
        check(b"12:00:01.5 IP 10.0.0.1.80 > ", "text");
        check("Gr\u{fc}\u{df}e".as_bytes(), "text");
        check(&"Gr\u{fc}".as_bytes()[..3], "text");
        check(&[0; 24], "zeros");
        check(&[0xde, 0xad, 0xbe, 0xef, 1], "de ad be ef 01");
    }
}
