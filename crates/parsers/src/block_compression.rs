//! Block formats of Snappy and LZ4, decompressed up to a limit from the first bytes of a block. Libraries need the complete input; of a
//! long message only its first bytes are held.

/// The raw format of Snappy ("Snappy compressed format description" in its sources), up to `limit` bytes of output.
pub fn snappy(input: &[u8], limit: usize, out: &mut Vec<u8>) {
    let from = out.len();
    let end = from + limit;
    let preamble = input.iter().take(5).take_while(|b| **b >= 0x80).count() + 1;
    let mut rest = input.get(preamble..).unwrap_or_default();
    while out.len() < end {
        let Some((tag, behind)) = rest.split_first() else {
            return;
        };
        let size = usize::from(tag >> 2);
        rest = behind;
        if tag & 3 == 0 {
            let bytes = size.saturating_sub(59);
            let Some(length) = little_endian(rest, bytes) else {
                return;
            };
            let length = if bytes == 0 { size } else { length } + 1;
            rest = &rest[bytes..];
            let literal = &rest[..length.min(rest.len())];
            out.extend_from_slice(&literal[..literal.len().min(end - out.len())]);
            rest = &rest[literal.len()..];
            continue;
        }
        let bytes = [0, 1, 2, 4][usize::from(tag & 3)];
        let Some(distance) = little_endian(rest, bytes) else {
            return;
        };
        rest = &rest[bytes..];
        let (length, distance) = match tag & 3 {
            1 => ((size & 7) + 4, distance | (size >> 3) << 8),
            _ => (size + 1, distance),
        };
        if distance == 0 || distance > out.len() - from {
            return;
        }
        for _ in 0..length.min(end - out.len()) {
            out.push(out[out.len() - distance]);
        }
    }
}

/// A number of `bytes` bytes, at most 4.
fn little_endian(input: &[u8], bytes: usize) -> Option<usize> {
    let digits = input.get(..bytes)?.iter().rev();
    Some(digits.fold(0, |number, digit| number << 8 | usize::from(*digit)))
}

/// The block format of LZ4 ("LZ4 Block Format Description" in its sources), up to `limit` bytes of output. Returns whether the block
/// was read to its end.
pub fn lz4(input: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
    let from = out.len();
    let end = from + limit;
    let mut rest = input;
    while let Some((token, behind)) = rest.split_first() {
        rest = behind;
        let Some(length) = lz4_length(usize::from(token >> 4), &mut rest) else {
            return false;
        };
        let literal = &rest[..length.min(rest.len())];
        out.extend_from_slice(&literal[..literal.len().min(end - out.len())]);
        if length > literal.len() {
            return false;
        }
        rest = &rest[length..];
        if rest.is_empty() {
            return true;
        }
        let Some(distance) = little_endian(rest, 2) else {
            return false;
        };
        rest = &rest[2..];
        let Some(length) = lz4_length(usize::from(token & 15), &mut rest) else {
            return false;
        };
        if distance == 0 || distance > out.len() - from || out.len() == end {
            return false;
        }
        for _ in 0..(length + 4).min(end - out.len()) {
            out.push(out[out.len() - distance]);
        }
    }
    false
}

/// A length whose first part is in the token: 15 continues with bytes, of which all but the last are 255.
fn lz4_length(first: usize, rest: &mut &[u8]) -> Option<usize> {
    let mut length = first;
    let mut goes_on = first == 15;
    while goes_on {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        length += usize::from(*byte);
        goes_on = *byte == 255;
    }
    Some(length)
}
