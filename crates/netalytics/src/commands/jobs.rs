//! `netalytics jobs` and `netalytics agents`: jobs and agents of a server.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde_json::{Value, json};

use super::listing::{JOB_COLUMNS, print_things, with_times};
use super::{access, job_rows, job_sheet};
use crate::cli::flags::OutputFormat;
use crate::cli::flags::bus::{BusFlag, MergeEngineFlag};
use crate::cli::flags::service::{AgentsFlags, AgentsVerb, JobStartFlags, JobsFlags, JobsVerb};
use crate::client::server_client::{ServerClient, encoded, labels};
use crate::process::failure::CommandOutcome;
use crate::process::output;
use crate::process::secret_file::SecretFile;

/// Maximum wait for agents to report whether they run a job.
const ANSWERS_WAIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lists jobs, or runs a subcommand.
pub fn jobs(flags: &JobsFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    let format = flags.server.format;
    let numbered = |job: &str| numbered(&remote, job);
    match &flags.what {
        None => print_things(&JOB_COLUMNS, &all_jobs(&remote)?, format),
        Some(JobsVerb::Show { job }) => job_sheet::show(&remote, &numbered(job)?, format),
        Some(JobsVerb::Stop { job }) => {
            let path = format!("/api/v1/jobs/{}", numbered(job)?);
            print_things(&JOB_COLUMNS, &[remote.json("DELETE", &path, None)?], format)
        }
        Some(JobsVerb::Start(asked)) => {
            let body = start(asked)?;
            let made = remote.json("POST", "/api/v1/jobs", Some(&body))?;
            begun(&remote, made, format)
        }
        Some(JobsVerb::Results {
            job,
            result,
            since,
            until,
        }) => {
            let params = [("since", since), ("until", until)];
            let given = params
                .iter()
                .filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            let params: String = given
                .map(|(name, value)| format!("&{name}={}", encoded(value)))
                .collect();
            let which = job_rows::JobRowSelection {
                job: numbered(job)?,
                result: result.clone(),
                params,
            };
            job_rows::results(&remote, &which, format)
        }
    }
}

/// Prints an accepted job after its agents have replied. A one-off job that no agent runs ends immediately, which is an
/// error.
fn begun(
    remote: &ServerClient,
    mut job: Value,
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    let id = job["id"].as_str().unwrap_or_default().to_owned();
    let since = Instant::now();
    // A job that no agent runs is draining before it has ended.
    let is_undecided = |job: &Value| matches!(job["state"].as_str(), Some("arming" | "draining"));
    while job["kind"] == "one_off" && is_undecided(&job) && since.elapsed() < ANSWERS_WAIT {
        std::thread::sleep(LOOK_EVERY);
        job = remote.json("GET", &format!("/api/v1/jobs/{}", encoded(&id)), None)?;
    }
    let has_failed = job["outcome"] == "failed";
    let printed = print_things(&JOB_COLUMNS, std::slice::from_ref(&job), format)?;
    if has_failed {
        let why = job["reason"].as_str().unwrap_or("no agent ran the job");
        output::complain(&format!("error: job {id} ended: {why}"));
        return Ok(CommandOutcome::Incomplete);
    }
    Ok(printed)
}

/// Body of the submission.
fn start(asked: &JobStartFlags) -> anyhow::Result<Value> {
    let is_standing = asked.standing || asked.keep_tuples;
    Ok(json!({
        "query": asked.query, "name": asked.name.as_deref().unwrap_or_default(),
        "kind": if is_standing { "standing" } else { "one_off" },
        "on": labels(&asked.on, "--on requires LABEL=VALUE")?, "redact": !asked.raw,
        "source": source(asked.exports), "interfaces": asked.interface, "capture_filter": asked.capture_filter, "to": asked.to,
        "keep": if asked.keep_tuples { "tuples" } else { "results" },
        "network": asked.by_network, "bus": asked.bus.map(BusFlag::word), "engine": asked.engine.map(MergeEngineFlag::word),
    }))
}

/// Source of a job's packets in requests.
pub(super) fn source(is_exports: bool) -> &'static str {
    if is_exports { "exports" } else { "interfaces" }
}

/// Number of a job by number or name; among several with the name, the unfinished one.
fn numbered(remote: &ServerClient, job: &str) -> anyhow::Result<String> {
    if job.parse::<u64>().is_ok() {
        return Ok(job.to_owned());
    }
    let mut found: Vec<Value> = all_jobs(remote)?
        .into_iter()
        .filter(|known| known["name"] == job)
        .collect();
    if found.iter().any(|known| known["state"] != "ended") {
        found.retain(|known| known["state"] != "ended");
    }
    let numbers: Vec<&str> = found
        .iter()
        .filter_map(|known| known["id"].as_str())
        .collect();
    match numbers.as_slice() {
        [] => Err(anyhow!("job {job} does not exist")),
        [one] => Ok((*one).to_owned()),
        several => {
            let numbers = several.join(", ");
            Err(anyhow!(
                "several jobs have the name {job}: use the number ({numbers})"
            ))
        }
    }
}

/// Lists agents, or runs a subcommand.
pub fn agents(flags: &AgentsFlags) -> anyhow::Result<CommandOutcome> {
    let remote = ServerClient::of(&flags.server)?;
    match &flags.what {
        None => {}
        Some(AgentsVerb::Enroll { name, expires, out }) => {
            let file = out.as_deref().map(SecretFile::create).transpose()?;
            let asked = json!({ "agent": name, "expires_in_seconds": expires.unsigned_abs().div_ceil(1_000_000_000) });
            let made = remote.json("POST", "/api/v1/enrolments", Some(&asked))?;
            return access::print_or_keep(made["token"].as_str().unwrap_or_default(), file);
        }
        Some(AgentsVerb::Enrolled) => {
            let found = remote.json("GET", "/api/v1/enrolments", None)?;
            let enrolled = found["enrolments"].as_array().cloned().unwrap_or_default();
            let times = [
                ("enrolled_ns", "enrolled"),
                ("good_until_ns", "good_until"),
                ("revoked_ns", "revoked"),
            ];
            let columns = ["agent", "enrolled", "good_until", "revoked"];
            return print_things(&columns, &with_times(enrolled, &times), flags.server.format);
        }
        Some(AgentsVerb::Revoke { name }) => {
            remote.ask("DELETE", &format!("/api/v1/enrolments/{}", encoded(name)))?;
            return Ok(CommandOutcome::Done);
        }
    }
    let found = remote.json("GET", "/api/v1/agents", None)?;
    let agents = found["agents"].as_array().cloned().unwrap_or_default();
    print_things(
        &[
            "name",
            "connected",
            "labels",
            "interfaces",
            "jobs",
            "version",
        ],
        &agents,
        flags.server.format,
    )
}

fn all_jobs(remote: &ServerClient) -> anyhow::Result<Vec<Value>> {
    all(remote, "/api/v1/jobs?limit=1000", "jobs", "before")
}

/// All entries of a list, page by page; `next` of a page is the parameter `cursor` of the following one.
pub(super) fn all(
    remote: &ServerClient,
    path: &str,
    of: &str,
    cursor: &str,
) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut from = String::new();
    loop {
        let page = remote.json("GET", &format!("{path}{from}"), None)?;
        found.extend(page[of].as_array().into_iter().flatten().cloned());
        match page["next"].as_str() {
            Some(next) => from = format!("&{cursor}={}", encoded(next)),
            None => return Ok(found),
        }
    }
}
