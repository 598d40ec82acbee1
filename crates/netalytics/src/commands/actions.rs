//! `netalytics actions`: actions of a server and their decisions.

use anyhow::anyhow;
use serde_json::{Map, Value, json};

use super::listing::{print_things, with_times};
use crate::cli::flags::actions::{ActionAddFlags, ActionsFlags, ActionsVerb};
use crate::client::server_client::{ServerClient, ServerRequest};
use crate::process::failure::CommandOutcome;

const ACTION: [&str; 8] = [
    "id", "name", "state", "version", "servers", "job_id", "to", "problem",
];
const GROUP: [&str; 3] = ["group", "replicas", "value"];
const DECISION: [&str; 7] = [
    "version",
    "direction",
    "window_end",
    "decided",
    "done",
    "servers",
    "groups",
];
const TIMES: [(&str, &str); 4] = [
    ("window_start_ns", "window_start"),
    ("window_end_ns", "window_end"),
    ("decided_ns", "decided"),
    ("done_ns", "done"),
];

/// Lists actions, or runs a subcommand.
pub fn actions(flags: &ActionsFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    let format = flags.server.format;
    match &flags.what {
        None => {
            let found = remote.json("GET", "/api/v1/actions", None)?;
            let things = found["actions"].as_array().cloned().unwrap_or_default();
            print_things(
                &ACTION,
                &things.into_iter().map(flat).collect::<Vec<_>>(),
                format,
            )
        }
        Some(ActionsVerb::Add(asked)) => {
            let body = action(asked);
            let asked = ServerRequest {
                body: Some(&body),
                ..ServerRequest::plain("POST", "/api/v1/actions")
            };
            print_things(&ACTION, &[flat(remote.try_json(&asked)?)], format)
        }
        Some(ActionsVerb::Show { action }) => {
            let found = numbered(&remote, action)?;
            print_things(
                &GROUP,
                found["groups"].as_array().map_or(&[], Vec::as_slice),
                format,
            )
        }
        Some(ActionsVerb::Decisions { action, limit }) => {
            let id = number(&remote, action)?;
            let found = remote.json(
                "GET",
                &format!("/api/v1/actions/{id}/decisions?limit={limit}"),
                None,
            )?;
            let decisions = found["decisions"].as_array().cloned().unwrap_or_default();
            print_things(&DECISION, &with_times(decisions, &TIMES), format)
        }
        Some(ActionsVerb::Remove { action }) => {
            let id = number(&remote, action)?;
            remote.ask("DELETE", &format!("/api/v1/actions/{id}"))?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// An action as one row: the request merged with its state, which takes precedence.
fn flat(thing: Value) -> Value {
    let mut all = thing["action"].as_object().cloned().unwrap_or_default();
    all.insert(
        "servers_all".into(),
        all.get("servers").cloned().unwrap_or_default(),
    );
    all.extend(thing.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

fn action(asked: &ActionAddFlags) -> Value {
    let mut action = Map::new();
    let mut say = |name: &str, value: Value| drop(action.insert(name.into(), value));
    say("name", asked.name.clone().into());
    say("job", asked.job.clone().into());
    say("value", asked.value.clone().into());
    say("upper", json!(asked.upper));
    say("servers", asked.servers.clone().into());
    say("to", asked.to.clone().into());
    asked
        .lower
        .iter()
        .for_each(|lower| say("lower", json!(lower)));
    for (name, number) in [("min", asked.min), ("max", asked.max), ("step", asked.step)] {
        number.iter().for_each(|number| say(name, (*number).into()));
    }
    let texts = [
        ("result", &asked.result),
        ("up_for", &asked.up_for),
        ("down_for", &asked.down_for),
        ("backoff", &asked.backoff),
        ("drain", &asked.drain),
    ];
    for (name, text) in texts {
        text.iter().for_each(|text| say(name, text.clone().into()));
    }
    Value::Object(action)
}

/// The action of this name or number.
fn numbered(remote: &ServerClient, action: &str) -> anyhow::Result<Value> {
    let found = remote.json("GET", "/api/v1/actions", None)?;
    let mut all = found["actions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
        .into_iter();
    let known = all.find(|known| known["name"] == action || known["id"] == action);
    known.ok_or_else(|| anyhow!("action {action} does not exist"))
}

fn number(remote: &ServerClient, action: &str) -> anyhow::Result<String> {
    Ok(numbered(remote, action)?["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}
