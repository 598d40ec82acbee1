//! `netalytics alerts`: alerts, rules and silences of a server.

use anyhow::anyhow;
use serde_json::{Map, Value, json};

use super::jobs::all;
use super::listing::{print_things, with_times};
use crate::cli::flags::OutputFormat;
use crate::cli::flags::alerts::{AlertAddFlags, AlertsFlags, AlertsVerb, word};
use crate::client::server_client::{ServerClient, ServerRequest, encoded, labels};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;

const ALERT: [&str; 6] = [
    "state",
    "rule",
    "labels",
    "annotations",
    "held",
    "silenced_by",
];
const RULE: [&str; 8] = [
    "id",
    "name",
    "state",
    "firing",
    "pending",
    "job_id",
    "when",
    "receivers",
];
const SILENCE: [&str; 6] = ["id", "matchers", "starts", "ends", "author", "comment"];
const SILENCE_TIMES: [(&str, &str); 2] = [("starts_ns", "starts"), ("ends_ns", "ends")];
const RECEIVER: [&str; 5] = ["name", "to", "waiting", "sent", "problem"];

/// Lists alerts, or runs a subcommand.
pub fn alerts(flags: &AlertsFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    let format = flags.server.format;
    let list = |path: &str, of: &str, columns: &[&'static str]| {
        let found = remote.json("GET", path, None)?;
        let things = found[of].as_array().cloned().unwrap_or_default();
        let things = with_times(things, &SILENCE_TIMES);
        print_things(
            columns,
            &things.into_iter().map(flat).collect::<Vec<_>>(),
            format,
        )
    };
    match &flags.what {
        None => {
            let state = flags
                .state
                .as_ref()
                .map(|state| format!("&state={}", encoded(state)));
            let path = format!("/api/v1/alerts?limit=1000{}", state.unwrap_or_default());
            print_things(&ALERT, &all(&remote, &path, "alerts", "after")?, format)
        }
        Some(AlertsVerb::Rules) => list("/api/v1/alert-rules", "rules", &RULE),
        Some(AlertsVerb::Add(asked)) => {
            let body = rule(asked)?;
            // The error may concern the query or the condition, so it is printed as text.
            let asked = ServerRequest {
                body: Some(&body),
                ..ServerRequest::plain("POST", "/api/v1/alert-rules")
            };
            print_things(&RULE, &[flat(remote.try_json(&asked)?)], format)
        }
        Some(AlertsVerb::Remove { rule }) => {
            remote.ask(
                "DELETE",
                &format!("/api/v1/alert-rules/{}", numbered(&remote, rule)?),
            )?;
            Ok(CommandOutcome::Done)
        }
        Some(AlertsVerb::Silences) => list("/api/v1/silences", "silences", &SILENCE),
        Some(AlertsVerb::Silence {
            matchers,
            for_time,
            comment,
        }) => {
            let asked = json!({ "matchers": matchers, "for": for_time, "comment": comment });
            let made = remote.json("POST", "/api/v1/silences", Some(&asked))?;
            print_things(&SILENCE, &with_times(vec![made], &SILENCE_TIMES), format)
        }
        Some(AlertsVerb::Unsilence { silence }) => {
            let ended = remote.json("DELETE", &format!("/api/v1/silences/{silence}"), None)?;
            print_things(&SILENCE, &with_times(vec![ended], &SILENCE_TIMES), format)
        }
        Some(AlertsVerb::Receivers) => list("/api/v1/receivers", "receivers", &RECEIVER),
        Some(AlertsVerb::Test { receiver }) => test(&remote, receiver, format),
    }
}

/// A rule as one row: the request merged with its state.
fn flat(mut thing: Value) -> Value {
    if let Some(asked) = thing["rule"].as_object().cloned() {
        thing
            .as_object_mut()
            .into_iter()
            .for_each(|all| all.extend(asked.clone()));
    }
    thing
}

fn rule(asked: &AlertAddFlags) -> anyhow::Result<Value> {
    let AlertAddFlags {
        query, job, when, ..
    } = asked;
    let pairs = |texts: &[String]| labels(texts, "--label and --annotation require NAME=VALUE");
    let mut rule = Map::new();
    let mut say = |name: &str, value: Value| drop(rule.insert(name.into(), value));
    say(
        "name",
        asked.name.clone().unwrap_or_else(|| when.clone()).into(),
    );
    say("when", when.clone().into());
    say("labels", pairs(&asked.label)?);
    say("annotations", pairs(&asked.annotation)?);
    say("on", labels(&asked.on, "--on requires LABEL=VALUE")?);
    say("receivers", asked.receiver.clone().into());
    say("on_no_data", word(&asked.no_data).into());
    say("on_missing_agents", word(&asked.missing_agents).into());
    let texts = [
        ("query", query),
        ("job", job),
        ("result", &asked.result),
        ("for", &asked.for_time),
        ("keep_firing_for", &asked.keep_firing_for),
    ];
    for (name, text) in texts {
        text.iter().for_each(|text| say(name, text.clone().into()));
    }
    Ok(Value::Object(rule))
}

/// Number of the rule with this name or number.
fn numbered(remote: &ServerClient, rule: &str) -> anyhow::Result<String> {
    let found = remote.json("GET", "/api/v1/alert-rules", None)?;
    let rules = found["rules"].as_array().into_iter().flatten();
    let mut numbers = rules.filter(|known| known["name"] == rule || known["id"] == rule);
    let number = numbers.next().and_then(|known| known["id"].as_str());
    number
        .map(str::to_owned)
        .ok_or_else(|| anyhow!("alert rule {rule} does not exist"))
}

fn test(
    remote: &ServerClient,
    receiver: &str,
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    if receiver.is_empty() {
        return Err(wrong_flags(
            "no such receiver: netalytics alerts receivers lists them",
        ));
    }
    let outcome = remote.json(
        "POST",
        &format!("/api/v1/receivers/{}/test", encoded(receiver)),
        None,
    )?;
    print_things(
        &["taken", "problem"],
        std::slice::from_ref(&outcome),
        format,
    )?;
    if outcome["taken"] == true {
        Ok(CommandOutcome::Done)
    } else {
        output::complain(&format!(
            "receiver {receiver} did not accept the notification"
        ));
        Ok(CommandOutcome::Incomplete)
    }
}
