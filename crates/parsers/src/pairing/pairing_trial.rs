//! Evidence of a trial: the rounds that agree with the assumption that the client waits for its responses.

/// Sufficient evidence, in rounds of one request where several may have been outstanding.
pub(super) const EVIDENCE_MAX: usize = 32;

/// Rounds of a trial.
#[derive(Debug)]
pub(super) struct PairingTrial {
    /// Ring of the first requests of the last rounds, each repeated by its weight.
    pub starts: [u64; EVIDENCE_MAX],
    pub oldest: usize,
    /// Evidence from rounds before which several requests may have been outstanding.
    pub of_several: usize,
    /// No round has had several requests.
    pub singly: bool,
    /// Evidence since the last gap with an unknown number of messages.
    pub whole: usize,
    /// Maximum number of requests, of the smallest size, missing in a row.
    pub hidden: u32,
}
