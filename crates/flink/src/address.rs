//! Parses addresses and separates their secrets.

use ureq::http::Uri;

use crate::error::FlinkError;
use crate::options::FlinkAuthorization;

/// An address without credentials, and the credentials.
pub(crate) fn address(
    peer: &str,
    url: &str,
) -> Result<(String, Option<FlinkAuthorization>), FlinkError> {
    // The address is not part of the message, because it may contain a password.
    let wrong = |why: &str| {
        FlinkError::WrongUse(format!(
            "the address of {peer} {why}, as http://127.0.0.1:8083"
        ))
    };
    let (scheme, rest) = url
        .trim()
        .split_once("://")
        .ok_or_else(|| wrong("must start with http:// or https://"))?;
    if scheme != "http" && scheme != "https" {
        return Err(wrong("must start with http:// or https://"));
    }
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let base = format!("{scheme}://{host}{}", path.trim_end_matches('/'));
    if host.is_empty() || path.contains(['?', '#']) || base.parse::<Uri>().is_err() {
        return Err(wrong(
            "must consist of a host, a port, and an optional path",
        ));
    }
    let secret = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        FlinkAuthorization::basic(&decoded(name), &decoded(password))
    });
    Ok((base, secret))
}

/// Decodes percent encoding in an address.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind
            .get(..2)
            .and_then(|two| u8::from_str_radix(str::from_utf8(two).ok()?, 16).ok());
        rest = behind;
        bytes.push(match (first, hex) {
            (b'%', Some(byte)) => {
                rest = &behind[2..];
                byte
            }
            _ => first,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_secrets_hidden() {
        let of = |url: &str| address("the gateway", url);
        for (url, base, header) in [
            ("http://127.0.0.1:8083", "http://127.0.0.1:8083", None),
            (
                " https://flink.example/gw/ ",
                "https://flink.example/gw",
                None,
            ),
            ("http://[::1]:1/", "http://[::1]:1", None),
            (
                "http://me:p%40ss@h:1",
                "http://h:1",
                Some("Basic bWU6cEBzcw=="),
            ),
            ("http://me@h:1", "http://h:1", Some("Basic bWU6")),
        ] {
            let (found, secret) = of(url).expect(url);
            assert_eq!(
                (
                    found.as_str(),
                    secret.as_ref().map(FlinkAuthorization::header)
                ),
                (base, header),
                "{url}"
            );
        }
        for url in [
            "",
            "h:1",
            "ftp://h",
            "http://",
            "http://me:secret@",
            "http://h/?secret",
            "http://a b/secret",
        ] {
            let said = of(url).expect_err(url).to_string();
            assert!(
                !said.contains("secret") && said.starts_with("the address of the gateway"),
                "{url}: {said}"
            );
        }
        assert_eq!(format!("{:?}", FlinkAuthorization::bearer("secret")), "***");
    }
}
