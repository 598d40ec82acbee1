//! Layout of a table: displayed columns and their widths, from the first rows and the terminal's width.

use tuple::{DataType, Field, FieldId, Schema, Unit, common};
use unicode_width::UnicodeWidthStr;

/// Spaces between columns.
pub const BETWEEN: usize = 2;
/// Minimum width of shortened text.
const TEXT_WIDTH_MIN: usize = 12;
/// Minimum width of shortened addresses: IPv4 is never shortened.
const ADDRESS_WIDTH_MIN: usize = 15;
/// Length of a time of day with microseconds.
const CLOCK_WIDTH: usize = 15;
/// Minimum width of shortened text in primary columns, while other columns can be omitted.
const FIRST_TEXT_WIDTH: usize = 32;
/// Maximum width of text if the terminal's width is unknown.
const TEXT_WIDTH_MAX: usize = 240;
/// Minimum width of numbers, and of text if possible, while more rows follow.
const NUMBER_TO_COME: usize = 7;
const TEXT_TO_COME: usize = 24;

/// Common fields omitted first on narrow terminals, in this order.
const DISPENSABLE_FIELDS: [&str; 9] = [
    "community_id",
    "id",
    "client_guessed",
    "ts_end",
    "transport",
    "client_port",
    "server_port",
    "server_ip",
    "client_ip",
];
/// Statistics omitted first, in this order; then others from the right.
const DISPENSABLE_STATISTICS: [&str; 9] = [
    "error_bound",
    "stddev",
    "min",
    "p99_9",
    "p90",
    "p95",
    "max",
    "p50",
    "avg",
];

/// Role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnRole {
    /// A field of a tuple.
    Field,
    /// Identifies a row: group, rank. Never omitted.
    Key,
    /// Computed value.
    Statistic,
}

/// A displayed column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Field.
    pub field: FieldId,
    /// Heading.
    pub heading: String,
    /// Width on the terminal.
    pub width: usize,
    /// Whether it is right-aligned.
    pub right: bool,
    /// Width to which text is shortened.
    cut_to: usize,
    /// Width below which it is not shortened.
    minimum: usize,
    /// Of times: their date and UTC offset, which the heading states if the cells are shortened to the time of day.
    day: Option<(String, String)>,
    /// Whether cells are shortened to the time of day.
    is_clock: bool,
    role: ColumnRole,
    /// Whether it is text, which may be shortened.
    text: bool,
    /// Whether no row has a value.
    empty: bool,
}

impl TableColumn {
    /// A column of `field` with the width of its widest cell.
    #[must_use]
    pub fn sized(
        schema: &Schema,
        field: FieldId,
        role: ColumnRole,
        cells: &[Option<String>],
    ) -> TableColumn {
        let declared = schema.field(field);
        let heading = heading(declared);
        let widest = cells.iter().flatten().map(|c| c.width()).max().unwrap_or(0);
        let text = matches!(declared.data_type, DataType::Text | DataType::Ip);
        let width = widest.max(heading.width());
        let width = if text {
            width.min(TEXT_WIDTH_MAX)
        } else {
            width
        };
        let minimum = match declared.data_type {
            DataType::Text => TEXT_WIDTH_MIN.max(heading.width()),
            DataType::Ip => ADDRESS_WIDTH_MIN.max(heading.width()),
            _ => usize::MAX,
        };
        let is_time = declared.unit == Unit::EpochNanoseconds;
        let first = cells.iter().flatten().next().filter(|_| is_time);
        TableColumn {
            field,
            heading,
            width,
            minimum,
            day: first.and_then(|cell| day_of(cell)),
            is_clock: false,
            cut_to: TEXT_WIDTH_MAX,
            right: is_number(declared),
            role,
            text,
            empty: cells.iter().all(Option::is_none),
        }
    }

    /// The column with another heading.
    #[must_use]
    pub fn headed(self, heading: &str) -> TableColumn {
        let heading = super::text::escape(heading);
        TableColumn {
            width: self.width.max(heading.width()),
            heading,
            ..self
        }
    }

    /// Width to which its text is shortened; `None`: not shortened, because a truncated number would be wrong.
    #[must_use]
    pub fn cut_to(&self) -> Option<usize> {
        self.text.then_some(self.cut_to)
    }

    /// The time of day of a cell, if that is shown and the cell has the date and offset of the heading.
    #[must_use]
    pub fn clock<'a>(&self, cell: &'a str) -> &'a str {
        let day = self.day.as_ref().filter(|_| self.is_clock);
        day.and_then(|(date, offset)| {
            let time = cell.strip_prefix(date.as_str())?.strip_prefix('T')?;
            time.strip_suffix(offset.as_str())
        })
        .unwrap_or(cell)
    }

    fn least(&self) -> usize {
        self.width.min(self.minimum)
    }

    /// Moves the date from the cells to the heading.
    fn shorten_to_clock(&mut self) {
        if let Some((date, _)) = &self.day {
            self.heading = format!("{} {date}", self.heading);
            self.width = self.heading.width().max(CLOCK_WIDTH);
            self.is_clock = true;
        }
    }
}

/// Displayed and omitted columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TableLayout {
    /// Columns.
    pub columns: Vec<TableColumn>,
    /// Names of omitted columns.
    pub left_out: Vec<String>,
}

/// Date and UTC offset of a time: of `2026-11-07T12:05:57.229334Z`, `2026-11-07` and `Z`.
fn day_of(time: &str) -> Option<(String, String)> {
    let (date, time) = time.split_once('T')?;
    let offset = time.get(CLOCK_WIDTH..)?;
    Some((date.to_owned(), offset.to_owned()))
}

/// Sorts a parser's columns by relevance: those in its list of facts, other fields, and the other common fields last.
/// SELECT defines its own order.
pub fn for_people(columns: &mut [TableColumn], schema: &Schema) {
    if !schema.facts.first.is_empty() {
        let names = common::FIELDS.len();
        let place = |c: &TableColumn| first_place(c, schema).unwrap_or(usize::MAX);
        columns.sort_by_key(|c| (place(c), usize::from(c.field.0) < names));
    }
}

/// Rank among the primary columns.
fn first_place(column: &TableColumn, schema: &Schema) -> Option<usize> {
    let name = &schema.field(column.field).name;
    schema.facts.first.iter().position(|first| first == name)
}

/// Fits columns to `width`, if given: text is shortened to its minimum, times lose their date, then fields and
/// statistics are omitted, and remaining space is returned to the text.
#[must_use]
pub fn fit(mut columns: Vec<TableColumn>, width: Option<usize>, schema: &Schema) -> TableLayout {
    let mut left_out = Vec::new();
    let Some(width) = width else {
        return TableLayout { columns, left_out };
    };
    let is_first = |c: &TableColumn| first_place(c, schema).is_some();
    let generous = |columns: &[TableColumn]| {
        let more = |c: &&TableColumn| c.text && is_first(c);
        let more = columns
            .iter()
            .filter(more)
            .map(|c| c.width.min(FIRST_TEXT_WIDTH).saturating_sub(c.least()));
        least_width(columns) + more.sum::<usize>()
    };
    while generous(&columns) > width
        && !columns.iter().all(is_first)
        && columns.iter().any(is_first)
        && let Some(gone) = most_dispensable(&columns, schema)
    {
        left_out.push(columns.remove(gone).heading);
    }
    if generous(&columns) > width {
        columns.iter_mut().for_each(TableColumn::shorten_to_clock);
    }
    while least_width(&columns) > width
        && let Some(gone) = most_dispensable(&columns, schema)
    {
        left_out.push(columns.remove(gone).heading);
    }
    cut_text(&mut columns, width);
    columns.iter_mut().for_each(|c| c.cut_to = c.width);
    TableLayout { columns, left_out }
}

/// Widens columns for later rows, whose cells may be wider.
pub fn loosen(columns: &mut [TableColumn], width: Option<usize>) {
    columns
        .iter_mut()
        .filter(|c| c.right)
        .for_each(|c| c.width = c.width.max(NUMBER_TO_COME));
    for i in (0..columns.len())
        .filter(|i| columns[*i].text)
        .collect::<Vec<_>>()
    {
        let others = total(columns) - columns[i].width;
        let room = width.map_or(TEXT_TO_COME, |width| width.saturating_sub(others));
        columns[i].width = columns[i]
            .width
            .max(room.clamp(TEXT_WIDTH_MIN, TEXT_TO_COME));
    }
}

/// Name without `_ns`: cells have units.
#[must_use]
pub fn heading(field: &Field) -> String {
    let name = match field.unit {
        Unit::Nanoseconds => field.name.strip_suffix("_ns").unwrap_or(&field.name),
        _ => &field.name,
    };
    super::text::escape(name)
}

fn is_number(field: &Field) -> bool {
    matches!(
        field.data_type,
        DataType::U64 | DataType::I64 | DataType::F64
    ) && !matches!(field.unit, Unit::Id | Unit::EpochNanoseconds)
}

fn total(columns: &[TableColumn]) -> usize {
    columns.iter().map(|c| c.width).sum::<usize>() + BETWEEN * columns.len().saturating_sub(1)
}

fn least_width(columns: &[TableColumn]) -> usize {
    columns.iter().map(|c| c.least()).sum::<usize>() + BETWEEN * columns.len().saturating_sub(1)
}

/// Next column to omit, if any. Of results a statistic, never a key, and not the last statistic; of tuples an empty
/// one, one of [`DISPENSABLE_FIELDS`] that is not primary, otherwise the last that is neither key nor measure, or not
/// primary.
fn most_dispensable(columns: &[TableColumn], schema: &Schema) -> Option<usize> {
    let last = |wanted: &dyn Fn(&TableColumn) -> bool| columns.iter().rposition(wanted);
    let is_first = |c: &TableColumn| first_place(c, schema).is_some();
    let named =
        |name: &str| last(&|c| c.heading == name && c.role != ColumnRole::Key && !is_first(c));
    if columns.iter().any(|c| c.role != ColumnRole::Field) {
        let may_go = |c: &TableColumn| {
            c.role == ColumnRole::Statistic && !matches!(c.heading.as_str(), "approximate" | "lost")
        };
        let several = columns.iter().filter(|c| may_go(c)).count() > 1;
        let listed = DISPENSABLE_STATISTICS.iter().find_map(|name| named(name));
        return listed.or_else(|| last(&may_go)).filter(|_| several);
    }
    let matters = |c: &TableColumn| {
        let is_common = common::FIELDS.iter().any(|f| f.name == c.heading);
        is_common || Some(c.field) == schema.key || Some(c.field) == schema.measure
    };
    // With SELECT, columns are omitted from the right; otherwise endpoints before the parser's fields, also from the
    // right.
    let is_whole = schema
        .fields
        .first()
        .is_some_and(|field| field.name == common::FIELDS[0].name);
    if !is_whole {
        return columns.len().checked_sub(1).filter(|last| *last > 0);
    }
    if !schema.facts.first.is_empty() {
        let listed = DISPENSABLE_FIELDS.iter().find_map(|name| named(name));
        return last(&|c| c.empty)
            .or(listed)
            .or(columns.len().checked_sub(1))
            .filter(|_| columns.len() > 1);
    }
    let dispensable = || DISPENSABLE_FIELDS.iter().find_map(|name| named(name));
    let own = || last(&|c| !matters(c)).or(columns.len().checked_sub(1));
    last(&|c| c.empty)
        .or_else(dispensable)
        .or_else(own)
        .filter(|_| columns.len() > 1)
}

/// Shortens the widest text columns to a common width until the table fits or the minimum is reached.
fn cut_text(columns: &mut [TableColumn], width: usize) {
    loop {
        let over = total(columns).saturating_sub(width);
        let may_shrink = |c: &&TableColumn| c.text && c.width > c.least();
        let widths = || columns.iter().filter(may_shrink).map(|c| c.width);
        let Some(widest) = widths().max().filter(|_| over > 0) else {
            return;
        };
        let next = widths().filter(|width| *width < widest).max().unwrap_or(0);
        let sharing = widths().filter(|width| *width == widest).count();
        let to = widest.saturating_sub(over.div_ceil(sharing)).max(next);
        columns
            .iter_mut()
            .filter(|c| c.text && c.width == widest)
            .for_each(|c| c.width = to.max(c.least()));
    }
}
