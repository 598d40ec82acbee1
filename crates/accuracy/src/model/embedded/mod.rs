//! Messages of a protocol inside its own bodies: captures stored over NFS, pages that quote HTTP, values that hold RESP.

pub mod http;
pub mod memcached;
pub mod nfs;
pub mod redis;

use super::talk::Conversation;

/// A conversation and the fields that identify each of its transactions.
pub struct Made {
    /// The conversation.
    pub conversation: Conversation,
    /// The fields of each transaction, separated by spaces.
    pub transactions: Vec<String>,
}
