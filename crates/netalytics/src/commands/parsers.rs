//! `netalytics parsers`: every parser with its fields.

use std::sync::Arc;

use tuple::family::AGENT_DOC;
use tuple::{AGENT, ColumnFamily, DataType, Field, LABELS, Schema, Unit, common};

use super::listing;
use crate::cli::flags::{ListFlags, OutputFormat};
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Lists the requested parsers.
pub fn list(flags: &ListFlags) -> anyhow::Result<CommandOutcome> {
    let all = parsers::registry::schemas();
    let chosen = listing::choose("parser", &all, |s| s.name.as_ref(), &flags.names)?;
    match flags.format() {
        OutputFormat::Table => output::print(text(&chosen).as_bytes()),
        format => listing::print_rows(
            &["parser", "field", "type", "unit", "default", "doc"],
            &rows(&chosen),
            format,
        ),
    }
}

/// All parsers, as text.
pub fn everything() -> String {
    text(&parsers::registry::schemas().iter().collect::<Vec<_>>())
}

fn text(schemas: &[&Arc<Schema>]) -> String {
    let mut out = String::from("Every tuple begins with these fields:\n\n");
    listing::definitions(&mut out, &items(common::FIELDS, |_| ""));
    out.push_str("\nand has these if the query names them:\n\n");
    let agent = (format!("{AGENT}  text"), AGENT_DOC.to_owned());
    listing::definitions(&mut out, &[vec![agent], families(&[LABELS])].concat());
    for schema in schemas {
        out.push_str(&format!("\n{}: {}\n", schema.name, schema.doc));
        if let Some(defaults) = defaults(schema) {
            out.push_str(&format!("  ({defaults})\n"));
        }
        out.push('\n');
        listing::definitions(
            &mut out,
            &[
                items(&schema.fields[common::FIELDS.len()..], |f| {
                    default_of(schema, f)
                }),
                families(schema.facts.families),
            ]
            .concat(),
        );
    }
    out
}

/// Lines of fields: name, type, description.
fn items(fields: &[Field], default: impl Fn(&Field) -> &'static str) -> Vec<(String, String)> {
    let width = fields.iter().map(|f| f.name.len()).max().unwrap_or(0);
    let item = |field: &Field| {
        let default = match default(field) {
            "" => String::new(),
            default => format!(" [default {default}]"),
        };
        let heading = format!("{:width$}  {}", field.name, kind(field));
        (heading, format!("{}{default}", field.doc))
    };
    fields.iter().map(item).collect()
}

/// Families of columns created on use in a query.
fn families(families: &[ColumnFamily]) -> Vec<(String, String)> {
    let item = |family: &ColumnFamily| {
        (
            format!("{}.NAME  text", family.name),
            format!("{} NAME, for any name", family.doc),
        )
    };
    families.iter().map(item).collect()
}

/// Type and unit, for people.
fn kind(field: &Field) -> &'static str {
    match (field.unit, field.data_type) {
        (Unit::Nanoseconds, _) => "duration (ns)",
        (Unit::EpochNanoseconds, _) => "time (ns since 1970)",
        (Unit::Bytes, _) => "bytes",
        (Unit::PerSecond, _) => "per second",
        (Unit::BytesPerSecond, _) => "bytes per second",
        (Unit::Fraction, _) => "share of 1",
        (_, DataType::Hashes) => "hashes (16 hex digits each)",
        (Unit::Id, _) => "id (16 hex digits)",
        (Unit::None, DataType::Bool) => "true or false",
        (Unit::None, DataType::U64 | DataType::I64) => "integer",
        (Unit::None, DataType::F64) => "number",
        (Unit::None, DataType::Text) => "text",
        (Unit::None, DataType::Ip) => "IP address",
        (Unit::None, DataType::Json) => "JSON",
    }
}

fn defaults(schema: &Schema) -> Option<String> {
    let part = |what: &str, id: Option<tuple::FieldId>| {
        id.map(|id| format!("{what} {}", schema.field(id).name))
    };
    let parts: Vec<String> = [
        part("values are", schema.measure),
        part("groups by", schema.key),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| format!("default: {}", parts.join(", ")))
}

fn rows(schemas: &[&Arc<Schema>]) -> Vec<Vec<String>> {
    let of_schema = |schema: &&Arc<Schema>| {
        let row = |field: &Field| {
            let texts = [
                schema.name.as_ref(),
                field.name.as_ref(),
                type_name(field.data_type),
                unit_name(field.unit),
                default_of(schema, field),
                field.doc.as_ref(),
            ];
            texts.map(str::to_owned).to_vec()
        };
        schema.fields.iter().map(row).collect::<Vec<_>>()
    };
    schemas.iter().flat_map(of_schema).collect()
}

/// Default role of a field in processors.
fn default_of(schema: &Schema, field: &Field) -> &'static str {
    let is = |id: Option<tuple::FieldId>| id.is_some_and(|id| schema.field(id).name == field.name);
    match () {
        () if is(schema.measure) => "value",
        () if is(schema.key) => "key",
        () => "",
    }
}

fn type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Bool => "bool",
        DataType::U64 => "u64",
        DataType::I64 => "i64",
        DataType::F64 => "f64",
        DataType::Text => "text",
        DataType::Ip => "ip",
        DataType::Hashes => "hashes",
        DataType::Json => "json",
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::None => "",
        Unit::Nanoseconds => "ns",
        Unit::EpochNanoseconds => "epoch_ns",
        Unit::Bytes => "bytes",
        Unit::PerSecond => "per_second",
        Unit::BytesPerSecond => "bytes_per_second",
        Unit::Fraction => "fraction",
        Unit::Id => "id",
    }
}
