//! Tests the API description: a client sends random requests and must receive only described responses, without server
//! errors.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Version of the client, from PyPI.
const CLIENT: &str = "schemathesis==4.32.5";

#[test]
fn the_description_has_every_path_and_no_loose_end() {
    let text = server::openapi();
    let api: Value = serde_json::from_str(&text).expect("JSON");
    assert!(
        api["openapi"]
            .as_str()
            .is_some_and(|version| version.starts_with("3.1"))
    );
    let schemas = api["components"]["schemas"].as_object().expect("schemas");
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().expect("a name");
        assert!(schemas.contains_key(name), "{name} is not described");
    }
    let server = Server::start(TestFleet::new(Way::Note));
    assert_eq!(
        server
            .ask_with("GET", "/api/v1/openapi.json", &[], None)
            .of(200)
            .json(),
        api
    );
    // Every described path exists.
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for method in methods
            .as_object()
            .expect("methods")
            .keys()
            .filter(|method| *method != "parameters")
        {
            for statuses in ["4XX", "5XX"] {
                let described = &methods[method]["responses"][statuses]["content"]["application/json"]
                    ["schema"];
                assert_eq!(
                    described["$ref"], "#/components/schemas/Failure",
                    "{method} {path}: {statuses}"
                );
            }
            let path = path.replace("{id}", "1");
            let answer = server.ask_with(&method.to_uppercase(), &path, &[], None);
            assert!(
                ![404, 405].contains(&answer.status),
                "{method} {path}: {}",
                answer.text()
            );
        }
    }
}

/// Validates a value against a schema of the description; returns the first difference.
pub fn difference(value: &Value, schema: &Value, api: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return difference(
            value,
            api.pointer(reference.trim_start_matches('#'))
                .expect("a schema"),
            api,
        );
    }
    if let Some(all) = schema["allOf"].as_array() {
        return all.iter().find_map(|part| difference(value, part, api));
    }
    if let Some(one_of) = schema["oneOf"].as_array() {
        let differences: Vec<_> = one_of
            .iter()
            .map(|part| difference(value, part, api))
            .collect();
        return differences
            .iter()
            .all(Option::is_some)
            .then(|| format!("{value} is none of {differences:?}"));
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_of =
        |name: &Value| name == kind || (name == "integer" && value.is_i64() | value.is_u64());
    let is_right = match &schema["type"] {
        Value::Array(names) => names.iter().any(is_of),
        Value::Null => true,
        name => is_of(name),
    };
    if !is_right
        || schema["enum"]
            .as_array()
            .is_some_and(|words| !words.contains(value))
    {
        return Some(format!("{value} is not {schema}"));
    }
    if let Some(items) = value.as_array() {
        return items
            .iter()
            .find_map(|item| difference(item, &schema["items"], api));
    }
    let fields = value.as_object()?;
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    if let Some(lacking) = required.clone().find(|name| !fields.contains_key(*name)) {
        return Some(format!("{value} lacks {lacking}"));
    }
    fields
        .iter()
        .find_map(|(name, value)| match schema["properties"].get(name) {
            Some(schema) => difference(value, schema, api),
            None => schema["additionalProperties"]
                .as_object()
                .and_then(|_| difference(value, &schema["additionalProperties"], api)),
        })
}

/// Names of the described fields of an object, including those of flattened parts.
pub fn field_names(schema: &Value, api: &Value) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return field_names(
            api.pointer(reference.trim_start_matches('#'))
                .expect("a schema"),
            api,
        );
    }
    let own = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().cloned());
    let parts = schema["allOf"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|part| field_names(part, api));
    own.chain(parts).collect()
}

/// The client program, installed in the build folder.
fn client() -> Option<PathBuf> {
    let python = testkit::programs::python(
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        "schemathesis",
        CLIENT,
    )?;
    Some(python.with_file_name("schemathesis"))
}

#[test]
fn random_requests_get_described_answers() {
    let Some(program) = client() else { return };
    let server = Server::start(TestFleet::new(Way::Note));
    (0..3).for_each(|_| drop(server.job("PARSE http PROCESS (rate)")));
    let ran = Command::new(program)
        .arg("run")
        .arg(format!("http://{}/api/v1/openapi.json", server.address))
        .args(["--header", &format!("Authorization: Bearer {}", server.token)])
        // A stream has no end; revocation and logout would invalidate the test's own token.
        .args(["--exclude-path", "/api/v1/stream"])
        .args([
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        ])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "7", "--no-color"])
        .current_dir(&server.folder)
        .output()
        .expect("it runs");
    assert!(
        ran.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}
