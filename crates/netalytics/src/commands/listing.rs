//! Shared by listing verbs: selection by name, and rows as a table, JSON lines or CSV.

use std::sync::Arc;

use serde_json::Value;
use sinks::table::{escape, pad};
use sinks::{CsvSink, JsonlSink, ResultHead, Sink};
use tuple::{DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::cli::flags::OutputFormat;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;

/// Columns of a job.
pub(super) const JOB_COLUMNS: [&str; 6] = ["id", "state", "name", "owner", "query", "reason"];

/// Entries of `all` selected by `names`; all if `names` is empty.
pub fn choose<'a, T>(
    kind: &str,
    all: &'a [T],
    name: impl Fn(&T) -> &str,
    names: &[String],
) -> anyhow::Result<Vec<&'a T>> {
    if names.is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |wanted: &String| {
        all.iter().find(|t| name(t) == wanted).ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(&name).collect();
            wrong_flags(format!(
                "unknown {kind} {wanted:?}; known: {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(find).collect()
}

/// Prints API objects, one row each: selected columns for people, all fields as JSON lines.
pub fn print_things(
    columns: &[&'static str],
    things: &[Value],
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    match format {
        OutputFormat::Table => output::print(listed(columns, things).as_bytes()),
        OutputFormat::Jsonl => {
            let lines: String = things.iter().map(|thing| format!("{thing}\n")).collect();
            output::print(lines.as_bytes())
        }
        format => print_rows(columns, &cells(columns, things), format),
    }
}

/// A table of some things, for people.
pub fn listed(columns: &[&str], things: &[Value]) -> String {
    table(columns, &cells(columns, things))
}

fn cells(columns: &[&str], things: &[Value]) -> Vec<Vec<String>> {
    let row = |thing: &Value| columns.iter().map(|name| text(&thing[*name])).collect();
    things.iter().map(row).collect()
}

/// Formats a value for a cell.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Object(all) => all
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value)))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    }
}

/// A table with aligned columns.
pub fn table(names: &[&str], rows: &[Vec<String>]) -> String {
    let head = (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect());
    let lines: Vec<Vec<String>> = head
        .into_iter()
        .chain(
            rows.iter()
                .map(|row| row.iter().map(|cell| escape(cell)).collect()),
        )
        .collect();
    let width = |at: usize| {
        lines
            .iter()
            .filter_map(|l| l.get(at))
            .map(|c| c.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            pad(&mut text, cell, *width, false);
            text.push_str("  ");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// Adds formatted times to those in nanoseconds.
pub fn with_times(mut things: Vec<Value>, names: &[(&str, &str)]) -> Vec<Value> {
    for thing in &mut things {
        for (ns, words) in names {
            if let Some(ns) = thing[*ns]
                .as_str()
                .and_then(|text| text.parse::<i64>().ok())
            {
                thing[*words] = identity::time_in_words(ns.div_euclid(1_000_000_000)).into();
            }
        }
    }
    things
}

/// Prints rows of text; an empty cell is null.
pub fn print_rows(
    columns: &[&'static str],
    rows: &[Vec<String>],
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    let fields = columns
        .iter()
        .map(|name| Field::new(name, DataType::Text, Unit::None, ""))
        .collect();
    let schema = Arc::new(Schema {
        name: "list".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    });
    let ids: Vec<FieldId> = schema.ids().collect();
    let mut writer = TupleWriter::new(schema, &ids);
    for row in rows {
        for (id, cell) in ids.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            writer.text(*id, cell.as_bytes());
        }
        writer.end_row();
    }
    let mut out = Vec::new();
    let head = [ResultHead {
        columns: columns.iter().map(ToString::to_string).collect(),
        ..ResultHead::default()
    }];
    let mut sink: Box<dyn Sink + '_> = match format {
        OutputFormat::Csv => Box::new(CsvSink::new(&mut out, &head)),
        OutputFormat::Parquet => {
            return Err(wrong_flags("the formats of lists are table, jsonl and csv"));
        }
        _ => Box::new(JsonlSink::new(&mut out, &head)),
    };
    sink.write(0, &writer.finish())?;
    sink.finish()?;
    drop(sink);
    output::print(&out)
}

/// Lines of `heading  text`, the headings in one column, the text wrapped to the terminal.
pub fn definitions(out: &mut String, items: &[(String, String)]) {
    let width = items
        .iter()
        .map(|(heading, _)| heading.chars().count())
        .max()
        .unwrap_or(0);
    let room = output::terminal_size()
        .map_or(TEXT_COLUMNS, |(width, _)| width)
        .saturating_sub(width + 4)
        .max(TEXT_COLUMNS_MIN);
    for (heading, text) in items {
        let mut heading = heading.as_str();
        for line in wrap(text, room) {
            out.push_str("  ");
            pad(out, heading, width, false);
            out.push_str("  ");
            out.push_str(line.trim_end());
            out.push('\n');
            heading = "";
        }
    }
}

/// Default width if the terminal's is unknown.
const TEXT_COLUMNS: usize = 110;
const TEXT_COLUMNS_MIN: usize = 24;

/// Wraps text at spaces to lines of at most `room` characters; longer words are not split.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_stand_below_each_other_and_act_on_no_terminal() {
        let rows = [
            vec!["1".to_owned(), "a\u{1b}[31m".to_owned()],
            vec!["10".to_owned(), String::new()],
        ];
        assert_eq!(
            table(&["id", "name"], &rows),
            "id  name\n1   a\\x1b[31m\n10\n"
        );
    }

    #[test]
    fn values_are_one_cell() {
        for (value, cell) in [
            (json!(null), ""),
            (json!(["a", 1]), "a 1"),
            (json!({ "role": "web", "rack": 2 }), "role=web rack=2"),
        ] {
            assert_eq!(text(&value), cell);
        }
    }
}
