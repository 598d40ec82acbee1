//! Shortens literals of statements, so that statements that differ in their literals only become equal and
//! share a cache entry.

use memchr::{memchr, memchr2};
use wide::u8x16;

use super::tokens::{CLASS, SqlByteClass};

/// Appends `sql` to `out` with `0` for every separate number and two quotes for every string; the fingerprint
/// is the same. Returns false, with arbitrary contents in `out`, if `sql` has comments or unterminated
/// strings, or exceeds `limit` after shortening; the output exceeds `limit` only slightly.
pub fn shorten(sql: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
    let mut at = 0;
    let mut copied = 0;
    loop {
        at += plain(&sql[at..]);
        if out.len() + (at - copied) > limit {
            return false;
        }
        let Some(&b) = sql.get(at) else { break };
        let next = sql.get(at + 1).copied().unwrap_or(0);
        at += 1;
        match b {
            b'0'..=b'9' => {
                let behind = at + sql[at..].iter().take_while(|b| b.is_ascii_digit()).count();
                if !goes_on(at.checked_sub(2).map(|i| sql[i])) && !goes_on(sql.get(behind).copied())
                {
                    out.extend_from_slice(&sql[copied..at - 1]);
                    out.push(b'0');
                    copied = behind;
                }
                at = behind;
            }
            b'\'' | b'"' => {
                let Some(end) = string_end(sql, at, b) else {
                    return false;
                };
                out.extend_from_slice(&sql[copied..at]);
                at = end;
                copied = end - 1;
            }
            b'`' => match memchr(b'`', &sql[at..]) {
                Some(n) => at += n + 1,
                None => return false,
            },
            b'#' => return false,
            b'-' if next == b'-' => return false,
            b'/' if next == b'*' => return false,
            // A following number would become a name.
            b'.' if CLASS[usize::from(next)] == SqlByteClass::Space => return false,
            _ => {}
        }
    }
    out.extend_from_slice(&sql[copied..]);
    true
}

/// End of the string whose `quote` is directly before `from`.
pub fn string_end(sql: &[u8], from: usize, quote: u8) -> Option<usize> {
    let mut end = from;
    loop {
        end += memchr2(quote, b'\\', sql.get(end..)?)?;
        if sql[end] != b'\\' && sql.get(end + 1) != Some(&quote) {
            return Some(end + 1);
        }
        end += 2;
    }
}

/// Whether digits next to this byte are part of a word.
#[inline]
fn goes_on(beside: Option<u8>) -> bool {
    beside.is_some_and(|b| b == b'.' || CLASS[usize::from(b)] <= SqlByteClass::Digit)
}

/// Number of bytes before the first special one.
#[inline]
fn plain(sql: &[u8]) -> usize {
    let (blocks, rest) = sql.as_chunks();
    let found = blocks
        .iter()
        .map(special)
        .enumerate()
        .find(|(_, mask)| *mask != 0);
    if let Some((i, mask)) = found {
        return 16 * i + mask.trailing_zeros() as usize;
    }
    let mut block = [b' '; 16];
    block[..rest.len()].copy_from_slice(rest);
    sql.len() - rest.len() + (special(&block).trailing_zeros() as usize).min(rest.len())
}

/// One bit per special byte: `"` `#` `'` `-` `.` `/`, a digit, and the backquote.
#[inline]
fn special(block: &[u8; 16]) -> u32 {
    let bytes = u8x16::new(*block);
    let is = |b: u8| bytes.simd_eq(u8x16::splat(b));
    let low = bytes - u8x16::splat(b'-');
    let in_row = low.min(u8x16::splat(b'9' - b'-')).simd_eq(low);
    (in_row | is(b'"') | is(b'#') | is(b'\'') | is(b'`')).to_bitmask()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fingerprint::fingerprint;
    use super::*;

    fn short(sql: &str) -> Option<String> {
        let mut out = Vec::new();
        let done = shorten(sql.as_bytes(), 512, &mut out);
        done.then(|| String::from_utf8(out).expect("text in, text out"))
    }

    #[test]
    fn literals_are_short() {
        for (sql, expected) in [
            (
                "SELECT c FROM sbtest12 WHERE id=4711",
                Some("SELECT c FROM sbtest12 WHERE id=0"),
            ),
            (
                "INSERT INTO t VALUES (17, 'it''s', \"a\\\"b\")",
                Some("INSERT INTO t VALUES (0, '', \"\")"),
            ),
            (
                "SELECT 1.5, 0xff, `a 17`, 2024_log, 12",
                Some("SELECT 1.5, 0xff, `a 17`, 2024_log, 0"),
            ),
            ("SELECT 12 -- x", None),
            ("SELECT /* 12 */ 1", None),
            ("SELECT 'x", None),
            ("SELECT `x", None),
            ("SELECT t. 12", None),
            ("", Some("")),
        ] {
            assert_eq!(short(sql).as_deref(), expected, "{sql}");
        }
        assert_eq!(short(&"a".repeat(513)), None);
        assert_eq!(
            short(&format!("x = {}", "1".repeat(9999))).as_deref(),
            Some("x = 0")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 4096, ..ProptestConfig::default() })]

        #[test]
        fn fingerprints_are_stable(words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "a", "t1", "1", "27", "0", "-", "'x'", "'", "\"", "\\", ",", "(", ")", "IN", "VALUES", "=", "*",
            ".", "NULL", " ", "/*c*/", "`q`", "`", "?", "+", "\"s\"", "\n", ";", "x", "e", "0x1", "/", "#", "_n", "\u{e4}",
        ]), 0..30)) {
            let sql = words.concat();
            if let Some(short) = short(&sql) {
                let [mut expected, mut got] = [Vec::new(), Vec::new()];
                fingerprint(sql.as_bytes(), &mut expected);
                fingerprint(short.as_bytes(), &mut got);
                prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected));
            }
        }
    }
}
