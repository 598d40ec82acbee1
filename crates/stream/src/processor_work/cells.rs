//! Converts panes and parts of a profile to rows and back; see [`crate::cells`].

use std::slice;

use arrow_array::RecordBatch;

use super::{GROUPS, PROFILE, ProcessorWork, WorkShare};
use crate::cells::{CellRowKind, CellRows, CellTable, CellTimes, CellWriter};
use crate::pane::{Pane, PaneReader};
use crate::partial::VERSION;
use crate::partial::bytes::{MalformedPartial, PartialReader};
use crate::{pipeline, profile};

/// Encodes a share for a whole row: version, kind, and content.
fn whole(kind: u8, encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    encode(&mut bytes);
    bytes
}

impl WorkShare {
    /// Appends the parts of another share of the same pipeline.
    fn append(&mut self, other: WorkShare) {
        match (self, other) {
            (WorkShare::Groups(mine), WorkShare::Groups(theirs)) => mine.extend(theirs),
            (WorkShare::Profile(mine), WorkShare::Profile(theirs)) => mine.extend(theirs),
            _ => unreachable!("both are of one pipeline"),
        }
    }
}

impl ProcessorWork {
    /// The rows of a worker's share detached at a watermark; see `cells`.
    #[must_use]
    pub fn cells(
        &self,
        share: &WorkShare,
        table: &CellTable,
        watermark_ns: i64,
    ) -> Vec<RecordBatch> {
        let mut out = CellWriter::new(table, self.times(watermark_ns));
        match (self, share) {
            (ProcessorWork::Groups(running), WorkShare::Groups(panes)) => {
                let mut panes: Vec<&(i64, Pane)> = panes.iter().collect();
                panes.sort_by_key(|(at, _)| *at);
                for one in panes {
                    if !running.put_cells(one, &mut out) {
                        out.whole(
                            one.0,
                            &whole(GROUPS, |out| pipeline::encode(slice::from_ref(one), out)),
                        );
                    }
                }
            }
            (ProcessorWork::Profile(_), WorkShare::Profile(parts)) => {
                let mut parts: Vec<_> = parts.iter().collect();
                parts.sort_by_key(|(at, _)| *at);
                for one in parts {
                    out.whole(
                        one.0,
                        &whole(PROFILE, |out| profile::encode(slice::from_ref(one), out)),
                    );
                }
            }
            _ => unreachable!("workers run the same dataflow"),
        }
        out.finish()
    }

    /// The times of cells detached at a watermark.
    #[must_use]
    pub fn times(&self, watermark_ns: i64) -> CellTimes {
        match self {
            ProcessorWork::Groups(running) => running.times(watermark_ns),
            ProcessorWork::Profile(profiling) => profiling.times(watermark_ns),
        }
    }

    /// Decodes untrusted cells.
    pub fn of_cells(&self, rows: &CellRows<'_>) -> Result<WorkShare, MalformedPartial> {
        let mut share = self.nothing();
        let mut taking = PaneReader::new(self.bytes_max(), rows.bytes());
        for row in 0..rows.len() {
            match (rows.kind(row)?, self) {
                (None, _) => {}
                (Some(CellRowKind::Whole(bytes, n)), _) => {
                    let first = self.read_whole(bytes)?;
                    // Copies are made only within the memory budget.
                    taking
                        .budget
                        .spend(first.bytes().saturating_mul(n as usize))?;
                    share.append(first);
                    for _ in 1..n {
                        share.append(self.read_whole(bytes)?);
                    }
                }
                (Some(kind), ProcessorWork::Groups(running)) => {
                    running.take_cell(rows, row, &kind, &mut taking)?
                }
                (Some(_), ProcessorWork::Profile(_)) => {
                    return Err(MalformedPartial::OtherDataflow("the kind of a pipeline"));
                }
            }
        }
        if let WorkShare::Groups(panes) = &mut share {
            panes.extend(
                taking
                    .panes
                    .into_iter()
                    .map(|(at, pane)| (at, pane.taken())),
            );
        }
        Ok(share)
    }

    /// Decodes the content of a whole row.
    fn read_whole(&self, bytes: &[u8]) -> Result<WorkShare, MalformedPartial> {
        let mut from = PartialReader::new(bytes);
        match from.byte()? {
            VERSION => {}
            other => return Err(MalformedPartial::Version(other)),
        }
        let share = self.decode(&mut from)?;
        match from.left() {
            0 => Ok(share),
            _ => Err(MalformedPartial::Invalid("its length")),
        }
    }

    /// An empty share.
    #[must_use]
    pub fn nothing(&self) -> WorkShare {
        match self {
            ProcessorWork::Groups(_) => WorkShare::Groups(Vec::new()),
            ProcessorWork::Profile(_) => WorkShare::Profile(Vec::new()),
        }
    }

    fn bytes_max(&self) -> usize {
        match self {
            ProcessorWork::Groups(running) => running.bytes_max(),
            ProcessorWork::Profile(profiling) => profiling.bytes_max(),
        }
    }
}
