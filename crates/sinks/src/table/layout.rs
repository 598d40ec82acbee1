//! Which columns of a table are shown, and how wide: sized to the first rows, cut to the terminal.

use tuple::{DataType, Field, FieldId, Schema, Unit, common};
use unicode_width::UnicodeWidthStr;

/// Columns between two columns.
pub const BETWEEN: usize = 2;
/// Text is not cut below this to make room.
const TEXT_WIDTH_MIN: usize = 12;
/// Text is cut to this even where the width is not known.
const TEXT_WIDTH_MAX: usize = 240;

/// Common fields that a person misses least, in the order in which they go when a terminal is narrow.
const DISPENSABLE: [&str; 6] = ["community_id", "id", "client_guessed", "ts_end", "transport", "client_port"];

/// One column as shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Which.
    pub field: FieldId,
    /// Its heading.
    pub heading: String,
    /// Its width on the screen.
    pub width: usize,
    /// Width to which text is cut.
    cut_to: usize,
    /// Numbers stand right.
    pub right: bool,
    /// Whether it may be cut.
    text: bool,
    /// No row has a value.
    empty: bool,
}

impl Column {
    /// A column of `field`, as wide as its widest cell.
    #[must_use]
    pub fn sized(schema: &Schema, field: FieldId, cells: &[Option<String>]) -> Column {
        let declared = schema.field(field);
        let heading = heading(declared);
        let widest = cells.iter().flatten().map(|c| c.width()).max().unwrap_or(0);
        let text = matches!(declared.data_type, DataType::Text | DataType::Ip);
        let width = widest.max(heading.width());
        Column {
            field,
            heading,
            width: if text { width.min(TEXT_WIDTH_MAX) } else { width },
            cut_to: TEXT_WIDTH_MAX,
            right: is_number(declared),
            text,
            empty: cells.iter().all(Option::is_none),
        }
    }

    /// The same under another heading.
    #[must_use]
    pub fn headed(self, heading: &str) -> Column {
        let heading = super::text::escape(heading);
        Column { width: self.width.max(heading.width()), heading, ..self }
    }

    /// A cell's text, cut to what there is room for when it is text: half a number would be a wrong number.
    #[must_use]
    pub fn shorten(&self, cell: &str) -> String {
        if self.text { super::text::cut(cell, self.cut_to) } else { cell.to_owned() }
    }
}

/// The columns fitted to `width`, if one is given: text is cut; of `tuples` (not of a processor's result) columns
/// are left out as well. Returns what is shown and what is left out.
#[must_use]
pub fn fit(
    columns: Vec<Column>,
    width: Option<usize>,
    tuples: Option<&Schema>,
) -> (Vec<Column>, Vec<String>) {
    let (mut columns, mut left_out) = (columns, Vec::new());
    let Some(width) = width else { return (columns, left_out) };
    if let Some(schema) = tuples {
        while columns.len() > 1 && least_width(&columns) > width {
            let gone = columns.remove(most_dispensable(&columns, schema));
            left_out.push(gone.heading);
        }
    }
    cut_text(&mut columns, width);
    columns.iter_mut().for_each(|c| c.cut_to = c.width);
    (columns, left_out)
}

/// The name without `_ns`: the cells carry their unit.
#[must_use]
pub fn heading(field: &Field) -> String {
    let name = match field.unit {
        Unit::Nanoseconds => field.name.strip_suffix("_ns").unwrap_or(&field.name),
        _ => &field.name,
    };
    super::text::escape(name)
}

fn is_number(field: &Field) -> bool {
    matches!(field.data_type, DataType::U64 | DataType::I64 | DataType::F64)
        && !matches!(field.unit, Unit::Id | Unit::EpochNanoseconds)
}

fn least_width(columns: &[Column]) -> usize {
    let least = |c: &Column| if c.text { c.width.min(TEXT_WIDTH_MIN) } else { c.width };
    columns.iter().map(least).sum::<usize>() + BETWEEN * columns.len().saturating_sub(1)
}

/// Which column goes first: an empty one, one of [`DISPENSABLE`], else the last that is neither key nor measure.
fn most_dispensable(columns: &[Column], schema: &Schema) -> usize {
    let last = |wanted: &dyn Fn(&Column) -> bool| columns.iter().rposition(wanted);
    let dispensable = || DISPENSABLE.iter().find_map(|name| columns.iter().position(|c| c.heading == *name));
    let matters = |c: &Column| {
        let is_common = common::FIELDS.iter().any(|f| f.name == c.heading);
        is_common || Some(c.field) == schema.key || Some(c.field) == schema.measure
    };
    let own = |c: &Column| !matters(c);
    last(&|c| c.empty).or_else(dispensable).or_else(|| last(&own)).unwrap_or(columns.len() - 1)
}

/// Lowers the widest text columns, all to the same width, until the table fits or they are at their least.
fn cut_text(columns: &mut [Column], width: usize) {
    let total = |columns: &[Column]| {
        columns.iter().map(|c| c.width).sum::<usize>() + BETWEEN * columns.len().saturating_sub(1)
    };
    while total(columns) > width {
        let over = total(columns) - width;
        let widest = columns.iter().filter(|c| c.text).map(|c| c.width).max().unwrap_or(0);
        if widest <= TEXT_WIDTH_MIN {
            return;
        }
        let next = columns.iter().filter(|c| c.text && c.width < widest).map(|c| c.width).max().unwrap_or(0);
        let sharing = columns.iter().filter(|c| c.text && c.width == widest).count();
        let to = widest.saturating_sub(over.div_ceil(sharing)).max(next).max(TEXT_WIDTH_MIN);
        columns.iter_mut().filter(|c| c.text && c.width == widest).for_each(|c| c.width = to);
    }
}
