//! Pieces: all rows of a result that lie within a time, as they lay at one moment, whatever moves or goes while they are read.

use recording::Rows;
use tuple::{Batch, FieldId};

use super::History;
use crate::columns::{decode, schema};
use crate::job::JobId;
use crate::store::{KeptResult, Piece, Segment};
use crate::unkept::Unkept;

/// How much of a piece was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// All, or as much as was wanted.
    All,
    /// So many rows have been taken away meanwhile.
    Lacks(u64),
}

impl History {
    /// Reads these columns of a piece's rows, until `take` wants no more.
    ///
    /// # Errors
    /// `Unkept::Unreadable` when they are in a file that is missing or damaged.
    pub fn read_piece(
        &self,
        (job, result): (JobId, &KeptResult),
        columns: &[FieldId],
        piece: &Piece,
        take: &mut dyn FnMut(&Batch) -> bool,
    ) -> Result<Read, Unkept> {
        let schema = schema(&result.table, &result.columns).ok_or(Unkept::Damaged)?;
        let place = (job, result.place);
        let is_it = |tail: &crate::store::Tail| tail.first_row == piece.first_row;
        if let Some(tail) = self.store.tail(place, piece.first_row, 1)?.first().filter(|tail| is_it(tail)) {
            take(&decode(&tail.of.batch, &schema).ok_or(Unkept::Damaged)?);
            return Ok(Read::All);
        }
        // What is not there any more has moved, or is gone.
        let holds = |segment: &Segment| segment.first_row <= piece.first_row;
        let Some(segment) = self.store.segment(place, piece.first_row)?.filter(holds) else {
            return Ok(Read::Lacks(piece.rows.unsigned_abs()));
        };
        let (from, to) = (piece.first_row, piece.first_row + piece.rows);
        let mut left = piece.rows;
        let mut part = |first: i64, rows: &Rows| {
            let behind = first + rows.batch.rows() as i64;
            let (start, end) = (first.max(from), behind.min(to));
            if start >= end {
                return first < to;
            }
            left -= end - start;
            let offset = |row: i64| usize::try_from(row - first).unwrap_or(0);
            take(&rows.batch.slice(offset(start), offset(end) - offset(start))) && end < to
        };
        let has_all_been_read = self.read_segment(&segment, (&schema, columns), &mut part)?;
        Ok(match left {
            1.. if has_all_been_read => Read::Lacks(left.unsigned_abs()),
            _ => Read::All,
        })
    }
}
