//! Columns of hashes: each row is a list of 8-byte little-endian hashes. Zero stands for an unknown hash; the
//! probability that a hash is zero is 2^−64.

/// Size of a hash in bytes.
pub const BYTES: usize = 8;

/// The list in a row; `None` for unknown hashes.
pub fn of(row: &[u8]) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
    row.as_chunks::<BYTES>()
        .0
        .iter()
        .map(|word| Some(u64::from_le_bytes(*word)).filter(|hash| *hash != 0))
}

/// Appends the list as text: 16 hexadecimal digits each, `-` if unknown, separated by spaces.
pub fn push_text(row: &[u8], out: &mut Vec<u8>) {
    out.reserve(row.len() / BYTES * 17);
    for (i, hash) in of(row).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        match hash {
            Some(hash) => push_hex(hash, out),
            None => out.push(b'-'),
        }
    }
}

/// Appends 16 hexadecimal digits.
pub fn push_hex(hash: u64, out: &mut Vec<u8>) {
    let digits: [u8; 16] =
        std::array::from_fn(|i| b"0123456789abcdef"[(hash >> (60 - 4 * i)) as usize & 15]);
    out.extend_from_slice(&digits);
}

/// The list as text.
#[must_use]
pub fn to_text(row: &[u8]) -> String {
    let mut text = Vec::new();
    push_text(row, &mut text);
    String::from_utf8(text).expect("digits, blanks and dashes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_hexadecimal() {
        let row = [0x0123_4567_89ab_cdef_u64, 0, u64::MAX]
            .map(u64::to_le_bytes)
            .concat();
        assert_eq!(to_text(&row), "0123456789abcdef - ffffffffffffffff");
        assert_eq!(
            of(&row).collect::<Vec<_>>(),
            [Some(0x0123_4567_89ab_cdef), None, Some(u64::MAX)]
        );
        assert_eq!(to_text(&[]), "");
    }
}
