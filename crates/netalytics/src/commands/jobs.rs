//! `netalytics jobs` and `netalytics agents`: what a server runs, and where.

use serde_json::{Value, json};

use super::listing::{print_things, table, text, with_times};
use super::remote::{Remote, encoded, labels};
use crate::failure::{Ended, wrong_flags};
use crate::flags::Format;
use crate::flags::service::{AgentsFlags, AgentsVerb, JobsFlags, JobsVerb};
use crate::output;

const JOB: [&str; 6] = ["id", "state", "name", "owner", "query", "reason"];

/// Lists jobs, or does what is asked with one.
pub fn jobs(flags: &JobsFlags) -> anyhow::Result<Ended> {
    let remote = Remote::of(&flags.server)?;
    let format = flags.server.format;
    let one = |method, job: &u64| remote.json(method, &format!("/api/v1/jobs/{job}"), None);
    match &flags.what {
        None => print_things(&JOB, &all(&remote, "/api/v1/jobs?limit=1000", "jobs", "before")?, format),
        Some(JobsVerb::Show { job }) => {
            let shown = one("GET", job)?;
            print_things(&JOB, &[shown], format)?;
            if format != Format::Table {
                return Ok(Ended::Done);
            }
            let found = remote.json("GET", &format!("/api/v1/jobs/{job}/agents"), None)?;
            let agents = found["agents"].as_array().cloned().unwrap_or_default();
            if agents.is_empty() {
                return Ok(Ended::Done);
            }
            output::print(b"\n")?;
            print_things(&["agent", "state", "reason", "records_lost", "tuples_lost"], &agents, format)
        }
        Some(JobsVerb::Stop { job }) => print_things(&JOB, &[one("DELETE", job)?], format),
        Some(JobsVerb::Start { query, name, standing, on, interface, capture_filter, to, keep_tuples }) => {
            let kind = if *standing || *keep_tuples { "standing" } else { "one_off" };
            let keep = if *keep_tuples { "tuples" } else { "results" };
            let asked = json!({
                "query": query, "name": name, "kind": kind, "on": labels(on, "--on wants LABEL=VALUE")?,
                "interfaces": interface, "capture_filter": capture_filter, "to": to, "keep": keep,
            });
            print_things(&JOB, &[remote.json("POST", "/api/v1/jobs", Some(&asked))?], format)
        }
        Some(JobsVerb::Results { job, result, since, until }) => {
            let params = [("result", result), ("since", since), ("until", until)];
            let given = params.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            let params: String = given.map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
            results(&remote, &format!("/api/v1/jobs/{job}/rows?limit=10000{params}"), format)
        }
    }
}

/// Lists agents, or does what is asked with one.
pub fn agents(flags: &AgentsFlags) -> anyhow::Result<Ended> {
    let remote = Remote::of(&flags.server)?;
    match &flags.what {
        None => {}
        Some(AgentsVerb::Enrol { name, expires }) => {
            let asked = json!({ "agent": name, "expires_in_seconds": expires.unsigned_abs().div_ceil(1_000_000_000) });
            let made = remote.json("POST", "/api/v1/enrolments", Some(&asked))?;
            return output::print(format!("{}\n", made["token"].as_str().unwrap_or_default()).as_bytes());
        }
        Some(AgentsVerb::Enrolled) => {
            let found = remote.json("GET", "/api/v1/enrolments", None)?;
            let enrolled = found["enrolments"].as_array().cloned().unwrap_or_default();
            let times =
                [("enrolled_ns", "enrolled"), ("good_until_ns", "good_until"), ("revoked_ns", "revoked")];
            let columns = ["agent", "enrolled", "good_until", "revoked"];
            return print_things(&columns, &with_times(enrolled, &times), flags.server.format);
        }
        Some(AgentsVerb::Revoke { name }) => {
            remote.ask("DELETE", &format!("/api/v1/enrolments/{}", encoded(name)))?;
            return Ok(Ended::Done);
        }
    }
    let found = remote.json("GET", "/api/v1/agents", None)?;
    let agents = found["agents"].as_array().cloned().unwrap_or_default();
    print_things(
        &["name", "connected", "labels", "interfaces", "jobs", "version"],
        &agents,
        flags.server.format,
    )
}

/// All that a list has, page by page; `next` of a page is `cursor` of the one behind it.
pub(super) fn all(remote: &Remote, path: &str, of: &str, cursor: &str) -> anyhow::Result<Vec<Value>> {
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let page = remote.json("GET", &format!("{path}{from}"), None)?;
        found.extend(page[of].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => from = format!("&{cursor}={}", encoded(next)),
            None => return Ok(found),
        }
    }
}

/// Prints all rows, page by page as they come.
fn results(remote: &Remote, path: &str, format: Format) -> anyhow::Result<Ended> {
    let (word, has_header) = match format {
        Format::Table => ("json", false),
        Format::Jsonl => ("jsonl", false),
        Format::Csv => ("csv", true),
        Format::Parquet => {
            return Err(wrong_flags(
                "jobs results prints table, jsonl or csv; the API has Parquet, page by page",
            ));
        }
    };
    let mut after = String::new();
    loop {
        let page = remote.ask("GET", &format!("{path}&format={word}{after}"))?;
        let is_first = after.is_empty();
        let bytes = match format {
            Format::Table => rows_text(&serde_json::from_slice(&page.body)?, is_first).into_bytes(),
            _ if has_header && !is_first => {
                let header = page.body.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                page.body[header..].to_vec()
            }
            _ => page.body,
        };
        output::print(&bytes)?;
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(Ended::Done),
        }
    }
}

fn rows_text(page: &Value, with_names: bool) -> String {
    let names: Vec<&str> = page["columns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|column| column["name"].as_str())
        .collect();
    let cells = |row: &Value| row.as_array().into_iter().flatten().map(text).collect();
    let rows: Vec<Vec<String>> = page["rows"].as_array().into_iter().flatten().map(cells).collect();
    table(if with_names { &names } else { &[] }, &rows)
}
