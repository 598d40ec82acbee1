//! Ends of literals and comments that only PostgreSQL has.

use memchr::memchr;
use memchr::memmem::find;

/// Maximum length of the tag of a dollar-quoted string.
const TAG_MAX: usize = 64;

/// End of the quoted text whose `quote` is directly before `from`; a doubled quote belongs to it.
pub fn quoted_end(sql: &[u8], from: usize, quote: u8) -> usize {
    let mut end = from;
    while let Some(n) = sql.get(end..).and_then(|rest| memchr(quote, rest)) {
        end += n + 1;
        if sql.get(end) != Some(&quote) {
            return end;
        }
        end += 1;
    }
    sql.len()
}

/// End of the dollar-quoted string that begins at `at`, if one does.
pub fn dollar_end(sql: &[u8], at: usize) -> Option<usize> {
    let tag = sql[at + 1..].iter().take(TAG_MAX);
    let n = tag
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80)
        .count();
    let is_tag = sql.get(at + 1 + n) == Some(&b'$') && !sql[at + 1].is_ascii_digit();
    if !is_tag {
        return None;
    }
    let tag = &sql[at..at + n + 2];
    let body = at + tag.len();
    Some(find(&sql[body..], tag).map_or(sql.len(), |n| body + n + tag.len()))
}

/// End of the comment, possibly nested, that begins at `at` with `/*`.
pub fn nested_comment_end(sql: &[u8], at: usize) -> usize {
    let mut depth = 1;
    let mut end = at + 2;
    while depth > 0 {
        end += match sql.get(end..) {
            Some([b'*', b'/', ..]) => {
                depth -= 1;
                2
            }
            Some([b'/', b'*', ..]) => {
                depth += 1;
                2
            }
            Some([_, ..]) => 1,
            _ => return sql.len(),
        };
    }
    end
}
