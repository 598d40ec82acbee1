//! Format of errors: a code for programs, a message for people, and the position in the query, if any.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::query_assist::{QueryProblem, TextRange};
use crate::job::fleet_refusal::FleetRefusal;
use crate::jobs::service::ServiceError;
use crate::store::persist_error::PersistError;

/// Error response.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Failure)]
pub struct ApiFailure {
    #[serde(skip)]
    status: u16,
    /// Code for programs; never changes its meaning.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Position in the query.
    pub place: Option<TextRange>,
    /// All errors in the query, including the first; empty for other errors.
    pub problems: Vec<QueryProblem>,
}

impl ApiFailure {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> ApiFailure {
        ApiFailure {
            status: status.as_u16(),
            code: code.to_owned(),
            message: message.into(),
            place: None,
            problems: Vec::new(),
        }
    }

    pub fn not_found(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Whether the client is not, or no longer, authenticated.
    pub fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED.as_u16()
    }

    pub fn method() -> ApiFailure {
        ApiFailure::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this address takes other methods",
        )
    }

    pub fn late() -> ApiFailure {
        ApiFailure::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "timeout",
            "the request took too long and was stopped",
        )
    }

    pub fn internal() -> ApiFailure {
        let message = "a bug in netalytics: this request failed, the server continues";
        ApiFailure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    pub fn bad(message: impl Into<String>) -> ApiFailure {
        ApiFailure::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub fn conflict(code: &str, message: impl Into<String>) -> ApiFailure {
        ApiFailure::new(StatusCode::CONFLICT, code, message)
    }

    pub fn unauthorized(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn forbidden(message: impl Into<String>) -> ApiFailure {
        ApiFailure::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn misdirected(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message)
    }

    pub fn too_fast(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
    }

    pub fn too_many(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_streams", message)
    }

    pub fn busy(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    pub fn not_acceptable(message: &str) -> ApiFailure {
        ApiFailure::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
    }

    /// Error in a request's body, before it was decoded.
    pub fn of_body(status: StatusCode, message: impl Into<String>) -> ApiFailure {
        let code = if status == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
        ApiFailure::new(status, code, message)
    }

    pub fn of_query(text: &str, errors: &[query::Diagnostic]) -> ApiFailure {
        let problems: Vec<QueryProblem> = errors.iter().map(|error| QueryProblem::of(text, error)).collect();
        let first = problems.first().cloned();
        let message = first.as_ref().map_or_else(String::new, |problem| problem.message.clone());
        ApiFailure {
            place: first.map(|problem| problem.place),
            problems,
            ..ApiFailure::new(StatusCode::BAD_REQUEST, "query", message)
        }
    }
}

impl From<ServiceError> for ApiFailure {
    fn from(denied: ServiceError) -> ApiFailure {
        let message = denied.to_string();
        let (status, code) = match &denied {
            ServiceError::Query(_) => (StatusCode::BAD_REQUEST, "query"),
            ServiceError::Outlet(_) => (StatusCode::BAD_REQUEST, "outlet"),
            ServiceError::Wrong(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            ServiceError::NotKept(_) => (StatusCode::CONFLICT, "not_kept"),
            ServiceError::Late(_) => (StatusCode::SERVICE_UNAVAILABLE, "timeout"),
            ServiceError::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            ServiceError::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            ServiceError::Invalid(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            ServiceError::Quota(_) => (StatusCode::TOO_MANY_REQUESTS, "quota"),
            ServiceError::KeyReused => (StatusCode::CONFLICT, "key_reused"),
            ServiceError::Fleet(FleetRefusal::NoAgent(_)) => (StatusCode::CONFLICT, "no_agent"),
            ServiceError::Fleet(FleetRefusal::Unable(_)) => (StatusCode::CONFLICT, "agents_unable"),
            ServiceError::Fleet(FleetRefusal::Busy(_)) => (StatusCode::SERVICE_UNAVAILABLE, "agents_busy"),
            ServiceError::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            ServiceError::Unkept(unkept) if unkept.is_full() => {
                (StatusCode::INSUFFICIENT_STORAGE, "disk_full")
            }
            ServiceError::Unkept(PersistError::Unreadable(_)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "damaged")
            }
            ServiceError::Unkept(unkept) => {
                // May contain file names, so only the log has the details.
                tracing::error!("{unkept}");
                return ApiFailure::internal();
            }
        };
        ApiFailure::new(status, code, message)
    }
}

impl IntoResponse for ApiFailure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, super::json::JsonResponse(&self)).into_response();
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
