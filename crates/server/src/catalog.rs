//! What a query may be made of: parsers with their fields, blocks of processors, functions. The same for all who ask, for
//! as long as the program runs.

use query::blocks::{ARGS, BLOCKS};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tuple::Schema;
use utoipa::ToSchema;

use crate::columns::ColumnHead;

/// All there is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Catalog {
    /// The program's version.
    pub version: String,
    /// The parsers.
    pub parsers: Vec<Parser>,
    /// The blocks that processors are made of.
    pub blocks: Vec<Named>,
    /// Their arguments.
    pub arguments: Vec<Argument>,
    /// Functions of values.
    pub functions: Vec<Named>,
}

/// A parser.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Parser {
    /// Its name.
    pub name: String,
    /// One line for people.
    pub doc: String,
    /// Grows when a field changes meaning.
    pub version: u16,
    /// The fields of its tuples.
    pub fields: Vec<ColumnHead>,
    /// Fields that there are where a query names them: `family.NAME`.
    pub families: Vec<Named>,
    /// What aggregates aggregate unless told otherwise.
    pub value: Option<String>,
    /// What is grouped by unless told otherwise.
    pub key: Option<String>,
}

/// Something with a name and a line for people.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Named {
    /// Its name, or how it is written.
    pub name: String,
    /// What it means.
    pub doc: String,
}

/// An argument.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// What it is unless said.
    pub default: String,
}

fn named(name: &str, doc: &str) -> Named {
    Named { name: name.to_owned(), doc: doc.to_owned() }
}

impl Catalog {
    /// Of these parsers.
    pub fn of<'s>(schemas: impl IntoIterator<Item = &'s Schema>) -> Catalog {
        let name_of =
            |schema: &Schema, id: Option<tuple::FieldId>| id.map(|id| schema.field(id).name.to_string());
        let parser = |schema: &Schema| Parser {
            name: schema.name.to_string(),
            doc: schema.doc.to_string(),
            version: schema.version,
            fields: schema.fields.iter().map(ColumnHead::of).collect(),
            families: schema.families().map(|family| named(family.name, family.doc)).collect(),
            value: name_of(schema, schema.measure),
            key: name_of(schema, schema.key),
        };
        let argument = |arg: &query::blocks::ArgDoc| Argument {
            name: arg.name.to_owned(),
            doc: arg.doc.to_owned(),
            default: arg.default.to_owned(),
        };
        Catalog {
            version: env!("CARGO_PKG_VERSION").into(),
            parsers: schemas.into_iter().map(parser).collect(),
            blocks: BLOCKS.iter().map(|block| named(block.name, block.doc)).collect(),
            arguments: ARGS.iter().map(argument).collect(),
            functions: query::FUNCTIONS.iter().map(|f| named(f.usage, f.doc)).collect(),
        }
    }
}

/// The catalog, which does not change while we run.
pub struct CatalogText {
    /// As JSON.
    pub json: Vec<u8>,
    /// Entity tag of the text.
    pub etag: String,
}

impl CatalogText {
    /// The catalog of these parsers.
    pub fn of<'s>(schemas: impl IntoIterator<Item = &'s Schema>) -> CatalogText {
        let catalog = Catalog::of(schemas);
        let json = serde_json::to_vec(&catalog).unwrap_or_default();
        let hash = Sha256::digest(&json);
        let etag: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        CatalogText { json, etag: format!("\"{etag}\"") }
    }
}
