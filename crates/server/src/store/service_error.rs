//! Reasons to reject a request, by who must act.

use crate::job::fleet_refusal::FleetRefusal;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::StoreError;

/// Reason why a request is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The query has errors.
    #[error("the query is wrong")]
    Query(Vec<query::Diagnostic>),
    /// The query is valid, but cannot be run in this way.
    #[error("{0}")]
    Wrong(String),
    /// Stored data cannot answer the query.
    #[error("{0}")]
    NotKept(String),
    /// The time limit was exceeded.
    #[error("{0}")]
    Late(String),
    /// The token lacks the permission.
    #[error("{0}")]
    Forbidden(String),
    /// The request is malformed.
    #[error("{0}")]
    Invalid(String),
    /// The request is too large.
    #[error("{0}")]
    TooLarge(String),
    /// An outlet cannot be used.
    #[error("{0}")]
    Outlet(String),
    /// A limit was reached.
    #[error("{0}")]
    Quota(String),
    /// The idempotency key was used with another request.
    #[error("this Idempotency-Key was used for another request")]
    KeyReused,
    /// The fleet rejects it.
    #[error(transparent)]
    Fleet(#[from] FleetRefusal),
    /// The object does not exist, or the token may not see it.
    #[error("{0}")]
    Unknown(String),
    /// The store or the history failed.
    #[error(transparent)]
    Unkept(#[from] PersistError),
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        ServiceError::Unkept(error.into())
    }
}
