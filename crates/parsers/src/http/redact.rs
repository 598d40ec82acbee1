//! URLs without what their users typed into them: the values of query parameters, and who logs in, become hashes. Names
//! of parameters, the path and the host stay.

use memchr::memchr;
use tuple::{Fold, Secret};

/// Of `[user@]host/path?query`, or the first part alone.
pub const URL_VALUES: Fold = Fold { name: "url", fold: url };

/// Of what follows the `?`.
pub const QUERY_VALUES: Fold = Fold { name: "url query", fold: query };

fn url(secret: &Secret, url: &[u8], out: &mut Vec<u8>) {
    let (target, values) = match memchr(b'?', url) {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    };
    let (host, path) = target.split_at(memchr(b'/', target).unwrap_or(target.len()));
    let host = match host.iter().rposition(|b| *b == b'@') {
        Some(at) => {
            secret.push_hash(&host[..at], out);
            &host[at..]
        }
        None => host,
    };
    out.extend_from_slice(host);
    out.extend_from_slice(path);
    if let Some(values) = values {
        out.push(b'?');
        query(secret, values, out);
    }
}

/// A parameter without a name is a value.
fn query(secret: &Secret, query: &[u8], out: &mut Vec<u8>) {
    for part in query.split_inclusive(|b| matches!(b, b'&' | b';')) {
        let (pair, end) = match part {
            [pair @ .., b'&' | b';'] => (pair, &part[pair.len()..]),
            pair => (pair, &[][..]),
        };
        let value = memchr(b'=', pair).map_or(0, |at| at + 1);
        out.extend_from_slice(&pair[..value]);
        if value < pair.len() {
            secret.push_hash(&pair[value..], out);
        }
        out.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hashes() {
        let secret = Secret::new(&[7; 16]);
        let check = |fold: Fold, text: &str, expected: &str| {
            let (mut got, mut want) = (Vec::new(), Vec::new());
            (fold.fold)(&secret, text.as_bytes(), &mut got);
            for (i, part) in expected.split(['<', '>']).enumerate() {
                match i % 2 {
                    0 => want.extend_from_slice(part.as_bytes()),
                    _ => secret.push_hash(part.as_bytes(), &mut want),
                }
            }
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&want), "{text}");
        };
        check(QUERY_VALUES, "q=shoes&size=42&q=", "q=<shoes>&size=<42>&q=");
        check(QUERY_VALUES, "alice;b=c=d&&", "<alice>;b=<c=d>&&");
        check(QUERY_VALUES, "", "");
        check(URL_VALUES, "shop:8080/a/b?c=/x@y?z", "shop:8080/a/b?c=</x@y?z>");
        check(URL_VALUES, "shop/a@b", "shop/a@b");
        check(URL_VALUES, "al@ice:pw@shop/a", "<al@ice:pw>@shop/a");
        check(URL_VALUES, "?q", "?<q>");
        check(URL_VALUES, "shop", "shop");
    }
}
