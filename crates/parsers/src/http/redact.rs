//! Redacts user input in URLs and content types: values of query and path parameters and credentials become
//! hashes. Parameter names, the path, and the host are kept.
//!
//! A percent-encoded delimiter, encoded once or repeatedly (`%3F`, `%253F`), is treated as the delimiter,
//! because it may be an encoded URL with a query. In case of doubt, values are hashed.

use memchr::memchr;
use tuple::{RedactionSecret, TextFold};

/// For `[user@]host/path?query`, or the first part alone.
pub const URL_VALUES: TextFold = TextFold {
    name: "url",
    fold: url,
};

/// Redaction of the part after `?`.
pub const QUERY_VALUES: TextFold = TextFold {
    name: "url query",
    fold: query,
};

/// For a path: parameters of its segments (RFC 3986 section 3.3), as in `/cart;jsessionid=1234`, and the part
/// after an encoded `?`.
pub const PATH_VALUES: TextFold = TextFold {
    name: "url path",
    fold: path,
};

/// For `type/subtype; name=value`.
pub const MEDIA_TYPE_VALUES: TextFold = TextFold {
    name: "media type",
    fold: media_type,
};

/// Values of `charset` that are not redacted.
const CHARSETS: [&str; 8] = [
    "utf-8",
    "utf8",
    "us-ascii",
    "iso-8859-1",
    "iso-8859-15",
    "windows-1252",
    "gbk",
    "shift_jis",
];

/// All delimiters of [`split`], and the first byte of an encoded one.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let marks = b"%?#;=&";
    let mut i = 0;
    while i < marks.len() {
        special[marks[i] as usize] = true;
        i += 1;
    }
    special
};

fn url(secret: &RedactionSecret, url: &[u8], out: &mut Vec<u8>) {
    let (target, values) = match memchr(b'?', url) {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    };
    let (host, on_host) = target.split_at(memchr(b'/', target).unwrap_or(target.len()));
    let host = match host.iter().rposition(|b| *b == b'@') {
        Some(at) => {
            secret.push_hash(&host[..at], out);
            &host[at..]
        }
        None => host,
    };
    path(secret, host, out);
    path(secret, on_host, out);
    if let Some(values) = values {
        out.push(b'?');
        query(secret, values, out);
    }
}

fn path(secret: &RedactionSecret, path: &[u8], out: &mut Vec<u8>) {
    if !path.iter().any(|b| SPECIAL[usize::from(*b)]) {
        out.extend_from_slice(path);
        return;
    }
    let (path, mark, values) = split(path, b"?#");
    for (i, segment) in path.split(|b| *b == b'/').enumerate() {
        if i > 0 {
            out.push(b'/');
        }
        let (name, mark, mut parameters) = split(segment, b";");
        out.extend_from_slice(name);
        let mut mark = mark;
        while !mark.is_empty() {
            out.extend_from_slice(mark);
            let (parameter, next_mark, rest) = split(parameters, b";");
            pair(secret, parameter, out);
            mark = next_mark;
            parameters = rest;
        }
    }
    out.extend_from_slice(mark);
    query(secret, values, out);
}

fn query(secret: &RedactionSecret, query: &[u8], out: &mut Vec<u8>) {
    for part in query.split_inclusive(|b| matches!(b, b'&' | b';')) {
        let (parameter, end) = match part {
            [parameter @ .., b'&' | b';'] => (parameter, &part[parameter.len()..]),
            parameter => (parameter, &[][..]),
        };
        pair(secret, parameter, out);
        out.extend_from_slice(end);
    }
}

/// Redacts a parameter; one without a name is a value. An encoded delimiter ends a name.
fn pair(secret: &RedactionSecret, parameter: &[u8], out: &mut Vec<u8>) {
    let (name, mark, value) = match split(parameter, b"=&;?#") {
        (value, [], _) => (&[][..], &[][..], value),
        parts => parts,
    };
    out.extend_from_slice(name);
    out.extend_from_slice(mark);
    if !value.is_empty() {
        secret.push_hash(value, out);
    }
}

fn media_type(secret: &RedactionSecret, text: &[u8], out: &mut Vec<u8>) {
    let mut parts = text.split(|b| *b == b';');
    let media_type = parts.next().unwrap_or_default();
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+/*".contains(b);
    match media_type.trim_ascii() {
        token
            if token.iter().filter(|b| **b == b'/').count() == 1 && token.iter().all(is_token) =>
        {
            out.extend_from_slice(media_type);
        }
        [] => {}
        other => secret.push_hash(other, out),
    }
    for parameter in parts {
        out.push(b';');
        let name = memchr(b'=', parameter).map_or(0, |at| at + 1);
        let (name, value) = parameter.split_at(name);
        out.extend_from_slice(name);
        let says_nothing = name.trim_ascii().eq_ignore_ascii_case(b"charset=")
            && CHARSETS
                .iter()
                .any(|known| value.trim_ascii().eq_ignore_ascii_case(known.as_bytes()));
        match value {
            [] => {}
            value if says_nothing => out.extend_from_slice(value),
            value => secret.push_hash(value, out),
        }
    }
}

/// Splits at the first of `marks`: the part before, the mark as written, and the part after.
fn split<'a>(text: &'a [u8], marks: &[u8]) -> (&'a [u8], &'a [u8], &'a [u8]) {
    let mut at = 0;
    while let Some(plain) = text[at..].iter().position(|b| SPECIAL[usize::from(*b)]) {
        at += plain;
        let (meant, len) = first(&text[at..]);
        if marks.contains(&meant) {
            return (&text[..at], &text[at..at + len], &text[at + len..]);
        }
        at += 1;
    }
    (text, &[], &[])
}

/// The first character of a non-empty text, decoded if percent-encoded any number of times, and its encoded
/// length.
fn first(text: &[u8]) -> (u8, usize) {
    if text[0] != b'%' {
        return (text[0], 1);
    }
    let mut at = 1;
    while text[at..].starts_with(b"25") {
        at += 2;
    }
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    match (digit(at), digit(at + 1)) {
        (Some(high), Some(low)) => ((high << 4 | low) as u8, at + 2),
        _ => (b'%', 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hashes() {
        let secret = RedactionSecret::new(&[7; 16]);
        let check = |fold: TextFold, text: &str, expected: &str| {
            let mut got = Vec::new();
            let mut want = Vec::new();
            (fold.fold)(&secret, text.as_bytes(), &mut got);
            for (i, part) in expected.split(['<', '>']).enumerate() {
                match i % 2 {
                    0 => want.extend_from_slice(part.as_bytes()),
                    _ => secret.push_hash(part.as_bytes(), &mut want),
                }
            }
            assert_eq!(
                String::from_utf8_lossy(&got),
                String::from_utf8_lossy(&want),
                "{text}"
            );
        };
        check(QUERY_VALUES, "q=shoes&size=42&q=", "q=<shoes>&size=<42>&q=");
        check(QUERY_VALUES, "alice;b=c=d&&", "<alice>;b=<c=d>&&");
        check(QUERY_VALUES, "q%3Dshoes", "q%3D<shoes>");
        check(QUERY_VALUES, "a%26pw%3Dx=1", "a%26<pw%3Dx=1>");
        check(QUERY_VALUES, "a%5B0%5D=1&100%=2", "a%5B0%5D=<1>&100%=<2>");
        check(QUERY_VALUES, "", "");
        check(
            URL_VALUES,
            "shop:8080/a/b?c=/x@y?z",
            "shop:8080/a/b?c=</x@y?z>",
        );
        check(URL_VALUES, "shop/a@b", "shop/a@b");
        check(URL_VALUES, "al@ice:pw@shop/a", "<al@ice:pw>@shop/a");
        check(URL_VALUES, "?q", "?<q>");
        check(URL_VALUES, "shop", "shop");
        check(URL_VALUES, "shop/a;s=1/b;t?q=2", "shop/a;s=<1>/b;<t>?q=<2>");
        check(URL_VALUES, "shop%3Fq=1", "shop%3Fq=<1>");
        check(
            PATH_VALUES,
            "/cart;jsessionid=A1B2;v=3/pay",
            "/cart;jsessionid=<A1B2>;v=<3>/pay",
        );
        check(
            PATH_VALUES,
            "/cart%3bjsessionid%3dA1B2",
            "/cart%3bjsessionid%3d<A1B2>",
        );
        check(
            PATH_VALUES,
            "/search%3Fq=shoes&x%3Dy",
            "/search%3Fq=<shoes>&x%3D<y>",
        );
        check(PATH_VALUES, "/search%25253fshoes", "/search%25253f<shoes>");
        check(PATH_VALUES, "/go#token", "/go#<token>");
        check(PATH_VALUES, "/go%23token=x", "/go%23token=<x>");
        check(PATH_VALUES, "/50%25/a%2fb/%zz%", "/50%25/a%2fb/%zz%");
        check(PATH_VALUES, "/users/{id};", "/users/{id};");
        check(PATH_VALUES, "", "");
        check(
            MEDIA_TYPE_VALUES,
            "text/html; charset=UTF-8",
            "text/html; charset=UTF-8",
        );
        check(
            MEDIA_TYPE_VALUES,
            "text/html;charset=alice",
            "text/html;charset=<alice>",
        );
        check(
            MEDIA_TYPE_VALUES,
            "multipart/form-data; boundary=x=y",
            "multipart/form-data; boundary=<x=y>",
        );
        check(
            MEDIA_TYPE_VALUES,
            "application/vnd.a+json;alice",
            "application/vnd.a+json;<alice>",
        );
        check(
            MEDIA_TYPE_VALUES,
            "alice@example.org",
            "<alice@example.org>",
        );
        check(MEDIA_TYPE_VALUES, "", "");
    }
}
