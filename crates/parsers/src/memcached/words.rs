//! Words of a text line: split at blanks as the server does, numbers, meta flags, and Base64 keys.

use crate::pairing::ResponseExpectation;

/// Encoding of a request's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedKeyEncoding {
    #[default]
    Plain,
    Base64,
}

/// Parts of a meta command that its response repeats, besides its opaque token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaKeyEcho {
    #[default]
    Nothing,
    Key,
}

/// The words of a line, separated by one or more blanks.
#[derive(Clone, Copy, Debug)]
pub struct MemcachedWords<'a>(pub &'a [u8]);

impl<'a> Iterator for MemcachedWords<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.0;
        while let [b' ', behind @ ..] = rest {
            rest = behind;
        }
        if rest.is_empty() {
            return None;
        }
        let (word, behind) = rest.split_at(blank(rest));
        self.0 = behind;
        Some(word)
    }
}

/// Position of the first blank, or the end; eight bytes at a time.
#[inline]
fn blank(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    let (eights, rest) = bytes.as_chunks::<8>();
    for (i, eight) in eights.iter().enumerate() {
        let x = u64::from_le_bytes(*eight) ^ (ONES * b' ' as u64);
        let zeros = x.wrapping_sub(ONES) & !x & (ONES << 7);
        if zeros != 0 {
            return i * 8 + zeros.trailing_zeros() as usize / 8;
        }
    }
    let last = rest.iter().position(|b| *b == b' ').unwrap_or(rest.len());
    bytes.len() - rest.len() + last
}

/// A line without `\n` and the `\r` before it.
#[inline]
pub fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Parses an unsigned decimal number that is the whole word.
#[inline]
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    if word.len() < 20 {
        let digits = word.iter().try_fold(0, |n: u64, b| {
            let digit = b.wrapping_sub(b'0');
            (digit < 10).then(|| n * 10 + u64::from(digit))
        });
        return digits;
    }
    word.iter().try_fold(0u64, |n, b| match b {
        b'0'..=b'9' => n.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// Whether the word is a decimal number with or without a sign.
pub fn is_signed_number(word: &[u8]) -> bool {
    let digits = word
        .strip_prefix(b"-")
        .or(word.strip_prefix(b"+"))
        .unwrap_or(word);
    number(digits).is_some()
}

/// Length of a data block as the server parses it; `None`: rejected, so there is no block.
pub fn block_length(word: &[u8]) -> Option<u64> {
    let n = number(word.strip_prefix(b"+").unwrap_or(word))?;
    (n <= i32::MAX as u64 - 2).then_some(n)
}

/// Effect of a meta command's flags on its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetaFlags<'a> {
    pub expects: ResponseExpectation,
    pub key_form: MemcachedKeyEncoding,
    pub echo: MetaKeyEcho,
    /// Opaque token, repeated in the response.
    pub tag: Option<&'a [u8]>,
}

/// Parses the flags of a meta command.
pub fn meta_flags(words: MemcachedWords<'_>) -> MetaFlags<'_> {
    let mut flags = MetaFlags::default();
    for word in words {
        match word[0] {
            b'q' => flags.expects = ResponseExpectation::Perhaps,
            b'b' => flags.key_form = MemcachedKeyEncoding::Base64,
            b'k' => flags.echo = MetaKeyEcho::Key,
            b'O' => flags.tag = Some(&word[1..]),
            _ => {}
        }
    }
    flags
}

/// Decodes standard Base64 with padding into `room`; `None`: invalid or too long.
pub fn base64<'r>(text: &[u8], room: &'r mut [u8; 256]) -> Option<&'r [u8]> {
    let body = text
        .strip_suffix(b"==")
        .or(text.strip_suffix(b"="))
        .unwrap_or(text);
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bits = 0u32;
    let mut n_bits = 0;
    let mut len = 0;
    for b in body {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            *room.get_mut(len)? = (bits >> n_bits) as u8;
            len += 1;
        }
    }
    Some(&room[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn blanks_are_found_anywhere(bytes in proptest::collection::vec(proptest::sample::select(vec![b' ', b'!', 0x1f, 0xa0, b'x', 0]), 0..40)) {
            let expected = bytes.iter().position(|b| *b == b' ').unwrap_or(bytes.len());
            proptest::prop_assert_eq!(blank(&bytes), expected);
        }

        #[test]
        fn numbers_are_read_as_the_standard_library_does(word in "[0-9]{0,21}|[0-9+x]{0,5}") {
            let expected = word.parse().ok().filter(|_| word.len() <= 20 && !word.starts_with('+'));
            proptest::prop_assert_eq!(number(word.as_bytes()), expected);
        }
    }

    #[test]
    fn words_are_split_at_blanks() {
        for (line, words) in [
            ("get  a b ", vec!["get", "a", "b"]),
            ("", vec![]),
            ("  ", vec![]),
            ("x", vec!["x"]),
        ] {
            let got: Vec<_> = MemcachedWords(line.as_bytes())
                .map(|w| String::from_utf8_lossy(w).into_owned())
                .collect();
            assert_eq!(got, words, "{line:?}");
        }
    }

    #[test]
    fn lengths_are_those_the_server_takes() {
        for (word, length) in [
            ("0", Some(0)),
            ("+5", Some(5)),
            ("-1", None),
            ("", None),
            ("5x", None),
            ("2147483645", Some(2_147_483_645)),
            ("2147483646", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(block_length(word.as_bytes()), length, "{word:?}");
        }
    }

    #[test]
    fn base64_keys_are_decoded() {
        for (text, bytes) in [
            ("Zm9v", Some(&b"foo"[..])),
            ("Zm8=", Some(b"fo")),
            ("Zg==", Some(b"f")),
            ("/+8=", Some(b"\xff\xef")),
            ("Zm9", None),
            ("Zm9*", None),
            ("", None),
        ] {
            assert_eq!(base64(text.as_bytes(), &mut [0; 256]), bytes, "{text}");
        }
        assert_eq!(base64(&[b'A'; 400], &mut [0; 256]), None);
    }
}
