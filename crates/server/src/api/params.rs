//! Extractors of request data with errors in the common format.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use super::failure::ApiFailure;

/// A JSON body, decoded and as bytes.
pub struct JsonBody<T>(pub T, pub Bytes);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiFailure;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiFailure> {
        let is_json = header_text(request.headers(), "content-type").is_some_and(|kind| {
            kind.split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let wanted = "the body must be JSON, with Content-Type: application/json";
            return Err(ApiFailure::of_body(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                wanted,
            ));
        }
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejected| {
                ApiFailure::of_body(
                    rejected.status(),
                    format!("the body cannot be read: {}", rejected.body_text()),
                )
            })?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| ApiFailure::bad(format!("the body is invalid: {error}")))?;
        Ok(JsonBody(value, bytes))
    }
}

/// Query parameters.
pub struct QueryParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiFailure> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(value)| QueryParams(value))
            .map_err(|error| {
                ApiFailure::bad(format!("the address is invalid: {}", error.body_text()))
            })
    }
}

/// A header, if it is text and occurs once.
pub fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Parses a time: nanoseconds since the epoch, or as 2026-11-22T10:00:00Z.
pub fn time(text: &str) -> Result<i64, ApiFailure> {
    if let Ok(ns) = text.parse() {
        return Ok(ns);
    }
    let read = text
        .parse::<jiff::Timestamp>()
        .ok()
        .and_then(|at| i64::try_from(at.as_nanosecond()).ok());
    read.ok_or_else(|| {
        ApiFailure::bad(
            "a time must be nanoseconds since 1970, or have the form 2026-11-22T10:00:00Z"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn times_are_numbers_or_rfc_3339() {
        for (text, ns) in [
            ("0", 0),
            ("-5", -5),
            ("9223372036854775807", i64::MAX),
            ("1970-01-01T00:00:01Z", 1_000_000_000),
            ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ] {
            assert_eq!(time(text).ok(), Some(ns), "{text}");
        }
        // The last one exceeds 64 bits of nanoseconds.
        for text in [
            "",
            "1.5",
            "yesterday",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "9000-01-01T00:00:00Z",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_header_counts_if_it_is_text_and_occurs_once() {
        let headers = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("host", HeaderValue::from_bytes(value).expect("a value"));
            }
            header_text(&headers, "host").map(str::to_owned)
        };
        assert_eq!(headers(&[b"a"]).as_deref(), Some("a"));
        assert_eq!(headers(&[]), None);
        assert_eq!(headers(&[b"a", b"a"]), None);
        assert_eq!(headers(&[b"\xff"]), None);
    }
}
