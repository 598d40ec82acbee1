//! Tuples, or parts of results, that were found before or by others, and the engine that they go to.

use monitor::Step;
use stream::{Engine, TakeOutput};

use crate::summary::InputError;

/// See the module's text.
pub trait Feed {
    /// Takes what is next, and waits a little for it where it may still come; rows that are complete go to `out`.
    fn next(&mut self, out: &mut dyn TakeOutput) -> Step;

    /// Ends it here: what is known by now goes to `out`.
    fn finish(&mut self, out: &mut dyn TakeOutput);

    /// The engine.
    fn engine(&self) -> &Engine;

    /// What it was fed so far.
    fn fed(&self) -> Fed;

    /// What went wrong with what it reads.
    fn problems(&self) -> Vec<InputError>;
}

/// What was read instead of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// A recording.
    Recording(recording::Counters),
    /// What others have published.
    Published(Published),
}

/// What was read of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Records.
    pub records: u64,
    /// Their bytes, as they were before compression.
    pub bytes: u64,
    /// Tuples or cells in them; the others were beats.
    pub rows: u64,
    /// Records that could not be read.
    pub malformed: u64,
}

impl Fed {
    /// Tuples.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        match self {
            Fed::Recording(counters) => counters.rows,
            Fed::Published(counts) => counts.rows,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Fed::Recording(counters) => counters.bytes,
            Fed::Published(counts) => counts.bytes,
        }
    }
}
