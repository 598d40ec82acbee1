//! Validation of Parquet footers (Thrift's compact protocol). A list with more elements than remaining bytes would
//! keep the Parquet library busy for seconds, because it iterates over elements assumed to have no bytes.

/// Maximum nesting of structures.
const DEPTH_MAX: u32 = 32;

/// Whether every list in the structure has bytes for its elements.
pub fn is_sound(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    structure(&mut rest, DEPTH_MAX).is_some()
}

fn structure(rest: &mut &[u8], depth: u32) -> Option<()> {
    loop {
        let head = byte(rest)?;
        let kind = head & 15;
        if kind == 0 {
            return Some(());
        }
        if head >> 4 == 0 {
            varint(rest)?;
        }
        // A boolean field has no bytes of its own.
        if kind > 2 {
            value(rest, kind, depth)?;
        }
    }
}

fn value(rest: &mut &[u8], kind: u8, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind {
        1..=3 => drop(byte(rest)?),
        4..=6 => drop(varint(rest)?),
        7 => skip(rest, 8)?,
        8 => {
            let n = varint(rest)?;
            skip(rest, n)?;
        }
        9 | 10 => {
            let head = byte(rest)?;
            let n = if head >> 4 == 15 {
                varint(rest)?
            } else {
                u64::from(head >> 4)
            };
            elements(rest, n, |rest| value(rest, head & 15, depth))?;
        }
        11 => {
            let n = varint(rest)?;
            let kinds = if n > 0 { byte(rest)? } else { 0 };
            elements(rest, n, |rest| {
                value(rest, kinds >> 4, depth)?;
                value(rest, kinds & 15, depth)
            })?;
        }
        12 => structure(rest, depth)?,
        _ => return None,
    }
    Some(())
}

fn elements(
    rest: &mut &[u8],
    n: u64,
    mut element: impl FnMut(&mut &[u8]) -> Option<()>,
) -> Option<()> {
    (n <= rest.len() as u64).then_some(())?;
    (0..n).try_for_each(|_| element(rest))
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

fn skip(rest: &mut &[u8], n: u64) -> Option<()> {
    *rest = rest.get(usize::try_from(n).ok()?..)?;
    Some(())
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(rest)?;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_longer_than_the_bytes_are_refused() {
        // Field 1: a list of two booleans; field 2: -1; field 3: true; field 4: a structure with a text.
        let sound = [
            0x19, 0x21, 1, 2, 0x16, 1, 0x11, 0x1c, 0x18, 2, b'a', b'b', 0, 0,
        ];
        assert!(is_sound(&sound));
        assert!((0..sound.len()).all(|n| !is_sound(&sound[..n])));
        // A list of 2^31 - 1 booleans in ten bytes.
        assert!(!is_sound(&[
            0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0
        ]));
        // Unlimited nesting.
        assert!(!is_sound(&[0x1c; 100]));
    }

    #[test]
    fn every_kind_of_value_is_stepped_over() {
        // A field of each kind, each number one above the previous, then the end.
        for value in [
            &[0x11][..],                     // true
            &[0x12],                         // false
            &[0x13, 7],                      // a byte
            &[0x15, 0xff, 0x01],             // 32 bits
            &[0x16, 0xff, 0xff, 0x03],       // 64 bits
            &[0x17, 0, 0, 0, 0, 0, 0, 0, 1], // a real number
            &[0x18, 3, b'a', b'b', b'c'],    // a text
            &[0x19, 0x38, 0, 1, b'a', 0],    // a list of three texts
            &[0x1a, 0x25, 1, 2],             // a set of two numbers
            &[0x1b, 0],                      // a map without entries
            &[0x1b, 1, 0x58, 9, 1, b'x'],    // a map from a number to a text
            &[0x1c, 0],                      // a structure
        ] {
            let sound = [value, &[0]].concat();
            assert!(is_sound(&sound), "{value:x?}");
            assert!(
                (0..sound.len()).all(|n| !is_sound(&sound[..n])),
                "{value:x?}"
            );
        }
    }

    #[test]
    fn malformed_thrift_is_rejected() {
        assert!(!is_sound(&[]));
        // Invalid kinds.
        assert!(!is_sound(&[0x1d, 0, 0]) && !is_sound(&[0x1f, 0, 0]));
        // A number without an end.
        assert!(!is_sound(&[
            0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0
        ]));
        // A text, a set, and a map that are longer than the remaining bytes.
        assert!(!is_sound(&[0x18, 200, 1, b'a', 0]));
        assert!(!is_sound(&[0x1a, 0xf5, 0xff, 0xff, 0x03, 0]));
        assert!(!is_sound(&[0x1b, 0xff, 0xff, 0x03, 0x55, 0]));
    }
}
