//! TypeScript types of the page (`web/src/api/schema.ts`), generated from the API description. `UPDATE=1` rewrites the
//! file.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value};

/// Types of all schemas of a description.
fn types(api: &Value) -> String {
    let mut text = String::from(
        "// Types of the API, generated from its description: `UPDATE=1 cargo test --workspace --test server page_types`.\n",
    );
    for (name, schema) in api["components"]["schemas"].as_object().expect("schemas") {
        let _ = write!(text, "\n{}", comment(schema, ""));
        let _ = match schema["properties"].as_object() {
            Some(fields) => writeln!(
                text,
                "export interface {name} {}",
                object(schema, fields, "")
            ),
            None => writeln!(text, "export type {name} = {};", type_of(schema, "")),
        };
    }
    text
}

/// Description of a schema as a doc comment.
fn comment(schema: &Value, indent: &str) -> String {
    let Some(text) = schema["description"].as_str() else {
        return String::new();
    };
    format!("{indent}/** {} */\n", text.replace('\n', " "))
}

fn object(schema: &Value, fields: &Map<String, Value>, indent: &str) -> String {
    let required = schema["required"].as_array();
    let mut text = String::from("{\n");
    let inner = format!("{indent}  ");
    for (name, field) in fields {
        let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
        let mark = if is_required { "" } else { "?" };
        let _ = writeln!(
            text,
            "{}{inner}{name}{mark}: {};",
            comment(field, &inner),
            type_of(field, &inner)
        );
    }
    text + indent + "}"
}

/// A schema as a type expression.
fn type_of(schema: &Value, indent: &str) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference
            .trim_start_matches("#/components/schemas/")
            .to_owned();
    }
    let joined = |parts: &Value, sign: &str| {
        let parts = parts
            .as_array()
            .expect("a list")
            .iter()
            .map(|part| type_of(part, indent));
        parts.collect::<Vec<_>>().join(sign)
    };
    if schema["oneOf"].is_array() {
        return joined(&schema["oneOf"], " | ");
    }
    if schema["allOf"].is_array() {
        return joined(&schema["allOf"], " & ");
    }
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" | ");
    }
    match &schema["type"] {
        Value::Array(types) => {
            let one = |name: &Value| {
                let mut schema = schema.clone();
                schema["type"] = name.clone();
                type_of(&schema, indent)
            };
            types.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Value::String(name) => match name.as_str() {
            "null" | "string" | "boolean" => name.clone(),
            "integer" | "number" => "number".to_owned(),
            "array" => list(schema, indent),
            "object" => match (
                schema["properties"].as_object(),
                &schema["additionalProperties"],
            ) {
                (Some(fields), _) => object(schema, fields, indent),
                (None, values) if values.is_object() => {
                    format!("Record<string, {}>", type_of(values, indent))
                }
                (None, _) => "Record<string, unknown>".to_owned(),
            },
            _ => panic!("unknown type: {schema}"),
        },
        _ => "unknown".to_owned(),
    }
}

/// A list, or a tuple of a fixed length.
fn list(schema: &Value, indent: &str) -> String {
    let item = type_of(&schema["items"], indent);
    match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
        (Some(n), Some(most)) if n == most => format!("[{}]", vec![item; n as usize].join(", ")),
        _ if item.contains([' ', '|']) => format!("({item})[]"),
        _ => format!("{item}[]"),
    }
}

#[test]
fn the_types_of_the_page_are_those_of_the_description() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/api/schema.ts");
    let api: Value = serde_json::from_str(&server::openapi()).expect("JSON");
    let types = types(&api);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &types).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, types, "UPDATE=1 writes web/src/api/schema.ts");
}
