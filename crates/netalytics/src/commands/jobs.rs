//! `netalytics jobs` and `netalytics agents`: what a server runs, and where.

use anyhow::anyhow;
use serde_json::{Value, json};
use sinks::table::{escape, pad};

use super::access::with_times;
use super::listing::print_rows;
use super::remote::Remote;
use super::{job_rows, job_sheet};
use crate::failure::{Ended, wrong_flags};
use crate::flags::Format;
use crate::flags::service::{AgentsFlags, AgentsVerb, JobsFlags, JobsVerb, StartFlags};
use crate::output;

pub(super) const JOB: [&str; 6] = ["id", "state", "name", "owner", "query", "reason"];

/// Lists jobs, or does what is asked with one.
pub fn jobs(flags: &JobsFlags) -> anyhow::Result<Ended> {
    let remote = Remote::of(&flags.server)?;
    let format = flags.server.format;
    let numbered = |job: &str| numbered(&remote, job);
    match &flags.what {
        None => print(&JOB, &all(&remote)?, format),
        Some(JobsVerb::Show { job }) => job_sheet::show(&remote, &numbered(job)?, format),
        Some(JobsVerb::Stop { job }) => {
            let path = format!("/api/v1/jobs/{}", numbered(job)?);
            print(&JOB, &[remote.json("DELETE", &path, None)?], format)
        }
        Some(JobsVerb::Start(asked)) => {
            let body = start(asked)?;
            print(&JOB, &[remote.json("POST", "/api/v1/jobs", Some(&body))?], format)
        }
        Some(JobsVerb::Results { job, result, since, until }) => {
            let params = [("since", since), ("until", until)];
            let given = params.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            let params: String = given.map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
            let which = job_rows::Which { job: numbered(job)?, result: result.clone(), params };
            job_rows::results(&remote, &which, format)
        }
    }
}

/// What the server is asked for.
fn start(asked: &StartFlags) -> anyhow::Result<Value> {
    let is_standing = asked.standing || asked.keep_tuples;
    Ok(json!({
        "query": asked.query, "name": asked.name.as_deref().unwrap_or_default(),
        "kind": if is_standing { "standing" } else { "one_off" },
        "on": labels(&asked.on, "--on wants LABEL=VALUE")?, "redact": !asked.raw,
        "interfaces": asked.interface, "capture_filter": asked.capture_filter, "to": asked.to,
        "keep": if asked.keep_tuples { "tuples" } else { "results" },
    }))
}

/// The number of a job by its number or name: of several of that name the one that has not ended.
fn numbered(remote: &Remote, job: &str) -> anyhow::Result<String> {
    if job.parse::<u64>().is_ok() {
        return Ok(job.to_owned());
    }
    let mut found: Vec<Value> = all(remote)?.into_iter().filter(|known| known["name"] == job).collect();
    if found.iter().any(|known| known["state"] != "ended") {
        found.retain(|known| known["state"] != "ended");
    }
    let numbers: Vec<&str> = found.iter().filter_map(|known| known["id"].as_str()).collect();
    match numbers.as_slice() {
        [] => Err(anyhow!("there is no job {job}")),
        [one] => Ok((*one).to_owned()),
        several => {
            let numbers = several.join(", ");
            Err(anyhow!("several jobs are called {job}: say by its number which is meant ({numbers})"))
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
            return print(&columns, &with_times(enrolled, &times), flags.server.format);
        }
        Some(AgentsVerb::Revoke { name }) => {
            remote.ask("DELETE", &format!("/api/v1/enrolments/{}", encoded(name)))?;
            return Ok(Ended::Done);
        }
    }
    let found = remote.json("GET", "/api/v1/agents", None)?;
    let agents = found["agents"].as_array().cloned().unwrap_or_default();
    print(&["name", "connected", "labels", "interfaces", "jobs", "version"], &agents, flags.server.format)
}

/// All jobs, page by page.
fn all(remote: &Remote) -> anyhow::Result<Vec<Value>> {
    let (mut jobs, mut before) = (Vec::new(), String::new());
    loop {
        let page = remote.json("GET", &format!("/api/v1/jobs?limit=1000{before}"), None)?;
        jobs.extend(page["jobs"].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return Ok(jobs),
        }
    }
}

/// Names and values; `wanted` says how they are to look.
pub fn labels(texts: &[String], wanted: &'static str) -> anyhow::Result<Value> {
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| wrong_flags(wanted))?;
        Ok((name.to_owned(), Value::from(value)))
    };
    Ok(Value::Object(texts.iter().map(pair).collect::<anyhow::Result<_>>()?))
}

/// What the server tells of some things, a row each: the columns that people read; as JSON lines all that it tells.
pub(super) fn print(columns: &[&'static str], things: &[Value], format: Format) -> anyhow::Result<Ended> {
    match format {
        Format::Table => output::print(listed(columns, things).as_bytes()),
        Format::Jsonl => {
            let lines: String = things.iter().map(|thing| format!("{thing}\n")).collect();
            output::print(lines.as_bytes())
        }
        format => print_rows(columns, &rows(columns, things), format),
    }
}

/// A table of some things, for people.
pub(super) fn listed(columns: &[&str], things: &[Value]) -> String {
    table(columns, &rows(columns, things))
}

fn rows(columns: &[&str], things: &[Value]) -> Vec<Vec<String>> {
    let row = |thing: &Value| columns.iter().map(|name| text(&thing[*name])).collect();
    things.iter().map(row).collect()
}

/// A value in one cell.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Object(all) => {
            all.iter().map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Columns as wide as their cells.
fn table(names: &[&str], rows: &[Vec<String>]) -> String {
    let head = (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect());
    let lines: Vec<Vec<String>> = head
        .into_iter()
        .chain(rows.iter().map(|row| row.iter().map(|cell| escape(cell)).collect()))
        .collect();
    let width =
        |at: usize| lines.iter().filter_map(|l| l.get(at)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            pad(&mut text, cell, *width, false);
            text.push_str("  ");
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

/// A value of an address's parameter.
pub(super) fn encoded(text: &str) -> String {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_below_each_other_and_act_on_no_terminal() {
        let rows = [vec!["1".to_owned(), "a\u{1b}[31m".to_owned()], vec!["10".to_owned(), String::new()]];
        assert_eq!(table(&["id", "name"], &rows), "id  name\n1   a\\x1b[31m\n10\n");
    }

    #[test]
    fn values_are_one_cell() {
        for (value, cell) in [
            (json!(null), ""),
            (json!(["a", 1]), "a 1"),
            (json!({ "role": "web", "rack": 2 }), "role=web rack=2"),
        ] {
            assert_eq!(text(&value), cell);
        }
        assert_eq!(encoded("2026-11-22T10:00:00Z&x=ä"), "2026-11-22T10%3A00%3A00Z%26x%3D%C3%A4");
    }
}
