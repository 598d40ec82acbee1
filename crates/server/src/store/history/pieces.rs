//! Pieces: all rows of a result within a period, as of one moment, even if rows are moved or removed during the read.

use recording::ReplayedRows;
use tuple::{Batch, FieldId};

use super::RowHistory;
use crate::job::JobId;
use crate::job::columns::{decode, schema};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{HistorySegment, KeptResult, RowPiece};

/// Completeness of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Complete, or ended by the reader.
    All,
    /// Number of rows that were removed in the meantime.
    Lacks(u64),
}

impl RowHistory {
    /// Reads these columns of a piece until `take` declines more.
    ///
    /// # Errors
    /// `PersistError::Unreadable` if a file is missing or damaged.
    pub fn read_piece(
        &self,
        (job, result): (JobId, &KeptResult),
        columns: &[FieldId],
        piece: &RowPiece,
        take: &mut dyn FnMut(&Batch) -> bool,
    ) -> Result<ReadOutcome, PersistError> {
        let schema = schema(&result.table, &result.columns).ok_or(PersistError::Damaged)?;
        let is_it = |tail: &crate::store::sqlite::RowTail| tail.first_row == piece.first_row;
        if let Some(tail) = self
            .results
            .tail(job, result.place, piece.first_row, 1)?
            .first()
            .filter(|tail| is_it(tail))
        {
            take(&decode(&tail.of.batch, &schema).ok_or(PersistError::Damaged)?);
            return Ok(ReadOutcome::All);
        }
        // A missing piece was moved or removed.
        let holds = |segment: &HistorySegment| segment.first_row <= piece.first_row;
        let Some(segment) = self
            .segments
            .at(job, result.place, piece.first_row)?
            .filter(holds)
        else {
            return Ok(ReadOutcome::Lacks(piece.rows.unsigned_abs()));
        };
        let from = piece.first_row;
        let to = piece.first_row + piece.rows;
        let mut left = piece.rows;
        let mut part = |first: i64, rows: &ReplayedRows| {
            let behind = first + rows.batch.rows() as i64;
            let start = first.max(from);
            let end = behind.min(to);
            if start >= end {
                return first < to;
            }
            left -= end - start;
            let offset = |row: i64| usize::try_from(row - first).unwrap_or(0);
            take(&rows.batch.slice(offset(start), offset(end) - offset(start))) && end < to
        };
        let has_all_been_read = self.read_segment(&segment, (&schema, columns), &mut part)?;
        Ok(match left {
            1.. if has_all_been_read => ReadOutcome::Lacks(left.unsigned_abs()),
            _ => ReadOutcome::All,
        })
    }
}
