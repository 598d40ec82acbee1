//! Elements of the query language: parsers with their fields, blocks of processors, arguments, functions. Constant
//! while the program runs.

use query::blocks::{ARGS, BLOCKS};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tuple::Schema;
use utoipa::ToSchema;

use crate::job::columns::ColumnHead;

/// All elements.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Catalog {
    /// Version of the program.
    pub version: String,
    /// Parsers.
    pub parsers: Vec<ParserEntry>,
    /// Blocks from which processors are composed.
    pub blocks: Vec<CatalogEntry>,
    /// Arguments of blocks.
    pub arguments: Vec<BlockArgument>,
    /// Scalar functions.
    pub functions: Vec<CatalogEntry>,
}

/// A parser.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Parser)]
pub struct ParserEntry {
    /// Name.
    pub name: String,
    /// Description, one line.
    pub doc: String,
    /// Incremented when a field changes its meaning.
    pub version: u16,
    /// Fields of its tuples.
    pub fields: Vec<ColumnHead>,
    /// Fields created on use in a query: `family.NAME`.
    pub families: Vec<CatalogEntry>,
    /// Field aggregated by default.
    pub value: Option<String>,
    /// Field grouped by default.
    pub key: Option<String>,
}

/// A name with a description.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Named)]
pub struct CatalogEntry {
    /// Name or syntax.
    pub name: String,
    /// Description.
    pub doc: String,
}

/// An argument.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Argument)]
pub struct BlockArgument {
    /// Name.
    pub name: String,
    /// Description.
    pub doc: String,
    /// Default value.
    pub default: String,
}

fn named(name: &str, doc: &str) -> CatalogEntry {
    CatalogEntry {
        name: name.to_owned(),
        doc: doc.to_owned(),
    }
}

impl Catalog {
    /// The catalog of these parsers.
    pub fn of<'s>(schemas: impl IntoIterator<Item = &'s Schema>) -> Catalog {
        let name_of = |schema: &Schema, id: Option<tuple::FieldId>| {
            id.map(|id| schema.field(id).name.to_string())
        };
        let parser = |schema: &Schema| ParserEntry {
            name: schema.name.to_string(),
            doc: schema.doc.to_string(),
            version: schema.version,
            fields: schema.fields.iter().map(ColumnHead::of).collect(),
            families: schema
                .families()
                .map(|family| named(family.name, family.doc))
                .collect(),
            value: name_of(schema, schema.measure),
            key: name_of(schema, schema.key),
        };
        let argument = |arg: &query::blocks::ArgDoc| BlockArgument {
            name: arg.name.to_owned(),
            doc: arg.doc.to_owned(),
            default: arg.default.to_owned(),
        };
        Catalog {
            version: env!("CARGO_PKG_VERSION").into(),
            parsers: schemas.into_iter().map(parser).collect(),
            blocks: BLOCKS
                .iter()
                .map(|block| named(block.name, block.doc))
                .collect(),
            arguments: ARGS.iter().map(argument).collect(),
            functions: query::FUNCTIONS
                .iter()
                .map(|f| named(f.usage, f.doc))
                .collect(),
        }
    }
}

/// The serialized catalog.
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
        let etag: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        CatalogText {
            json,
            etag: format!("\"{etag}\""),
        }
    }
}
