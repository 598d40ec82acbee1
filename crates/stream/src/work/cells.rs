//! Converts panes and parts of a profile to rows and back; see [`crate::cells`].

use std::slice;

use arrow_array::RecordBatch;

use super::{GROUPS, PROFILE, Share, Work};
use crate::cells::{CellRows, CellTable, Kind, Times, Writer};
use crate::pane::{Pane, Taking};
use crate::partial::VERSION;
use crate::partial::bytes::{Malformed, Reader};
use crate::{pipeline, profile};

/// Encodes a share for a whole row: version, kind, and content.
fn whole(kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    encode(&mut bytes);
    bytes
}

impl Share {
    /// Appends the parts of another share of the same pipeline.
    fn append(&mut self, other: Share) {
        match (self, other) {
            (Share::Groups(mine), Share::Groups(theirs)) => mine.extend(theirs),
            (Share::Profile(mine), Share::Profile(theirs)) => mine.extend(theirs),
            _ => unreachable!("both are of one pipeline"),
        }
    }
}

impl Work {
    /// The rows of a worker's share detached at a watermark; see `cells`.
    #[must_use]
    pub fn cells(&self, share: &Share, table: &CellTable, watermark_ns: i64) -> Vec<RecordBatch> {
        let mut out = Writer::new(table, self.times(watermark_ns));
        match (self, share) {
            (Work::Groups(running), Share::Groups(panes)) => {
                let mut panes: Vec<&(i64, Pane)> = panes.iter().collect();
                panes.sort_by_key(|(at, _)| *at);
                for one in panes {
                    if !running.put_cells(one, &mut out) {
                        out.whole(one.0, &whole(GROUPS, |out| pipeline::encode(slice::from_ref(one), out)));
                    }
                }
            }
            (Work::Profile(_), Share::Profile(parts)) => {
                let mut parts: Vec<_> = parts.iter().collect();
                parts.sort_by_key(|(at, _)| *at);
                for one in parts {
                    out.whole(one.0, &whole(PROFILE, |out| profile::encode(slice::from_ref(one), out)));
                }
            }
            _ => unreachable!("workers run the same dataflow"),
        }
        out.finish()
    }

    /// The times of cells detached at a watermark.
    #[must_use]
    pub fn times(&self, watermark_ns: i64) -> Times {
        match self {
            Work::Groups(running) => running.times(watermark_ns),
            Work::Profile(profiling) => profiling.times(watermark_ns),
        }
    }

    /// Decodes untrusted cells.
    pub fn of_cells(&self, rows: &CellRows<'_>) -> Result<Share, Malformed> {
        let mut share = self.nothing();
        let mut taking = Taking::new(self.bytes_max(), rows.bytes());
        for row in 0..rows.len() {
            match (rows.kind(row)?, self) {
                (None, _) => {}
                (Some(Kind::Whole(bytes, n)), _) => {
                    let first = self.read_whole(bytes)?;
                    // Copies are made only within the memory budget.
                    taking.budget.spend(first.bytes().saturating_mul(n as usize))?;
                    share.append(first);
                    for _ in 1..n {
                        share.append(self.read_whole(bytes)?);
                    }
                }
                (Some(kind), Work::Groups(running)) => running.take_cell(rows, row, &kind, &mut taking)?,
                (Some(_), Work::Profile(_)) => {
                    return Err(Malformed::OtherDataflow("the kind of a pipeline"));
                }
            }
        }
        if let Share::Groups(panes) = &mut share {
            panes.extend(taking.panes.into_iter().map(|(at, pane)| (at, pane.taken())));
        }
        Ok(share)
    }

    /// Decodes the content of a whole row.
    fn read_whole(&self, bytes: &[u8]) -> Result<Share, Malformed> {
        let mut from = Reader::new(bytes);
        match from.byte()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let share = self.decode(&mut from)?;
        match from.left() {
            0 => Ok(share),
            _ => Err(Malformed::Invalid("more bytes")),
        }
    }

    /// An empty share.
    #[must_use]
    pub fn nothing(&self) -> Share {
        match self {
            Work::Groups(_) => Share::Groups(Vec::new()),
            Work::Profile(_) => Share::Profile(Vec::new()),
        }
    }

    fn bytes_max(&self) -> usize {
        match self {
            Work::Groups(running) => running.bytes_max(),
            Work::Profile(profiling) => profiling.bytes_max(),
        }
    }
}
