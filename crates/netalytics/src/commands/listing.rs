//! What the listing verbs share: choosing by name, and rows as JSON lines or CSV.

use std::sync::Arc;

use sinks::{Csv, Jsonl, ResultHead, Sink};
use tuple::{DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::failure::{Ended, wrong_flags};
use crate::flags::Format;
use crate::output;

/// Those of `all` that `names` asks for; all of them when it asks for none.
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
            wrong_flags(format!("there is no {kind} {wanted:?}; there are: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// Prints rows of text; an empty cell is null.
pub fn print_rows(columns: &[&'static str], rows: &[Vec<String>], format: Format) -> anyhow::Result<Ended> {
    let fields = columns.iter().map(|name| Field::new(name, DataType::Text, Unit::None, "")).collect();
    let schema = Arc::new(Schema {
        name: "list".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::Facts::NONE,
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
    let head =
        [ResultHead { columns: columns.iter().map(ToString::to_string).collect(), ..ResultHead::default() }];
    let mut sink: Box<dyn Sink + '_> = match format {
        Format::Csv => Box::new(Csv::new(&mut out, &head)),
        Format::Parquet => return Err(wrong_flags("lists are printed as table, jsonl or csv")),
        _ => Box::new(Jsonl::new(&mut out, &head)),
    };
    sink.write(0, &writer.finish())?;
    sink.finish()?;
    drop(sink);
    output::print(&out)
}

/// Lines of `heading  text`, the headings in one column, the text wrapped to the terminal.
pub fn definitions(out: &mut String, items: &[(String, String)]) {
    let width = items.iter().map(|(heading, _)| heading.chars().count()).max().unwrap_or(0);
    let room = output::terminal_size()
        .map_or(TEXT_COLUMNS, |(width, _)| width)
        .saturating_sub(width + 4)
        .max(TEXT_COLUMNS_MIN);
    for (heading, text) in items {
        let mut heading = heading.as_str();
        for line in wrap(text, room) {
            out.push_str("  ");
            sinks::table::pad(out, heading, width, false);
            out.push_str("  ");
            out.push_str(line.trim_end());
            out.push('\n');
            heading = "";
        }
    }
}

/// Where the width of the terminal is not known.
const TEXT_COLUMNS: usize = 110;
const TEXT_COLUMNS_MIN: usize = 24;

/// Cuts text at spaces into lines of at most `room` characters, longer words aside.
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
