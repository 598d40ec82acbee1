//! Schemas by name and version. Besides columns, a schema has functions and statics of a program, so a reader uses its
//! own schema and adds the family members named by the sender's query.

use std::sync::Arc;

use tuple::{FieldId, Schema};

use super::column_names::named;
use super::proto;
use super::refusal::{UnmetRequirement, UnmetRequirements, shortened};

/// Maximum parsers of a plan.
pub const INPUTS_MAX: usize = 64;

/// Encodes a schema.
pub fn sent(schema: &Schema) -> proto::SchemaProto {
    let members = schema
        .members()
        .map(|(id, ..)| schema.field(id).name.to_string());
    proto::SchemaProto {
        name: schema.name.to_string(),
        version: schema.version.into(),
        members: members.collect(),
    }
}

/// Encodes columns.
pub fn sent_columns(schema: &Schema, columns: &[FieldId]) -> Vec<String> {
    let fields = columns
        .iter()
        .filter_map(|id| schema.fields.get(usize::from(id.0)));
    fields.map(|field| field.name.to_string()).collect()
}

/// The schemas of the reader.
pub struct SchemaCatalog<'a> {
    schemas: &'a dyn Fn(&str) -> Option<Arc<Schema>>,
    /// Schemas already decoded: each occurs twice in a plan.
    known: Vec<(proto::SchemaProto, Arc<Schema>)>,
}

impl<'a> SchemaCatalog<'a> {
    /// Creates a registry; `schemas` returns schemas by name.
    pub fn new(schemas: &'a dyn Fn(&str) -> Option<Arc<Schema>>) -> SchemaCatalog<'a> {
        SchemaCatalog {
            schemas,
            known: Vec::new(),
        }
    }

    /// Decodes a schema to that of the reader.
    pub fn read(
        &mut self,
        sent: Option<&proto::SchemaProto>,
        lacks: &mut UnmetRequirements,
    ) -> Option<Arc<Schema>> {
        let Some(sent) = sent else {
            return lacks.malformed("a schema is missing");
        };
        if let Some((_, schema)) = self.known.iter().find(|(known, _)| known == sent) {
            return Some(schema.clone());
        }
        let Some(own) = (self.schemas)(&sent.name) else {
            lacks.add(UnmetRequirement::Parser(shortened(&sent.name)));
            return None;
        };
        let Ok(needed) = u16::try_from(sent.version) else {
            return lacks.malformed("an invalid schema version");
        };
        if needed != own.version {
            let parser = own.name.to_string();
            let known = own.version;
            lacks.add(UnmetRequirement::Version {
                parser,
                needed,
                known,
            });
            return None;
        }
        let schema = with_members(own, &sent.members, lacks);
        self.known.push((sent.clone(), schema.clone()));
        Some(schema)
    }
}

fn with_members(
    own: Arc<Schema>,
    members: &[String],
    lacks: &mut UnmetRequirements,
) -> Arc<Schema> {
    if members.is_empty() {
        return own;
    }
    let mut schema = Schema::clone(&own);
    for name in members {
        if schema.find(name).is_none() {
            schema.add_member(name);
        }
        named(&schema, name, lacks);
    }
    Arc::new(schema)
}

/// Decodes columns, in the order of the reader's schema.
pub fn read_columns(
    schema: &Schema,
    names: &[String],
    lacks: &mut UnmetRequirements,
) -> Option<Vec<FieldId>> {
    let found: Vec<Option<FieldId>> = names
        .iter()
        .map(|name| named(schema, name, lacks))
        .collect();
    let mut columns: Vec<FieldId> = found.into_iter().collect::<Option<_>>()?;
    columns.sort_unstable();
    columns.dedup();
    Some(columns)
}
