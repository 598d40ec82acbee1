//! `netalytics jobs` and `netalytics agents`: what a server runs, and where.

use serde_json::{Value, json};
use sinks::table::{escape, pad};

use super::access::with_times;
use super::listing::print_rows;
use super::remote::Remote;
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
        None => print(&JOB, &all(&remote)?, format),
        Some(JobsVerb::Show { job }) => {
            let mut shown = one("GET", job)?;
            // Of a query over both taps of connections: which requests were found where.
            let seen = remote.json("GET", &format!("/api/v1/jobs/{job}/agents"), None)?;
            shown["taps"] = seen["taps"].clone();
            let with_taps = [&JOB[..], &["taps"]].concat();
            print(if shown["taps"].is_null() { &JOB } else { &with_taps }, &[shown], format)
        }
        Some(JobsVerb::Stop { job }) => print(&JOB, &[one("DELETE", job)?], format),
        Some(JobsVerb::Start { query, name, standing, on, interface, capture_filter, to, keep_tuples }) => {
            let kind = if *standing || *keep_tuples { "standing" } else { "one_off" };
            let keep = if *keep_tuples { "tuples" } else { "results" };
            let asked = json!({
                "query": query, "name": name, "kind": kind, "on": labels(on, "--on wants LABEL=VALUE")?,
                "interfaces": interface, "capture_filter": capture_filter, "to": to, "keep": keep,
            });
            print(&JOB, &[remote.json("POST", "/api/v1/jobs", Some(&asked))?], format)
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

/// What the server tells of some things, a row each.
pub(super) fn print(columns: &[&'static str], things: &[Value], format: Format) -> anyhow::Result<Ended> {
    let row = |thing: &Value| columns.iter().map(|name| text(&thing[*name])).collect();
    let rows: Vec<Vec<String>> = things.iter().map(row).collect();
    match format {
        Format::Table => output::print(table(columns, &rows).as_bytes()),
        format => print_rows(columns, &rows, format),
    }
}

/// A value in one cell.
fn text(value: &Value) -> String {
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
