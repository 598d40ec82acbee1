//! Tables of the Kafka parser, from the message definitions that Kafka's clients contain as resources (`common/message/*.json`): for
//! each API its name, versions, and the fields up to the last one that the parser reads.
//!
//! Newer clients define fewer old versions: of several folders, the first one that defines a version is used for it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// An open end of a range of versions.
const LATEST: i64 = 127;

/// An inclusive range of versions; empty if its first is above its last.
type VersionRange = (i64, i64);

/// The definition of a request or a response in one folder.
struct MessageDefinition {
    name: String,
    versions: VersionRange,
    /// First version with compact lengths and tagged fields.
    flexible_from: i64,
    fields: Vec<FieldDefinition>,
}

#[derive(Clone, PartialEq)]
struct FieldDefinition {
    kind: FieldKind,
    slot: &'static str,
    versions: VersionRange,
}

#[derive(Clone, PartialEq)]
enum FieldKind {
    Fixed(usize),
    Text,
    Bytes,
    Records,
    Array(Vec<FieldDefinition>),
    Struct(Vec<FieldDefinition>),
    Nullable(Vec<FieldDefinition>),
}

/// The text of the generated file.
pub fn generate(folders: &[&Path]) -> Result<String> {
    let mut definitions = BTreeMap::<(i64, bool), Vec<MessageDefinition>>::new();
    for folder in folders {
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = fs::read_to_string(&path)?;
                let found = read(&text).with_context(|| path.display().to_string())?;
                if let Some((key, definition)) = found {
                    add(definitions.entry(key).or_default(), definition);
                }
            }
        }
    }
    ensure!(!definitions.is_empty(), "no message definitions");
    Ok(write(&definitions))
}

/// Adds a definition for the versions that earlier folders lack.
fn add(known: &mut Vec<MessageDefinition>, mut definition: MessageDefinition) {
    for earlier in known.iter() {
        let overlaps = definition.versions.1 >= earlier.versions.0;
        if overlaps && definition.versions.0 >= earlier.versions.0 {
            return;
        } else if overlaps {
            definition.versions.1 = earlier.versions.0 - 1;
        }
    }
    if definition.versions.0 <= definition.versions.1 {
        restrict(&mut definition.fields, definition.versions);
        known.push(definition);
    }
}

/// Reads a file; `None`: it defines no request or response of an API.
fn read(text: &str) -> Result<Option<((i64, bool), MessageDefinition)>> {
    let json: Value = serde_json::from_str(&without_comments(text))?;
    let kind = json["type"].as_str().unwrap_or_default();
    let Some(key) = json["apiKey"].as_i64().filter(|_| kind != "data") else {
        return Ok(None);
    };
    let versions = range(json["validVersions"].as_str().unwrap_or("none"))?;
    let is_request = kind == "request";
    let name = json["name"].as_str().context("no name")?;
    let flexible = range(json["flexibleVersions"].as_str().unwrap_or("none"))?;
    if versions.0 > versions.1 {
        return Ok(None);
    }
    let context = MessageContext {
        name,
        is_request,
        structs: &json["commonStructs"],
    };
    let mut fields = context.fields(&json["fields"], false)?;
    restrict(&mut fields, versions);
    let name = name
        .trim_end_matches("Request")
        .trim_end_matches("Response");
    let definition = MessageDefinition {
        name: name.to_owned(),
        versions,
        flexible_from: if flexible.0 > flexible.1 {
            LATEST
        } else {
            flexible.0
        },
        fields,
    };
    Ok(Some(((key, is_request), definition)))
}

/// `text` without comments from `//` to the end of a line.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let mut in_string = false;
        let mut end = line.len();
        for (at, byte) in line.bytes().enumerate() {
            if byte == b'"' {
                in_string = !in_string;
            } else if !in_string && line[at..].starts_with("//") {
                end = at;
                break;
            }
        }
        kept.push_str(&line[..end]);
        kept.push('\n');
    }
    kept
}

/// Reads `none`, `3`, `3+`, or `3-5`.
fn range(text: &str) -> Result<VersionRange> {
    if text == "none" {
        return Ok((1, 0));
    }
    if let Some(first) = text.strip_suffix('+') {
        return Ok((first.parse()?, LATEST));
    }
    let ends = text.split_once('-').unwrap_or((text, text));
    Ok((ends.0.parse()?, ends.1.parse()?))
}

/// What decides on the fields of a message.
struct MessageContext<'a> {
    name: &'a str,
    is_request: bool,
    structs: &'a Value,
}

impl MessageContext<'_> {
    fn fields(&self, json: &Value, is_forgotten: bool) -> Result<Vec<FieldDefinition>> {
        let mut fields = Vec::new();
        for field in json.as_array().into_iter().flatten() {
            // Tagged fields are skipped by their lengths.
            if field.get("tag").is_none() {
                fields.push(self.field(field, is_forgotten)?);
            }
        }
        Ok(fields)
    }

    fn field(&self, json: &Value, is_forgotten: bool) -> Result<FieldDefinition> {
        let text = |name: &str| json[name].as_str().unwrap_or_default();
        let kind = text("type");
        let versions = range(text("versions"))?;
        let slot = self.slot(text("name"), kind, text("entityType"), is_forgotten);
        let is_forgotten = is_forgotten || text("name") == "ForgottenTopicsData";
        let inside = |name: &str| self.inside(json, name, is_forgotten);
        let kind = match (kind, kind.strip_prefix("[]")) {
            (_, Some(of)) => FieldKind::Array(match simple(of) {
                Some(kind) => vec![FieldDefinition {
                    kind,
                    slot,
                    versions: (0, LATEST),
                }],
                None => {
                    let mut fields = inside(of)?;
                    fields.push(tags());
                    fields
                }
            }),
            (kind, None) => match simple(kind) {
                Some(kind) => kind,
                None => {
                    let mut fields = inside(kind)?;
                    fields.push(tags());
                    match json.get("nullableVersions") {
                        Some(_) => FieldKind::Nullable(fields),
                        None => FieldKind::Struct(fields),
                    }
                }
            },
        };
        let is_simple = !matches!(kind, FieldKind::Array(_));
        Ok(FieldDefinition {
            kind,
            slot: if is_simple { slot } else { "" },
            versions,
        })
    }

    /// Fields of a structure, defined in place or for the whole message.
    fn inside(&self, json: &Value, name: &str, is_forgotten: bool) -> Result<Vec<FieldDefinition>> {
        if json.get("fields").is_some() {
            return self.fields(&json["fields"], is_forgotten);
        }
        let mut structs = self.structs.as_array().into_iter().flatten();
        let Some(of) = structs.find(|of| of["name"] == name) else {
            bail!("no structure {name}");
        };
        self.fields(&of["fields"], is_forgotten)
    }

    /// What the parser does with a field; empty: nothing.
    fn slot(&self, name: &str, kind: &str, entity: &str, is_forgotten: bool) -> &'static str {
        let of = kind.trim_start_matches("[]");
        let is_fetch = matches!(
            self.name,
            "FetchRequest" | "FetchResponse" | "ShareFetchRequest" | "ShareFetchResponse"
        );
        let is_produce = matches!(self.name, "ProduceRequest" | "ProduceResponse");
        let has_topics = is_fetch
            || is_produce
            || self.is_request
            || matches!(
                self.name,
                "MetadataResponse" | "CreateTopicsResponse" | "DescribeTopicPartitionsResponse"
            );
        let has_partitions = is_fetch
            || is_produce
            || self.is_request
                && !matches!(self.name, "CreateTopicsRequest" | "CreatePartitionsRequest");
        match (name, of) {
            (_, "string") if entity == "topicName" && is_forgotten => "ForgottenTopic",
            (_, "string") if entity == "topicName" && has_topics => "Topic",
            ("TopicId" | "TopicIds", "uuid") if is_forgotten => "ForgottenTopicId",
            ("TopicId" | "TopicIds", "uuid") if has_topics => "TopicId",
            ("Partitions", "int32") if is_forgotten => "ForgottenPartition",
            (
                "Partition" | "PartitionIndex" | "Index" | "Partitions" | "PartitionIndexes",
                "int32",
            ) if has_partitions => "Partition",
            (_, "string") if entity == "groupId" && self.is_request => "Group",
            (_, "string") if entity == "transactionalId" && self.is_request => "Transaction",
            ("Key" | "CoordinatorKeys", "string") if self.name == "FindCoordinatorRequest" => "Key",
            ("KeyType", "int8") => "KeyType",
            ("Acks", "int16") if is_produce => "Acks",
            ("MaxWaitMs", "int32") => "MaxWait",
            ("MinBytes", "int32") => "MinBytes",
            ("SessionId", "int32") if is_fetch => "SessionId",
            ("SessionEpoch", "int32") if is_fetch => "SessionEpoch",
            ("FetchOffset", "int64") if is_fetch => "FetchOffset",
            ("Records", "records") if is_fetch || is_produce => "Records",
            ("ThrottleTimeMs", "int32") => "Throttle",
            ("BaseOffset", "int64") if is_produce => "BaseOffset",
            ("HighWatermark", "int64") if is_fetch => "HighWatermark",
            (name, "int16") if name.ends_with("ErrorCode") && !self.is_request => "Error",
            _ => "",
        }
    }
}

fn simple(kind: &str) -> Option<FieldKind> {
    Some(match kind {
        "bool" | "int8" => FieldKind::Fixed(1),
        "int16" | "uint16" => FieldKind::Fixed(2),
        "int32" | "uint32" => FieldKind::Fixed(4),
        "int64" | "float64" => FieldKind::Fixed(8),
        "uuid" => FieldKind::Fixed(16),
        "string" => FieldKind::Text,
        "bytes" => FieldKind::Bytes,
        "records" => FieldKind::Records,
        _ => return None,
    })
}

/// Stands for the tagged fields at the end of a structure.
fn tags() -> FieldDefinition {
    FieldDefinition {
        kind: FieldKind::Fixed(0),
        slot: "Tags",
        versions: (0, LATEST),
    }
}

/// Removes fields that no version in `versions` has, and states only ends of ranges within it.
fn restrict(fields: &mut Vec<FieldDefinition>, versions: VersionRange) {
    for field in fields.iter_mut() {
        if field.versions.0 <= versions.0 {
            field.versions.0 = 0;
        }
        if field.versions.1 >= versions.1 {
            field.versions.1 = LATEST;
        }
        if let FieldKind::Array(inside) | FieldKind::Struct(inside) | FieldKind::Nullable(inside) =
            &mut field.kind
        {
            restrict(inside, versions);
        }
    }
    fields.retain(|field| field.versions.0 <= versions.1 && field.versions.1 >= versions.0);
}

/// Whether the parser reads something of a field.
fn is_read(field: &FieldDefinition) -> bool {
    match &field.kind {
        FieldKind::Array(inside) | FieldKind::Struct(inside) | FieldKind::Nullable(inside) => {
            inside.iter().any(is_read)
        }
        _ => !matches!(field.slot, "" | "Tags"),
    }
}

fn write(definitions: &BTreeMap<(i64, bool), Vec<MessageDefinition>>) -> String {
    let mut text = String::from(
        "//! Generated by `cargo run -p xtask kafka-tables`, from the message definitions of Apache Kafka (Apache License 2.0): not to be
//! edited. Fields up to the last one that is read; `walk` defines the notation.

use super::walk::{Api, FieldSlot::*, array, bytes, fixed, inside, nullable, records, tags, text};

/// Every API, by its key; of several entries for a key, versions differ.
pub static APIS: &[Api] = &[
",
    );
    for ((key, is_request), requests) in definitions {
        if !is_request {
            continue;
        }
        let responses = definitions
            .get(&(*key, false))
            .map_or(&[][..], Vec::as_slice);
        for request in requests {
            let (first, last) = request.versions;
            let (name, flexible) = (&request.name, request.flexible_from);
            let response = responses
                .iter()
                .find(|response| response.versions.0 <= first && last <= response.versions.1);
            let mut fields = response.map_or(Vec::new(), |response| response.fields.clone());
            restrict(&mut fields, request.versions);
            let _ = writeln!(
                text,
                "    Api {{ key: {key}, name: \"{name}\", versions: ({first}, {last}), flexible_from: {flexible},\n        request: &{},\n        response: &{} }},",
                layout(&request.fields),
                layout(&fields)
            );
        }
    }
    text.push_str("];\n");
    text
}

/// Fields up to the last one that is read, with neighbors that are only skipped joined.
fn layout(fields: &[FieldDefinition]) -> String {
    let read = fields.iter().rposition(is_read).map_or(0, |last| last + 1);
    list(&fields[..read])
}

fn list(fields: &[FieldDefinition]) -> String {
    let mut joined: Vec<FieldDefinition> = Vec::new();
    for field in fields {
        match (joined.last_mut(), &field.kind) {
            (
                Some(FieldDefinition {
                    kind: FieldKind::Fixed(before),
                    slot: "",
                    versions,
                }),
                FieldKind::Fixed(more),
            ) if field.slot.is_empty() && *versions == field.versions => *before += more,
            _ => joined.push(field.clone()),
        }
    }
    let texts: Vec<String> = joined.iter().map(field_text).collect();
    format!("[{}]", texts.join(", "))
}

fn field_text(field: &FieldDefinition) -> String {
    let slot = if field.slot.is_empty() {
        "Skip"
    } else {
        field.slot
    };
    let kind = match &field.kind {
        FieldKind::Fixed(_) if slot == "Tags" => "tags()".to_owned(),
        FieldKind::Fixed(length) => format!("fixed({length}, {slot})"),
        FieldKind::Text => format!("text({slot})"),
        FieldKind::Bytes => "bytes()".to_owned(),
        FieldKind::Records => "records()".to_owned(),
        FieldKind::Array(inside) => format!("array(&{})", list(inside)),
        FieldKind::Struct(fields) => format!("inside(&{})", list(fields)),
        FieldKind::Nullable(fields) => format!("nullable(&{})", list(fields)),
    };
    match field.versions {
        (0, LATEST) => kind,
        (first, LATEST) => format!("{kind}.since({first})"),
        (0, last) => format!("{kind}.until({last})"),
        (first, last) => format!("{kind}.since({first}).until({last})"),
    }
}
