//! Why something that was asked is not done, by who has to do something about it.

use crate::fleet::Refused;
use crate::unkept::Unkept;

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The query is wrong.
    #[error("the query is wrong")]
    Query(Vec<query::Diagnostic>),
    /// It can be read, and asks for what cannot be had so.
    #[error("{0}")]
    Wrong(String),
    /// Nothing that was kept answers it.
    #[error("{0}")]
    NotKept(String),
    /// It took longer than it may.
    #[error("{0}")]
    Late(String),
    /// The token does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// What was sent is not understood.
    #[error("{0}")]
    Invalid(String),
    /// What was sent is larger than it may be.
    #[error("{0}")]
    TooLarge(String),
    /// An outlet cannot be used.
    #[error("{0}")]
    Outlet(String),
    /// Too many already.
    #[error("{0}")]
    Quota(String),
    /// The key was sent with another request.
    #[error("this Idempotency-Key was sent before with another request")]
    KeyReused,
    /// The fleet rejects it.
    #[error(transparent)]
    Fleet(#[from] Refused),
    /// There is no such thing, or the token may not know of it.
    #[error("{0}")]
    Unknown(String),
    /// The store or the history.
    #[error(transparent)]
    Unkept(#[from] Unkept),
}
