//! A round: the requests that a client sent with the same acknowledgment.

use wire::TcpSeq;

/// Requests sent with the same acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestRound {
    /// Number of its first request.
    pub first: u64,
    /// The client's acknowledgment at its start.
    pub heard: Option<TcpSeq>,
    /// Number of requests that may be answered.
    pub asked: u32,
    pub opening: RoundOpening,
}

/// Whether the first request seen of a round is its first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RoundOpening {
    /// The first round of the connection.
    #[default]
    Whole,
    /// Earlier requests of this round or the one before may be missing.
    Holed,
}
