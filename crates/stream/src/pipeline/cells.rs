//! Converts between panes and rows; see [`crate::cells`].

use super::PipelineState;
use crate::cells::{CellRowKind, CellRows, CellTimes, CellWriter};
use crate::pane::{CellRowContext, Pane, PaneReader};
use crate::partial::MalformedPartial;

impl PipelineState {
    /// The times of cells detached at a watermark.
    #[must_use]
    pub fn times(&self, watermark_ns: i64) -> CellTimes {
        CellTimes::new(self.windows, self.lateness_ns, watermark_ns)
    }

    /// Approximate memory limit of the windows.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.room.bytes_max
    }

    /// Writes the rows of a pane; false if it cannot be converted to rows.
    #[must_use]
    pub fn put_cells(&self, (at, pane): &(i64, Pane), out: &mut CellWriter<'_>) -> bool {
        let is_rows = pane.is_rows();
        if is_rows {
            pane.put_cells(*at, &self.layout, out);
        }
        is_rows
    }

    /// Adds a row of a cell.
    pub fn take_cell(
        &self,
        rows: &CellRows<'_>,
        row: usize,
        kind: &CellRowKind<'_>,
        taking: &mut PaneReader,
    ) -> Result<(), MalformedPartial> {
        let (pane, rate, replicate, slot) = match *kind {
            CellRowKind::Base(pane, rate, replicate) => (pane, rate, replicate, None),
            CellRowKind::Entry(pane, rate, replicate, slot) => (pane, rate, replicate, Some(slot)),
            CellRowKind::Whole(..) => unreachable!("whole panes are not rows"),
        };
        let is_pane = match &self.windows {
            Some(windows) => windows.has_pane(pane),
            None => pane == 0,
        };
        if !is_pane {
            return Err(MalformedPartial::Invalid("a time"));
        }
        let layout = &self.layout;
        // The comparison also rejects NaN.
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(MalformedPartial::Invalid("a rate"));
        }
        if layout.rates.is_none() && rate != layout.sample {
            return Err(MalformedPartial::OtherDataflow("the sampling rate"));
        }
        if replicate >= layout.replicates {
            return Err(MalformedPartial::OtherDataflow("the number of replicates"));
        }
        taking.take(
            rows,
            row,
            CellRowContext {
                layout,
                seed: self.seed,
                pane,
                rate,
                replicate,
            },
            slot,
        )
    }
}
