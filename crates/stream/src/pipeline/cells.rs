//! Converts between panes and rows; see [`crate::cells`].

use super::Running;
use crate::cells::{CellRows, Kind, Times, Writer};
use crate::pane::{Pane, Place, Taking};
use crate::partial::Malformed;

impl Running {
    /// The times of cells detached at a watermark.
    #[must_use]
    pub fn times(&self, watermark_ns: i64) -> Times {
        Times::new(self.windows, self.lateness_ns, watermark_ns)
    }

    /// Approximate memory limit of the windows.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.room.bytes_max
    }

    /// Writes the rows of a pane; false if it cannot be converted to rows.
    #[must_use]
    pub fn put_cells(&self, (at, pane): &(i64, Pane), out: &mut Writer<'_>) -> bool {
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
        kind: &Kind<'_>,
        taking: &mut Taking,
    ) -> Result<(), Malformed> {
        let (pane, rate, replicate, slot) = match *kind {
            Kind::Base(pane, rate, replicate) => (pane, rate, replicate, None),
            Kind::Entry(pane, rate, replicate, slot) => (pane, rate, replicate, Some(slot)),
            Kind::Whole(..) => unreachable!("whole panes are not rows"),
        };
        let is_pane = match &self.windows {
            Some(windows) => windows.has_pane(pane),
            None => pane == 0,
        };
        if !is_pane {
            return Err(Malformed::Invalid("a time"));
        }
        let layout = &self.layout;
        // This also rejects NaN.
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(Malformed::Invalid("a rate"));
        }
        if !layout.is_weighted && rate != layout.sample {
            return Err(Malformed::OtherDataflow("the sampling rate"));
        }
        if replicate >= layout.replicates {
            return Err(Malformed::OtherDataflow("the number of replicates"));
        }
        taking.take(rows, row, Place { layout, seed: self.seed, pane, rate, replicate }, slot)
    }
}
