//! Domain names in messages: labels, and pointers to earlier labels (RFC 1035 section 4.1.4).
//!
//! A pointer must point before the labels it ends, which excludes loops; a name is limited to 255 bytes.

/// Maximum length of a name on the wire, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum number of pointers in a name: it has no more labels.
const POINTERS_MAX: usize = 127;
/// The two bits that mark a pointer.
const POINTER: u8 = 0xc0;

/// Position after the name at `at`; `None`: truncated or invalid.
pub fn end(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length if length & POINTER == POINTER => {
                return (at + 2 <= message.len()).then_some(at + 2);
            }
            length if length & POINTER == 0 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// Appends the name at `at` in text form, in lower case. `None`: truncated, invalid, or too long; the text
/// appended is then meaningless.
pub fn write(message: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<()> {
    let mut bytes = 1;
    let mut pointers = 0;
    let mut floor = at;
    let first = out.len();
    loop {
        let length = *message.get(at)?;
        match length & POINTER {
            POINTER => {
                let low = *message.get(at + 1)?;
                at = usize::from(u16::from_be_bytes([length & !POINTER, low]));
                pointers += 1;
                if at >= floor || pointers > POINTERS_MAX {
                    return None;
                }
                floor = at;
            }
            0 if length == 0 => break,
            0 => {
                let label = message.get(at + 1..at + 1 + usize::from(length))?;
                bytes += 1 + label.len();
                if bytes > NAME_BYTES_MAX {
                    return None;
                }
                if out.len() > first {
                    out.push(b'.');
                }
                write_label(label, out);
                at += 1 + label.len();
            }
            _ => return None,
        }
    }
    if out.len() == first {
        out.push(b'.');
    }
    Some(())
}

/// Escapes dots inside a label and unprintable bytes (RFC 1035 section 5.1).
fn write_label(label: &[u8], out: &mut Vec<u8>) {
    for byte in label {
        match byte {
            b'.' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x21..=0x7e => out.push(byte.to_ascii_lowercase()),
            _ => write_number(*byte, out),
        }
    }
}

/// Writes `\DDD`.
pub fn write_number(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[
        b'\\',
        b'0' + byte / 100,
        b'0' + byte / 10 % 10,
        b'0' + byte % 10,
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &[u8], at: usize, expected: Option<&str>) {
        let mut out = b"x".to_vec();
        let got = write(message, at, &mut out).map(|()| String::from_utf8(out).expect("text"));
        assert_eq!(
            got.as_deref(),
            expected.map(|name| format!("x{name}")).as_deref(),
            "{message:?}"
        );
    }

    #[test]
    fn names_are_printed_in_presentation_format() {
        check(b"\0", 0, Some("."));
        check(b"\x03WwW\x02ab\0", 0, Some("www.ab"));
        check(b"\x04a.b\\\x02 \xff\0", 0, Some(r"a\.b\\.\032\255"));
        check(b"\x02ab\0\x03www\xc0\0", 4, Some("www.ab"));
        check(b"\x02ab\0\xc0\0\xc0\x04", 6, Some("ab"));
        check(
            &[b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(3),
            0,
            None,
        );
    }

    #[test]
    fn pointer_loops_end() {
        check(b"\xc0\0", 0, None);
        check(b"\x01a\xc0\0", 0, None);
        check(b"\xc0\x02\xc0\0", 0, None);
        check(b"\xc0\x04\0\0\x01a\0", 0, None);
        check(b"\x40", 0, None);
        check(b"\x05ab", 0, None);
        let long = [
            [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(4),
            vec![0],
        ]
        .concat();
        check(&long, 0, None);
    }

    #[test]
    fn end_of_a_name() {
        for (message, expected) in [
            (&b"\0x"[..], Some(1)),
            (b"\x01a\0x", Some(3)),
            (b"\x01a\xc0\x09x", Some(4)),
            (b"\x01a\xc0", None),
        ] {
            assert_eq!(end(message, 0), expected, "{message:?}");
        }
    }
}
