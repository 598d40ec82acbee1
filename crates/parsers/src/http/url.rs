//! Parts of request targets (RFC 9112 section 3.2), and path templates with ids folded.

use memchr::{memchr, memchr2};

/// Minimum length of hexadecimal ids, and of mixed ids of letters and digits.
const HEX_MIN: usize = 12;
const MIXED_MIN: usize = 16;
/// Maximum length of a file name extension.
const EXTENSION_MAX: usize = 5;

/// The parts of a request target; all borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// Host and port, if present.
    pub authority: Option<&'a [u8]>,
    /// Path and query string.
    pub resource: &'a [u8],
}

impl<'a> RequestTarget<'a> {
    /// The path, and the query string with its `?`, which is empty if there is none.
    pub fn path_and_query(self) -> (&'a [u8], &'a [u8]) {
        let end = memchr(b'?', self.resource).unwrap_or(self.resource.len());
        self.resource.split_at(end)
    }
}

/// Splits a target in any of the four forms.
#[inline]
pub fn target<'a>(method: &[u8], target: &'a [u8]) -> RequestTarget<'a> {
    let (authority, resource) = if target.first() == Some(&b'/') {
        (None, target)
    } else if let Some(rest) = after_scheme(target) {
        let end = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        (Some(&rest[..end]), &rest[end..])
    } else if method == b"CONNECT" {
        (Some(target), &b""[..])
    } else {
        (None, target)
    };
    RequestTarget {
        authority,
        resource,
    }
}

fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    let colon = memchr(b':', &target[..target.len().min(8)])?;
    let scheme = &target[..colon];
    if scheme.is_empty() || !scheme.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    target[colon..].strip_prefix(b"://")
}

/// Appends `path` to `out` with every segment that is an id replaced by `{id}`: numbers, UUIDs, long
/// hexadecimal and long mixed tokens. A file name extension is kept.
pub fn template(path: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    let mut start = 0;
    let mut digits = 0;
    let mut fold = |segment: &[u8], start: usize, digits: usize| {
        let stem = if digits == segment.len() {
            segment
        } else {
            stem(segment)
        };
        if digits == segment.len() || is_id(stem) {
            out.extend_from_slice(&path[copied..start]);
            out.extend_from_slice(b"{id}");
            copied = start + stem.len();
        }
    };
    for (at, b) in path.iter().enumerate() {
        digits += usize::from(b.is_ascii_digit());
        if *b == b'/' {
            if digits > 0 {
                fold(&path[start..at], start, digits);
            }
            start = at + 1;
            digits = 0;
        }
    }
    if digits > 0 {
        fold(&path[start..], start, digits);
    }
    out.extend_from_slice(&path[copied..]);
}

/// `segment` without an extension of up to five letters and digits that begins with a letter.
fn stem(segment: &[u8]) -> &[u8] {
    // An earlier dot does not begin an extension.
    let tail = segment.len().saturating_sub(EXTENSION_MAX + 1);
    match segment[tail..]
        .iter()
        .rposition(|b| *b == b'.')
        .map(|at| tail + at)
    {
        Some(dot) => match &segment[dot + 1..] {
            ext @ [first, ..]
                if first.is_ascii_alphabetic()
                    && ext.len() <= EXTENSION_MAX
                    && ext.iter().all(u8::is_ascii_alphanumeric) =>
            {
                &segment[..dot]
            }
            _ => segment,
        },
        None => segment,
    }
}

fn is_id(s: &[u8]) -> bool {
    if s.len() < HEX_MIN {
        return !s.is_empty() && s.iter().all(u8::is_ascii_digit);
    }
    let digits = s.iter().filter(|b| b.is_ascii_digit()).count();
    digits > 0
        && (digits == s.len()
            || is_uuid(s)
            || s.iter().all(u8::is_ascii_hexdigit)
            || s.len() >= MIXED_MIN && is_mixed(s))
}

fn is_uuid(s: &[u8]) -> bool {
    s.len() == 36
        && s.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Base64, base62, and similar: letters and digits alternate more often than in words with numbers.
fn is_mixed(s: &[u8]) -> bool {
    let class = |b: &u8| match b {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    };
    if !s.iter().all(|b| class(b) < 3 || b"-_=~+".contains(b)) {
        return false;
    }
    let inner = s
        .windows(2)
        .map(|w| (class(&w[0]), class(&w[1])))
        .filter(|(a, b)| *a < 3 && *b < 3);
    let mut changes = 0;
    let mut digit_runs = usize::from(s[0].is_ascii_digit());
    for (a, b) in inner {
        changes += usize::from(a != b);
        digit_runs += usize::from(b == 0 && a != 0);
    }
    changes * 2 >= s.len() || digit_runs >= 2 && changes * 4 >= s.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let check = |method: &str, text: &str, authority: Option<&str>, path: &str, query: &str| {
            let found = target(method.as_bytes(), text.as_bytes());
            assert_eq!(found.authority, authority.map(str::as_bytes), "{text}");
            let parts = (path.as_bytes(), query.as_bytes());
            assert_eq!(found.path_and_query(), parts, "{text}");
        };
        check("GET", "/a/b?c=d?e", None, "/a/b", "?c=d?e");
        check("GET", "/a?", None, "/a", "?");
        check("GET", "http://h:8080/a?b", Some("h:8080"), "/a", "?b");
        check("GET", "HTTPS://h?b", Some("h"), "", "?b");
        check("GET", "http://h", Some("h"), "", "");
        check("OPTIONS", "*", None, "*", "");
        check("CONNECT", "h:443", Some("h:443"), "", "");
        check("CONNECT", "/", None, "/", "");
        check("GET", "/x?u=http://y/", None, "/x", "?u=http://y/");
    }

    #[test]
    fn ids_are_folded() {
        let check = |path: &str, expected: &str| {
            let mut out = Vec::new();
            template(path.as_bytes(), &mut out);
            assert_eq!(
                String::from_utf8(out).expect("ASCII in, ASCII out"),
                expected
            );
        };
        check("/users/42/orders/7", "/users/{id}/orders/{id}");
        check("/users/42.json", "/users/{id}.json");
        check("/v1/health", "/v1/health");
        check("/a/123e4567-e89b-12d3-a456-426614174000/", "/a/{id}/");
        check(
            "/containers/cc4fc8e49cadbb8bc41437ab/attach",
            "/containers/{id}/attach",
        );
        check("/t/dGhpcyBpcyBhIHRva2VuMTIz", "/t/{id}");
        check("/js/bootstrap-3.3.7.min.js", "/js/bootstrap-3.3.7.min.js");
        check(
            "/how-to-install-ubuntu-22-04-on-windows-11",
            "/how-to-install-ubuntu-22-04-on-windows-11",
        );
        check(
            "/getUserDetailsByAccountNumber2",
            "/getUserDetailsByAccountNumber2",
        );
        check("/facade/deadbeef", "/facade/deadbeef");
        check("/10k.txt", "/10k.txt");
        check("/", "/");
        check("*", "*");
        check("", "");
    }
}
