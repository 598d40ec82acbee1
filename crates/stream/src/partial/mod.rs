//! What a worker's engine gives to the one that collects, and its form for the way from one machine to another.
//!
//! # The form
//!
//! A byte for the version, which is 1, then the counters and the share of every pipeline. It says nothing of what the
//! engine that reads it knows: names, types and order of keys and accumulators are the dataflow's, which both have; what is
//! said of them is enough to see that it is another dataflow's. Nothing in it depends on the process that wrote it: hashes
//! of keys are made anew.
//!
//! Numbers are varints (seven bits a byte, the lowest first), those with a sign in zigzag, real numbers eight bytes, texts a length
//! and UTF-8. *Bits* are eight to a byte. A list is a number and what it holds.
//!
//! - **Counters**: a list of name and number, of those that are not zero. Unknown names are passed over.
//! - **Share**: 0 and a list of panes, or 1 and a list of parts of a profile; each with the number of its window or pane.
//! - **Pane**: level; tuples; first and last time, if it has them; how many groups, and which of them is the pool; the keys, a
//!   column after the other (a type, which of them are null, the values); of each rate the accumulators: which cells are
//!   not empty, then of each accumulator its kind and its cells (`ops/` has them); weights and errors of a ranking that overflowed;
//!   which groups may have tuples in the pool.
//! - **Part**: its counts, its sets, its lists of keys, each with weight, error and what is counted beside.
//!
//! A new version adds; a change of meaning of what there is takes another number in front.

pub mod bytes;

use crate::config::Counters;
use crate::work::{Share, Work};
use bytes::{Reader, put, put_bytes, put_len};

pub use bytes::Malformed;

/// Of the form.
pub(crate) const VERSION: u8 = 1;

/// What a worker's engine gives to the one that collects: parts of windows, by pipeline.
#[derive(Debug)]
pub struct Partial {
    /// By pipeline.
    pub(crate) shares: Vec<Share>,
    /// Counters of a worker that has ended; otherwise empty.
    pub(crate) counters: Counters,
}

impl Partial {
    /// Parts of windows without any counters.
    #[must_use]
    pub(crate) fn of(shares: Vec<Share>) -> Partial {
        Partial { shares, counters: Counters::default() }
    }

    /// Whether there is no part of any window in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shares.iter().all(Share::is_empty)
    }

    /// Memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shares.iter().map(Share::bytes).sum()
    }

    /// The form of the module's text, for `Engine::decode_partial` of an engine of the same dataflow and configuration.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut counters = self.counters;
        let counted: Vec<_> = counters.named().into_iter().filter(|(_, n)| **n > 0).collect();
        put_len(&mut out, counted.len());
        for (name, n) in counted {
            put_bytes(&mut out, name.as_bytes());
            put(&mut out, *n);
        }
        put_len(&mut out, self.shares.len());
        self.shares.iter().for_each(|share| share.encode(&mut out));
        out
    }

    pub(crate) fn decode(bytes: &[u8], pipelines: &[Work]) -> Result<Partial, Malformed> {
        let mut from = Reader::new(bytes);
        match from.byte()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let mut counters = Counters::default();
        for _ in 0..from.len()? {
            let (name, n) = (from.text()?, from.number()?);
            let mut named = counters.named().into_iter();
            named.find(|(known, _)| *known == name).into_iter().for_each(|(_, mine)| *mine = n);
        }
        if from.len()? != pipelines.len() {
            return Err(Malformed::OtherDataflow("the number of pipelines"));
        }
        let shares: Result<_, _> = pipelines.iter().map(|pipeline| pipeline.decode(&mut from)).collect();
        match from.left() {
            0 => Ok(Partial { shares: shares?, counters }),
            _ => shares.and(Err(Malformed::Invalid("more bytes"))),
        }
    }
}
