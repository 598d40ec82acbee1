//! Selections: rows of a result that contain a text, sorted by a column, one page at a time. A first pass reads the
//! sort and search columns and keeps the keys of the rows up to the page's end; a second pass reads the rows of the
//! page.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, UInt64Array};
use sinks::cells::{CellValues, ColumnCells};
use tuple::{Batch, DataType, FieldId, Schema, Unit};

use super::{RowHistory, RowPage};
use crate::job::JobId;
use crate::job::columns::{schema, time_column};
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{KeptResult, RowPiece};

/// Maximum `offset` + `limit` of a selection; up to twice as many keys are in memory.
const SELECTED_ROWS_MAX: usize = 100_000;
/// Maximum rows read per request.
const READ_ROWS_MAX: i64 = 1_000_000;
/// Maximum bytes of the texts among the keys.
const KEY_BYTES_MAX: usize = 32 << 20;

/// Filter, order and page of a result's rows.
#[derive(Clone, Debug, Default)]
pub struct RowSelection {
    /// Start of the period, in nanoseconds since the epoch.
    pub since_ns: Option<i64>,
    /// End of the period, exclusive.
    pub until_ns: Option<i64>,
    /// Sort column; none: order of arrival.
    pub sort: Option<String>,
    /// Whether the largest value is first. Rows without a value are last in both cases.
    pub is_descending: bool,
    /// Text that a text, address, id or group column of the row contains, case-insensitive.
    pub find: Option<String>,
    /// Number of rows to skip.
    pub offset: usize,
    /// Maximum rows of the page.
    pub limit: usize,
}

/// Sort key.
#[derive(Clone, Debug)]
enum RowSortKey {
    Whole(i128),
    Float(f64),
    Bytes(Box<[u8]>),
}

impl RowSortKey {
    /// The value at `row`; `None`: null.
    fn of(cells: &ColumnCells<'_>, row: usize) -> Option<RowSortKey> {
        if cells.is_null(row) {
            return None;
        }
        Some(match cells.values {
            CellValues::Bool(a) => RowSortKey::Whole(i128::from(a.value(row))),
            CellValues::U64(a) => RowSortKey::Whole(i128::from(a.value(row))),
            CellValues::I64(a) => RowSortKey::Whole(i128::from(a.value(row))),
            CellValues::F64(a) => RowSortKey::Float(a.value(row)),
            CellValues::Text(a) | CellValues::Json(a) => {
                RowSortKey::Bytes(a.value(row).as_bytes().into())
            }
            CellValues::Ip(a) => RowSortKey::Bytes(a.value(row).into()),
            CellValues::Hashes(a) => RowSortKey::Bytes(a.value(row).into()),
        })
    }

    fn bytes(&self) -> usize {
        if let RowSortKey::Bytes(bytes) = self {
            bytes.len()
        } else {
            0
        }
    }
}

fn compare(a: &RowSortKey, b: &RowSortKey) -> Ordering {
    match (a, b) {
        (RowSortKey::Whole(a), RowSortKey::Whole(b)) => a.cmp(b),
        (RowSortKey::Float(a), RowSortKey::Float(b)) => a.total_cmp(b),
        (RowSortKey::Bytes(a), RowSortKey::Bytes(b)) => a.cmp(b),
        // All values of a column have the same type.
        _ => Ordering::Equal,
    }
}

/// A row that may be on the page.
struct RowCandidate {
    key: Option<RowSortKey>,
    /// Piece of the row, and the row's index in it.
    at: (usize, usize),
}

/// The first rows of a selection, unsorted until [`PageCandidates::finish`].
struct PageCandidates {
    rows_max: usize,
    is_descending: bool,
    rows: Vec<RowCandidate>,
    key_bytes: usize,
    /// Number of matching rows.
    matches: u64,
}

impl PageCandidates {
    /// Adds a row; returns false if its key exceeds the memory limit.
    fn add(&mut self, candidate: RowCandidate) -> bool {
        self.matches += 1;
        self.key_bytes += candidate.key.as_ref().map_or(0, RowSortKey::bytes);
        self.rows.push(candidate);
        if self.rows.len() >= 2 * self.rows_max || self.key_bytes > KEY_BYTES_MAX {
            self.cut();
        }
        self.key_bytes <= KEY_BYTES_MAX
    }

    fn order(&self) -> impl Fn(&RowCandidate, &RowCandidate) -> Ordering + use<> {
        let is_descending = self.is_descending;
        move |a, b| {
            let by_key = match (&a.key, &b.key) {
                (Some(a), Some(b)) if is_descending => compare(b, a),
                (Some(a), Some(b)) => compare(a, b),
                (a, b) => a.is_none().cmp(&b.is_none()),
            };
            by_key.then(a.at.cmp(&b.at))
        }
    }

    /// Drops rows after the page's end.
    fn cut(&mut self) {
        if self.rows.len() > self.rows_max {
            let order = self.order();
            self.rows.select_nth_unstable_by(self.rows_max, order);
            self.rows.truncate(self.rows_max);
        }
        self.key_bytes = self
            .rows
            .iter()
            .filter_map(|row| row.key.as_ref())
            .map(RowSortKey::bytes)
            .sum();
    }

    fn finish(mut self, offset: usize) -> (Vec<(usize, usize)>, u64) {
        let order = self.order();
        self.rows.sort_unstable_by(order);
        self.rows.truncate(self.rows_max);
        (
            self.rows.iter().skip(offset).map(|row| row.at).collect(),
            self.matches,
        )
    }
}

impl RowHistory {
    /// Reads a page of a selection, and counts the matching rows.
    ///
    /// # Errors
    /// `ServiceError::Wrong` for a column that is missing or unsortable, and for more rows than a request may read;
    /// `ServiceError::Late` after `deadline`, and when rows were dropped in the meantime.
    pub fn select(
        &self,
        (job, result): (JobId, &KeptResult),
        asked: &RowSelection,
        deadline: Instant,
    ) -> Result<(RowPage, u64), ServiceError> {
        let schema = schema(&result.table, &result.columns).ok_or(PersistError::Damaged)?;
        let sort = asked
            .sort
            .as_deref()
            .map(|name| sortable(&schema, name))
            .transpose()?;
        let rows_max = asked.offset.saturating_add(asked.limit);
        if rows_max > SELECTED_ROWS_MAX {
            let message = format!("`offset` and `limit` are at most {SELECTED_ROWS_MAX} together");
            return Err(ServiceError::Wrong(message));
        }
        let since = asked.since_ns.unwrap_or(i64::MIN);
        let until = asked.until_ns.unwrap_or(i64::MAX);
        let pieces = self
            .segments
            .pieces(job, result.place, (since, until))
            .map_err(PersistError::from)?;
        let all: i64 = pieces.iter().map(|piece| piece.rows).sum();
        if all > READ_ROWS_MAX {
            return Err(ServiceError::Wrong(format!(
                "that time has {all} rows, and at most {READ_ROWS_MAX} are sorted or searched: choose a shorter time (`since`, `until`)"
            )));
        }
        let time = time_column(&schema);
        let find = asked
            .find
            .as_deref()
            .map(str::to_lowercase)
            .filter(|text| !text.is_empty());
        let searched = if find.is_some() {
            searched(&schema, result.keys)
        } else {
            Vec::new()
        };
        let mut columns: Vec<FieldId> = searched.iter().copied().chain(sort).chain(time).collect();
        columns.sort_unstable_by_key(|id| id.0);
        columns.dedup();
        if columns.is_empty() {
            // At least one column is needed to count rows.
            columns.extend(schema.ids().next());
        }
        let rows = Vec::new();
        let is_descending = asked.is_descending;
        let mut first = PageCandidates {
            rows_max,
            is_descending,
            rows,
            key_bytes: 0,
            matches: 0,
        };
        for (at, piece) in pieces.iter().enumerate() {
            let mut place = 0;
            let mut has_room = true;
            let mut is_late = false;
            let mut take = |batch: &Batch| {
                is_late = Instant::now() > deadline;
                let cells: Vec<ColumnCells<'_>> = searched
                    .iter()
                    .filter_map(|id| ColumnCells::of(batch, *id))
                    .collect();
                let keys = sort.and_then(|id| ColumnCells::of(batch, id));
                let times = time.map(|id| batch.i64(id));
                let is_within = |row: usize| {
                    let time = times
                        .filter(|times| times.is_valid(row))
                        .map(|times| times.value(row));
                    time.is_none_or(|time| (since..until).contains(&time))
                };
                for row in 0..batch.rows() {
                    let is_found = || {
                        find.as_deref()
                            .is_none_or(|text| contains(&cells, row, text))
                    };
                    if is_within(row) && is_found() {
                        let key = keys.and_then(|cells| RowSortKey::of(&cells, row));
                        has_room &= first.add(RowCandidate {
                            key,
                            at: (at, place + row),
                        });
                    }
                }
                place += batch.rows();
                !is_late && has_room
            };
            self.read_piece((job, result), &columns, piece, &mut take)?;
            if is_late {
                return Err(ServiceError::Late(
                    "this took too long and was stopped: choose a shorter time (`since`, `until`)"
                        .into(),
                ));
            }
            if !has_room {
                return Err(ServiceError::Wrong(
                    "the texts of that column are too long to sort this many rows: choose a shorter time or a lower `offset`"
                        .into(),
                ));
            }
        }
        let (wanted, matches) = first.finish(asked.offset);
        let batches = match self.rows_at((job, result), &schema, &pieces, &wanted)? {
            None if !wanted.is_empty() => {
                return Err(ServiceError::Late(
                    "rows were dropped during the request: try again".into(),
                ));
            }
            batch => batch.into_iter().collect(),
        };
        Ok((
            RowPage {
                schema,
                batches,
                last: None,
                next: None,
                stopped: None,
            },
            matches,
        ))
    }

    /// Reads these rows, each given by its piece and its index there, in this order; `None` if some were removed.
    fn rows_at(
        &self,
        (job, result): (JobId, &KeptResult),
        schema: &Arc<Schema>,
        pieces: &[RowPiece],
        wanted: &[(usize, usize)],
    ) -> Result<Option<Batch>, PersistError> {
        // Sorted by place in the history, each with its position on the page.
        let mut by_place: Vec<(usize, usize, usize)> = wanted
            .iter()
            .enumerate()
            .map(|(to, (piece, row))| (*piece, *row, to))
            .collect();
        by_place.sort_unstable();
        let columns: Vec<FieldId> = schema.ids().collect();
        let (mut parts, mut places): (Vec<Batch>, Vec<usize>) = (Vec::new(), Vec::new());
        for run in by_place.chunk_by(|a, b| a.0 == b.0) {
            let mut begin = 0;
            let mut left = run;
            let mut take = |batch: &Batch| {
                let end = begin + batch.rows();
                let here = left.partition_point(|(_, row, _)| *row < end);
                let (now, later) = left.split_at(here);
                if !now.is_empty() {
                    let rows: UInt64Array = now
                        .iter()
                        .map(|(_, row, _)| (*row - begin) as u64)
                        .collect();
                    parts.push(taken(batch, &rows));
                    places.extend(now.iter().map(|(.., to)| *to));
                }
                begin = end;
                left = later;
                !left.is_empty()
            };
            self.read_piece((job, result), &columns, &pieces[run[0].0], &mut take)?;
            if !left.is_empty() {
                return Ok(None);
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let mut order = vec![0_u64; places.len()];
        places
            .iter()
            .enumerate()
            .for_each(|(from, to)| order[*to] = from as u64);
        let together = |id: FieldId| -> Option<ArrayRef> {
            let arrays: Vec<&dyn Array> = parts
                .iter()
                .map(|part| Some(part.column(id)?.as_ref()))
                .collect::<Option<_>>()?;
            Some(arrow_select::concat::concat(&arrays).expect("the columns are of one type"))
        };
        let all = Batch::new(
            schema.clone(),
            places.len(),
            schema.ids().map(together).collect(),
        );
        Ok(Some(taken(&all, &UInt64Array::from(order))))
    }
}

/// Rows of a batch at these indexes, in this order.
fn taken(batch: &Batch, places: &UInt64Array) -> Batch {
    let column = |id| {
        Some(
            arrow_select::take::take(batch.column(id)?, places, None).expect("the places are rows"),
        )
    };
    Batch::new(
        batch.schema().clone(),
        places.len(),
        batch.schema().ids().map(column).collect(),
    )
}

/// The column of this name, if sortable.
fn sortable(schema: &Schema, name: &str) -> Result<FieldId, ServiceError> {
    let names = || {
        schema
            .fields
            .iter()
            .map(|field| field.name.as_ref())
            .collect::<Vec<&str>>()
            .join(", ")
    };
    let id = schema.find(name).ok_or_else(|| {
        ServiceError::Wrong(format!(
            "`sort`: the result has no column {name}; it has {}",
            names()
        ))
    })?;
    match schema.field(id).data_type {
        DataType::Json | DataType::Hashes => Err(ServiceError::Wrong(format!(
            "`sort`: values of {name} have no order"
        ))),
        _ => Ok(id),
    }
}

/// Searched columns: texts, addresses, ids, and group columns.
fn searched(schema: &Schema, keys: usize) -> Vec<FieldId> {
    let behind_window = schema
        .find("window_end")
        .map_or(0, |id| usize::from(id.0) + 1);
    let is_searched = |id: &FieldId| {
        let field = schema.field(*id);
        match field.data_type {
            DataType::Text | DataType::Ip | DataType::Hashes => true,
            DataType::U64 if field.unit == Unit::Id => true,
            DataType::Json => false,
            _ => (behind_window..behind_window + keys).contains(&usize::from(id.0)),
        }
    };
    schema.ids().filter(is_searched).collect()
}

fn contains(cells: &[ColumnCells<'_>], row: usize, text: &str) -> bool {
    let mut bytes = Vec::new();
    cells
        .iter()
        .filter(|cells| !cells.is_null(row))
        .any(|cells| {
            bytes.clear();
            cells.push(row, &mut bytes);
            String::from_utf8_lossy(&bytes)
                .to_lowercase()
                .contains(text)
        })
}
