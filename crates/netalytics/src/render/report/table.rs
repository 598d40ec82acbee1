//! The rows of a result as a table. Numbers are rounded; the exact value is in `<data value>`.

use tuple::{DataType, Field, FieldId, Unit};

use super::distribution::quantile;
use super::html::{cell, text};
use super::rows::{ReportResult, ReportRow, ReportRows};

/// Maximum rows of a table.
const ROWS_MAX: usize = 2000;
const BYTES_MAX: usize = 4 << 20;
/// Maximum size of an exact distribution; longer ones are shown as quantiles.
const EXACT_BYTES_MAX: usize = 4096;

/// The table, and a note on omitted rows.
#[must_use]
pub fn table(of: &ReportResult, kept: &ReportRows) -> String {
    let Some(schema) = of.schema() else {
        return "<p>No rows.</p>\n".into();
    };
    let columns: Vec<FieldId> = of
        .columns()
        .into_iter()
        .filter(|id| is_shown(of, *id))
        .collect();
    let is_number = |id: &FieldId| is_number(schema.field(*id));
    let head = |id: &FieldId| {
        let field = schema.field(*id);
        let class = if is_number(id) { " class=\"n\"" } else { "" };
        format!(
            "<th scope=\"col\" title=\"{}\"{class}>{}</th>",
            text(&field.doc),
            text(heading(field))
        )
    };
    let heads: String = columns.iter().map(head).collect();
    let mut body = String::new();
    let mut rows = 0;
    for line in of.lines().take(ROWS_MAX) {
        let cells: String = columns.iter().map(|id| one(of, kept, &line, *id)).collect();
        if body.len() + cells.len() > BYTES_MAX {
            break;
        }
        body.push_str(&format!("<tr>{cells}</tr>\n"));
        rows += 1;
    }
    let left = of.all - rows;
    let left = match left {
        0 => String::new(),
        1 => " One more row is not in this file.".into(),
        n => format!(" {n} more rows are not in this file."),
    };
    let rows = of.all;
    format!(
        "<div><table><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n\
         <p class=\"muted\">{rows} row{}.{left}</p>\n",
        if rows == 1 { "" } else { "s" }
    )
}

/// Whether a column has a value in any row and is not part of another column.
fn is_shown(of: &ReportResult, id: FieldId) -> bool {
    let Some(schema) = of.schema() else {
        return false;
    };
    let field = schema.field(id);
    field.data_type != DataType::Hashes
        && field.name != "window_end"
        && !of.is_end(id)
        && of
            .lines()
            .any(|line| line.exact(id).is_some_and(|value| value != "false"))
}

fn is_number(field: &Field) -> bool {
    matches!(
        field.data_type,
        DataType::U64 | DataType::I64 | DataType::F64
    ) && !matches!(field.unit, Unit::Id | Unit::EpochNanoseconds)
}

/// Name of a column without its unit, which the cells contain.
pub fn heading(field: &Field) -> &str {
    let name = field.name.as_ref();
    match field.unit {
        Unit::Nanoseconds => name.strip_suffix("_ns").unwrap_or(name),
        Unit::Bytes => name
            .strip_suffix("_bytes")
            .filter(|name| ["sum", "avg", "min", "max"].contains(name))
            .unwrap_or(name),
        _ => name,
    }
}

fn one(of: &ReportResult, kept: &ReportRows, line: &ReportRow<'_>, id: FieldId) -> String {
    let Some(shown) = line.shown(id, kept.names.as_ref()) else {
        return "<td>–</td>".into();
    };
    let Some(field) = of.schema().map(|schema| schema.field(id)) else {
        return String::new();
    };
    let exact = line.exact(id).unwrap_or_default();
    if field.data_type == DataType::Json {
        return distribution(field, line, id, &exact);
    }
    if !is_number(field) {
        return format!("<td>{}</td>", cell(&shown));
    }
    let interval = of
        .interval(id)
        .map(|ends| ends.map(|end| line.shown(end, None)));
    let interval = match interval {
        Some([Some(low), Some(high)]) => format!(" <i>[{} – {}]</i>", text(&low), text(&high)),
        Some([Some(low), None]) => format!(" <i>[{} – ?]</i>", text(&low)),
        _ => String::new(),
    };
    format!(
        "<td class=\"n\"><data value=\"{}\">{}</data>{interval}</td>",
        text(&exact),
        text(&shown)
    )
}

/// Quantiles of a distribution.
fn distribution(field: &Field, line: &ReportRow<'_>, id: FieldId, exact: &str) -> String {
    let buckets = line.buckets(id);
    let said = [0.5, 0.9, 0.99].iter().filter_map(|q| {
        let bound = quantile(&buckets, *q)?;
        Some(format!(
            "p{:.0} ≤ {}",
            q * 100.0,
            sinks::units::number(field.unit, bound)
        ))
    });
    let said = match said.collect::<Vec<_>>() {
        said if said.is_empty() => exact.to_owned(),
        said => said.join(", "),
    };
    match exact.len() {
        ..=EXACT_BYTES_MAX => format!(
            "<td><data value=\"{}\">{}</data></td>",
            text(exact),
            cell(&said)
        ),
        _ => format!("<td>{}</td>", cell(&said)),
    }
}
