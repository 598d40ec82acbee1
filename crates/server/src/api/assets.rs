//! Files of the page, with their types and content hashes, compressed if the browser accepts it.
//!
//! Names below `assets/` contain a hash of the content and are cached permanently; all others are revalidated.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::params::header_text;

/// Content security policy: the page may run only its own scripts and connect only to this server. No inline scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      require-trusted-types-for 'script'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// A file of the page.
#[derive(Clone, Debug)]
pub struct PageFile {
    /// Name, as `index.html` or `assets/main-1A2B3C4D.js`.
    pub name: Cow<'static, str>,
    /// Content.
    pub bytes: Cow<'static, [u8]>,
    /// Content compressed by gzip; empty if not worthwhile.
    pub gzip: Cow<'static, [u8]>,
}

/// A file with its response headers.
struct PageAsset {
    kind: &'static str,
    etag: HeaderValue,
    plain: Bytes,
    gzip: Bytes,
}

/// Files of the page by name.
#[derive(Default)]
pub struct PageAssets(HashMap<String, PageAsset>);

impl PageAssets {
    /// The assets for these files.
    pub fn of(files: Vec<PageFile>) -> PageAssets {
        let bytes = |bytes| match bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        };
        let asset = |file: PageFile| {
            let hash = Sha256::digest(&file.bytes);
            let tag: String = hash
                .iter()
                .take(8)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let etag = HeaderValue::from_str(&format!("\"{tag}\""))
                .unwrap_or(HeaderValue::from_static(""));
            let asset = PageAsset {
                kind: kind(&file.name),
                etag,
                plain: bytes(file.bytes),
                gzip: bytes(file.gzip),
            };
            (file.name.into_owned(), asset)
        };
        PageAssets(files.into_iter().map(asset).collect())
    }

    /// The file of that name, in an encoding accepted by the client.
    pub fn answer(&self, name: &str, asked: &HeaderMap) -> Option<Response> {
        let asset = self.0.get(name)?;
        let known = header_text(asked, "if-none-match").unwrap_or_default();
        let is_known = known
            .split(',')
            .any(|tag| tag.trim().trim_start_matches("W/") == asset.etag);
        let is_small = !asset.gzip.is_empty() && takes_gzip(asked);
        let mut response = match (is_known, is_small) {
            (true, _) => StatusCode::NOT_MODIFIED.into_response(),
            (false, true) => asset.gzip.clone().into_response(),
            (false, false) => asset.plain.clone().into_response(),
        };
        let headers = response.headers_mut();
        let mut say = |name: HeaderName, value| headers.insert(name, value);
        let lasts = if name.starts_with("assets/") {
            FOR_EVER
        } else {
            "no-cache"
        };
        say(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
        say(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        );
        say(header::ETAG, asset.etag.clone());
        say(header::VARY, HeaderValue::from_static("accept-encoding"));
        if !is_known {
            say(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
            if is_small {
                say(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
        }
        Some(response)
    }
}

/// Media type of a file.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn takes_gzip(asked: &HeaderMap) -> bool {
    let taken = header_text(asked, "accept-encoding").unwrap_or_default();
    taken
        .split(',')
        .any(|coding| match coding.trim().split_once(';') {
            // Weight zero: not accepted.
            Some((name, weight)) => {
                let weight = weight
                    .trim()
                    .strip_prefix("q=")
                    .and_then(|weight| weight.parse::<f32>().ok());
                name.trim() == "gzip" && weight.is_none_or(|weight| weight > 0.0)
            }
            None => coding.trim() == "gzip",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn files_are_compressed_and_cached_on_request() {
        let file = PageFile {
            name: "assets/a-1.js".into(),
            bytes: b"12"[..].into(),
            gzip: b"z"[..].into(),
        };
        let assets = PageAssets::of(vec![file]);
        let answer = |pairs: &[_]| {
            assets
                .answer("assets/a-1.js", &asked(pairs))
                .expect("a file")
        };
        let encoding = |response: &Response| response.headers().contains_key("content-encoding");
        for (taken, is_small) in [
            ("gzip, br", true),
            ("br;q=1, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
        ] {
            let found = answer(&[("accept-encoding", taken)]);
            assert_eq!(encoding(&found), is_small, "{taken}");
        }
        let whole = answer(&[]);
        assert_eq!(whole.headers()["cache-control"], FOR_EVER);
        assert_eq!(
            whole.headers()["content-type"],
            "text/javascript; charset=utf-8"
        );
        let tag = whole.headers()["etag"].clone();
        let mut known = HeaderMap::new();
        known.insert("if-none-match", tag);
        let again = assets.answer("assets/a-1.js", &known).expect("a file");
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert!(assets.answer("index.html", &HeaderMap::new()).is_none());
    }
}
