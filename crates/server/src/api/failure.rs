//! Format of errors: a code for programs, a message for people, and the position in the query, if any.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::query_assist::{QueryProblem, TextRange};
use crate::job::fleet_refusal::FleetRefusal;
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;

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
            "this address supports other methods",
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
        let code = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "too_large"
        } else {
            "bad_request"
        };
        ApiFailure::new(status, code, message)
    }

    pub fn of_query(text: &str, errors: &[query::Diagnostic]) -> ApiFailure {
        let problems: Vec<QueryProblem> = errors
            .iter()
            .map(|error| QueryProblem::of(text, error))
            .collect();
        let first = problems.first().cloned();
        let message = first
            .as_ref()
            .map_or_else(String::new, |problem| problem.message.clone());
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
            ServiceError::Fleet(FleetRefusal::Busy(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "agents_busy")
            }
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
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::StoreError;

    /// Status, code, and the header that asks clients to wait or to authenticate.
    fn response(failure: ApiFailure) -> (u16, String, Option<String>) {
        let code = failure.code.clone();
        let response = failure.into_response();
        let header = [header::RETRY_AFTER, header::WWW_AUTHENTICATE]
            .iter()
            .find_map(|name| {
                response
                    .headers()
                    .get(name)?
                    .to_str()
                    .ok()
                    .map(str::to_owned)
            });
        (response.status().as_u16(), code, header)
    }

    #[test]
    fn errors_have_a_status_and_a_code() {
        let of = |error: ServiceError| {
            let (status, code, _) = response(error.into());
            (status, code)
        };
        let text = || "why".to_owned();
        for (error, status, code) in [
            (ServiceError::Wrong(text()), 400, "bad_request"),
            (ServiceError::Outlet(text()), 400, "outlet"),
            (ServiceError::NotKept(text()), 409, "not_kept"),
            (ServiceError::Late(text()), 503, "timeout"),
            (ServiceError::Forbidden(text()), 403, "forbidden"),
            (ServiceError::TooLarge(text()), 413, "too_large"),
            (ServiceError::Quota(text()), 429, "quota"),
            (ServiceError::KeyReused, 409, "key_reused"),
            (
                ServiceError::Fleet(FleetRefusal::NoAgent(text())),
                409,
                "no_agent",
            ),
            (
                ServiceError::Fleet(FleetRefusal::Unable(text())),
                409,
                "agents_unable",
            ),
            (
                ServiceError::Fleet(FleetRefusal::Busy(text())),
                503,
                "agents_busy",
            ),
            (ServiceError::Unknown(text()), 404, "not_found"),
        ] {
            assert_eq!(of(error), (status, code.to_owned()));
        }
    }

    /// A full disk can be helped by the operator; other errors of the store are in the log only.
    #[test]
    fn a_full_disk_is_named_and_paths_are_not() {
        let full = ApiFailure::from(ServiceError::Unkept(PersistError::Store(StoreError::Full)));
        assert_eq!((full.status, &*full.code), (507, "disk_full"));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let full = ApiFailure::from(ServiceError::Unkept(PersistError::Disk(full)));
        assert_eq!((full.status, &*full.code), (507, "disk_full"));
        let other = std::io::Error::other("/var/lib/netalytics/history: permission denied");
        let other = ApiFailure::from(ServiceError::Unkept(PersistError::Disk(other)));
        assert_eq!((other.status, &*other.code), (500, "internal"));
        assert!(!other.message.contains("/var"), "{}", other.message);
    }

    #[test]
    fn failures_have_retry_and_authentication_headers() {
        let header = |failure| response(failure).2;
        assert_eq!(
            header(ApiFailure::unauthorized("no")).as_deref(),
            Some("Bearer")
        );
        assert_eq!(
            header(ApiFailure::too_fast("slow down")).as_deref(),
            Some("1")
        );
        assert_eq!(header(ApiFailure::busy("later")).as_deref(), Some("1"));
        assert_eq!(header(ApiFailure::late()).as_deref(), Some("1"));
        assert_eq!(header(ApiFailure::bad("wrong")), None);
        assert!(
            ApiFailure::unauthorized("no").is_unauthorized()
                && !ApiFailure::forbidden("no").is_unauthorized()
        );
    }

    #[test]
    fn a_body_that_is_too_large_has_its_own_code() {
        let code = |status| ApiFailure::of_body(status, "why").code;
        assert_eq!(code(StatusCode::PAYLOAD_TOO_LARGE), "too_large");
        assert_eq!(code(StatusCode::UNSUPPORTED_MEDIA_TYPE), "bad_request");
    }

    #[test]
    fn the_first_error_of_a_query_is_the_message() {
        let text = "PARSE nosuch PROCESS (nosuch)";
        let errors = query::check(text, &parsers::registry::schemas(), &()).expect_err("no query");
        let failure = ApiFailure::of_query(text, &errors);
        assert_eq!((failure.status, &*failure.code), (400, "query"));
        assert_eq!(failure.problems.len(), errors.len());
        assert_eq!(failure.message, failure.problems[0].message);
        assert!(failure.place.is_some());
        let none = ApiFailure::of_query(text, &[]);
        assert_eq!((none.message.as_str(), none.place.is_none()), ("", true));
    }
}
