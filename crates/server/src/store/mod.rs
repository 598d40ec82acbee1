//! Durable state: the SQLite database, the files of the history and of uploaded recordings, tokens, and the keys of the
//! server's certificate authority.

pub(crate) mod access;
pub(crate) mod directory_lock;
pub(crate) mod history;
pub(crate) mod persist_error;
pub(crate) mod recorded_flow;
pub(crate) mod recording_store;
pub(crate) mod service_error;
pub(crate) mod sqlite;
pub(crate) mod tls;
