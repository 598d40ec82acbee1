//! Layout of a table: displayed columns and their widths, from the first rows and the terminal's width.

use tuple::{DataType, Field, FieldId, Schema, Unit, common};
use unicode_width::UnicodeWidthStr;

/// Spaces between columns.
pub const BETWEEN: usize = 2;
/// Minimum width of shortened text.
const TEXT_WIDTH_MIN: usize = 12;
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
        TableColumn {
            field,
            heading,
            width: if text {
                width.min(TEXT_WIDTH_MAX)
            } else {
                width
            },
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
}

/// Displayed and omitted columns.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TableLayout {
    /// Columns.
    pub columns: Vec<TableColumn>,
    /// Names of omitted columns.
    pub left_out: Vec<String>,
}

/// Sorts a parser's columns by relevance: those in its list of facts, other fields, and the endpoints last. SELECT
/// defines its own order.
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

/// Fits columns to `width`, if given: text is shortened to its minimum, then fields and statistics are omitted, and
/// remaining space is returned to the text.
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
            .map(|c| c.width.clamp(TEXT_WIDTH_MIN, FIRST_TEXT_WIDTH) - TEXT_WIDTH_MIN);
        least_width(columns) + more.sum::<usize>()
    };
    while generous(&columns) > width
        && !columns.iter().all(is_first)
        && columns.iter().any(is_first)
        && let Some(gone) = most_dispensable(&columns, schema)
    {
        left_out.push(columns.remove(gone).heading);
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
    let least = |c: &TableColumn| {
        if c.text {
            c.width.min(TEXT_WIDTH_MIN)
        } else {
            c.width
        }
    };
    columns.iter().map(least).sum::<usize>() + BETWEEN * columns.len().saturating_sub(1)
}

/// Next column to omit, if any. Of results a statistic, never a key, and not the last statistic; of tuples an empty
/// one, one of [`DISPENSABLE_FIELDS`], otherwise the last that is neither key nor measure, or not primary.
fn most_dispensable(columns: &[TableColumn], schema: &Schema) -> Option<usize> {
    let last = |wanted: &dyn Fn(&TableColumn) -> bool| columns.iter().rposition(wanted);
    let named = |name: &str| last(&|c| c.heading == name && c.role != ColumnRole::Key);
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
    while total(columns) > width {
        let over = total(columns) - width;
        let widest = columns
            .iter()
            .filter(|c| c.text)
            .map(|c| c.width)
            .max()
            .unwrap_or(0);
        if widest <= TEXT_WIDTH_MIN {
            return;
        }
        let next = columns
            .iter()
            .filter(|c| c.text && c.width < widest)
            .map(|c| c.width)
            .max()
            .unwrap_or(0);
        let sharing = columns
            .iter()
            .filter(|c| c.text && c.width == widest)
            .count();
        let to = widest
            .saturating_sub(over.div_ceil(sharing))
            .max(next)
            .max(TEXT_WIDTH_MIN);
        columns
            .iter_mut()
            .filter(|c| c.text && c.width == widest)
            .for_each(|c| c.width = to);
    }
}
