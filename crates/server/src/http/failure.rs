//! Format of errors: a code for programs, a message for people, and the position in the query, if any.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::asking::{Place, Problem};
use crate::fleet::Refused;
use crate::service::Denied;
use crate::unkept::Unkept;

/// Error response.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Failure {
    #[serde(skip)]
    status: u16,
    /// Code for programs; never changes its meaning.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Position in the query.
    pub place: Option<Place>,
    /// All errors in the query, including the first; empty for other errors.
    pub problems: Vec<Problem>,
}

impl Failure {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Failure {
        Failure {
            status: status.as_u16(),
            code: code.to_owned(),
            message: message.into(),
            place: None,
            problems: Vec::new(),
        }
    }

    pub fn not_found(message: &str) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Whether the client is not, or no longer, authenticated.
    pub fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED.as_u16()
    }

    pub fn method() -> Failure {
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this address takes other methods")
    }

    pub fn late() -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", "this took too long, and was given up")
    }

    pub fn internal() -> Failure {
        let message = "a bug in netalytics: the server goes on, this request does not";
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub fn bad(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub fn conflict(code: &str, message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::CONFLICT, code, message)
    }

    pub fn unauthorized(message: &str) -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn misdirected(message: &str) -> Failure {
        Failure::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message)
    }

    pub fn too_fast(message: &str) -> Failure {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
    }

    pub fn too_many(message: &str) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", message)
    }

    pub fn busy(message: &str) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    pub fn not_acceptable(message: &str) -> Failure {
        Failure::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
    }

    /// Error in a request's body, before it was decoded.
    pub fn of_body(status: StatusCode, message: impl Into<String>) -> Failure {
        let code = if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
        Failure::new(status, code, message)
    }

    pub fn of_query(text: &str, errors: &[query::Diagnostic]) -> Failure {
        let problems: Vec<Problem> = errors.iter().map(|error| Problem::of(text, error)).collect();
        let first = problems.first().cloned();
        let message = first.as_ref().map_or_else(String::new, |problem| problem.message.clone());
        Failure {
            place: first.map(|problem| problem.place),
            problems,
            ..Failure::new(StatusCode::BAD_REQUEST, "query", message)
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Failure {
        let message = denied.to_string();
        let (status, code) = match &denied {
            Denied::Query(_) => (StatusCode::BAD_REQUEST, "query"),
            Denied::Outlet(_) => (StatusCode::BAD_REQUEST, "outlet"),
            Denied::Wrong(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            Denied::NotKept(_) => (StatusCode::CONFLICT, "not_kept"),
            Denied::Late(_) => (StatusCode::SERVICE_UNAVAILABLE, "timeout"),
            Denied::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Denied::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Denied::Invalid(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            Denied::Quota(_) => (StatusCode::TOO_MANY_REQUESTS, "quota"),
            Denied::KeyReused => (StatusCode::CONFLICT, "key_reused"),
            Denied::Fleet(Refused::NoAgent(_)) => (StatusCode::CONFLICT, "no_agent"),
            Denied::Fleet(Refused::Unable(_)) => (StatusCode::CONFLICT, "agents_unable"),
            Denied::Fleet(Refused::Busy(_)) => (StatusCode::SERVICE_UNAVAILABLE, "agents_busy"),
            Denied::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            Denied::Unkept(unkept) if unkept.is_full() => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
            Denied::Unkept(Unkept::Unreadable(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            Denied::Unkept(unkept) => {
                // May contain file names, so only the log has the details.
                tracing::error!("{unkept}");
                return Failure::internal();
            }
        };
        Failure::new(status, code, message)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, super::json::Json(&self)).into_response();
        let say = match status {
            StatusCode::UNAUTHORIZED => Some((header::WWW_AUTHENTICATE, "Bearer")),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Some((header::RETRY_AFTER, "1"))
            }
            _ => None,
        };
        if let Some((name, value)) = say {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
