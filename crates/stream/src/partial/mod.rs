//! Partial results passed from a worker's engine to the collector, and their encoding for other machines.
//!
//! # Format
//!
//! A version byte, which is 1, followed by the counters and the share of every pipeline. Properties known to the
//! reading engine are omitted: names, types, and order of keys and accumulators are defined by the dataflow that both
//! share. The encoding contains enough to detect another dataflow. Nothing depends on the writing process: hashes of
//! keys are recomputed.
//!
//! Numbers are varints (seven bits per byte, least significant first), signed numbers use zigzag, floating point
//! numbers eight bytes, texts a length and UTF-8. *Bitmaps* have eight bits per byte. A list is a length and its
//! elements.
//!
//! - **Counters**: a list of names and numbers of the non-zero counters. Unknown names are ignored.
//! - **Share**: 0 and a list of panes, or 1 and a list of parts of a profile, each with the number of its window or
//!   pane.
//! - **Pane**: level; tuples; first and last time, if present; number of groups, and the pool's group; the keys by
//!   column (type, null bitmap, values); the accumulators by rate (bitmap of non-empty cells, then per accumulator
//!   its kind and its cells, see `ops/`); weights and errors of a ranking that overflowed; groups that may have
//!   tuples in the pool.
//! - **Part**: its counts, its sets, and its lists of keys, each with weight, error, and further counts.
//!
//! A new version only adds to the format; changes of existing parts require a new version byte.

pub mod bytes;

use crate::config::EngineCounters;
use crate::processor_work::{ProcessorWork, WorkShare};
use bytes::{PartialReader, put, put_bytes, put_len};

pub use bytes::MalformedPartial;

/// Format version.
pub(crate) const VERSION: u8 = 1;

/// Parts of windows by pipeline, passed from a worker's engine to the collector.
#[derive(Debug)]
pub struct PartialResult {
    /// Indexed by pipeline.
    pub(crate) shares: Vec<WorkShare>,
    /// Counters of a worker that has ended; otherwise empty.
    pub(crate) counters: EngineCounters,
}

impl PartialResult {
    /// Creates a partial result without counters.
    #[must_use]
    pub(crate) fn of(shares: Vec<WorkShare>) -> PartialResult {
        PartialResult {
            shares,
            counters: EngineCounters::default(),
        }
    }

    /// Whether it contains no parts of windows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shares.iter().all(WorkShare::is_empty)
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shares.iter().map(WorkShare::bytes).sum()
    }

    /// Encodes the partial result for `Engine::decode_partial` of an engine with the same dataflow and configuration.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut counters = self.counters;
        let counted: Vec<_> = counters
            .named()
            .into_iter()
            .filter(|(_, n)| **n > 0)
            .collect();
        put_len(&mut out, counted.len());
        for (name, n) in counted {
            put_bytes(&mut out, name.as_bytes());
            put(&mut out, *n);
        }
        put_len(&mut out, self.shares.len());
        self.shares.iter().for_each(|share| share.encode(&mut out));
        out
    }

    pub(crate) fn decode(
        bytes: &[u8],
        pipelines: &[ProcessorWork],
    ) -> Result<PartialResult, MalformedPartial> {
        let mut from = PartialReader::new(bytes);
        match from.byte()? {
            VERSION => {}
            other => return Err(MalformedPartial::Version(other)),
        }
        let mut counters = EngineCounters::default();
        for _ in 0..from.len()? {
            let name = from.text()?;
            let n = from.number()?;
            let mut named = counters.named().into_iter();
            named
                .find(|(known, _)| *known == name)
                .into_iter()
                .for_each(|(_, mine)| *mine = n);
        }
        if from.len()? != pipelines.len() {
            return Err(MalformedPartial::OtherDataflow("the number of pipelines"));
        }
        let shares: Result<_, _> = pipelines
            .iter()
            .map(|pipeline| pipeline.decode(&mut from))
            .collect();
        match from.left() {
            0 => Ok(PartialResult {
                shares: shares?,
                counters,
            }),
            _ => shares.and(Err(MalformedPartial::Invalid("its length"))),
        }
    }
}
