//! Identification of columns in a message. Positions in schemas differ between versions, so input columns are
//! identified by name, computed columns by their index in the list of the same message. Group columns and aggregates
//! of a result are identified by their index in the pipeline; only the columns common to all results are identified
//! by name, because other names depend on all columns.

use std::sync::Arc;

use tuple::{FieldId, Schema};

use super::proto;
use super::refusal::{UnmetRequirement, UnmetRequirements, shortened};
use crate::dataflow::DataflowInput;
use crate::expr::Column;
use crate::result::ResultColumn;

/// Result columns identified by name.
const OWN: [(ResultColumn, &str); 6] = [
    (ResultColumn::WindowStart, "window_start"),
    (ResultColumn::WindowEnd, "window_end"),
    (ResultColumn::Rank, "rank"),
    (ResultColumn::Approximate, "approximate"),
    (ResultColumn::ErrorBound, "error_bound"),
    (ResultColumn::Lost, "lost"),
];

/// The scope of an expression's columns, for encoding.
#[derive(Clone, Copy)]
pub enum ColumnNames<'a> {
    /// The inputs of a dataflow.
    Inputs(&'a [DataflowInput]),
    /// The columns of a result.
    Result(&'a [ResultColumn]),
}

/// The scope of an expression's columns, for decoding.
#[derive(Clone, Copy)]
pub enum ColumnPlaces<'a> {
    /// Columns of inputs; `None`: a missing schema, which has been reported.
    Inputs(&'a [Option<Arc<Schema>>]),
    /// The columns of a result.
    Result(&'a [ResultColumn]),
}

impl ColumnNames<'_> {
    /// Encodes a column.
    pub fn sent(self, column: Column) -> proto::ColumnProto {
        let field = usize::from(column.field.0);
        let of = match (column.computed_place(), self) {
            (Some(place), _) => proto::ColumnKindProto::Computed(place as u32),
            (None, ColumnNames::Inputs(inputs)) => {
                let schema = inputs
                    .get(usize::from(column.input))
                    .map(|input| &input.schema);
                let name = schema
                    .and_then(|schema| schema.fields.get(field))
                    .map(|f| f.name.to_string());
                let input = u32::from(column.input);
                proto::ColumnKindProto::Input(proto::InputColumnProto {
                    input,
                    name: name.unwrap_or_default(),
                })
            }
            (None, ColumnNames::Result(shown)) => match shown.get(field) {
                Some(ResultColumn::Group(place)) => proto::ColumnKindProto::Group(*place as u32),
                Some(ResultColumn::Aggregate(place)) => {
                    proto::ColumnKindProto::Aggregate(*place as u32)
                }
                own => {
                    let name = OWN
                        .iter()
                        .find(|(known, _)| Some(known) == own)
                        .map(|(_, name)| *name);
                    proto::ColumnKindProto::Result(name.unwrap_or_default().to_owned())
                }
            },
        };
        proto::ColumnProto { of: Some(of) }
    }
}

impl ColumnPlaces<'_> {
    /// Decodes a column.
    pub fn read(
        self,
        column: Option<&proto::ColumnProto>,
        lacks: &mut UnmetRequirements,
    ) -> Option<Column> {
        let Some(of) = column.and_then(|column| column.of.as_ref()) else {
            return lacks.malformed("a column is missing or of an unknown kind");
        };
        match (of, self) {
            // The index is checked later for the plan as a whole.
            (proto::ColumnKindProto::Computed(place), _) => match u16::try_from(*place) {
                Ok(place) => Some(Column::computed(usize::from(place))),
                Err(_) => lacks.malformed("an unknown computed column"),
            },
            (proto::ColumnKindProto::Input(column), ColumnPlaces::Inputs(schemas)) => {
                let input = usize::try_from(column.input)
                    .ok()
                    .and_then(|input| schemas.get(input));
                let Some(schema) = input else {
                    return lacks.malformed(format!("unknown input {}", column.input));
                };
                let field = named(schema.as_deref()?, &column.name, lacks)?;
                Some(Column {
                    input: u16::try_from(column.input).ok()?,
                    field,
                })
            }
            (proto::ColumnKindProto::Group(place), ColumnPlaces::Result(shown)) => result(
                shown,
                usize::try_from(*place).map(ResultColumn::Group).ok(),
                lacks,
            ),
            (proto::ColumnKindProto::Aggregate(place), ColumnPlaces::Result(shown)) => result(
                shown,
                usize::try_from(*place).map(ResultColumn::Aggregate).ok(),
                lacks,
            ),
            (proto::ColumnKindProto::Result(name), ColumnPlaces::Result(shown)) => {
                match OWN.iter().find(|(_, known)| known == name) {
                    Some((own, _)) => result(shown, Some(*own), lacks),
                    None => lacks.word("column of results", name),
                }
            }
            _ => lacks.malformed("a column of an input is used for one of a result, or vice versa"),
        }
    }
}

/// The column of a schema; a missing one is recorded in `lacks`.
pub fn named(schema: &Schema, name: &str, lacks: &mut UnmetRequirements) -> Option<FieldId> {
    let found = schema.find(name);
    if found.is_none() {
        lacks.add(UnmetRequirement::Column {
            parser: schema.name.to_string(),
            column: shortened(name),
        });
    }
    found
}

fn result(
    shown: &[ResultColumn],
    wanted: Option<ResultColumn>,
    lacks: &mut UnmetRequirements,
) -> Option<Column> {
    let place = wanted.and_then(|wanted| shown.iter().position(|column| *column == wanted));
    match place.and_then(|place| u16::try_from(place).ok()) {
        Some(field) => Some(Column {
            input: 0,
            field: FieldId(field),
        }),
        None => lacks.malformed("an unknown column of a result"),
    }
}
