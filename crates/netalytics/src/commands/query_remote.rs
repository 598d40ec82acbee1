//! `netalytics query 'QUERY' --server URL`: runs a one-off job on a server's agents; output is as for a local query.
//! The job is stopped at the end of this process, and has a lease in case this process is killed.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use anyhow::Context;
use capture::live::StopSignal;
use connect::RetryPolicy;
use plan::Plan;
use planner::{PlanOptions, exported_query};
use serde_json::{Value, json};
use sinks::WindowPace;

use crate::cli::flags::live::LiveFlags;
use crate::cli::flags::{HostNameSource, OutputFormat, QueryCommandFlags, QueryFlags};
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::client::event_stream::{JobEvent, JobEventStream};
use crate::client::lease_renewer::LeaseRenewer;
use crate::client::printer::{RowPresentation, RowPrinter};
use crate::client::retrying_client::RetryingClient;
use crate::client::rows::{JobResultReader, RowCoverage, in_order, results};
use crate::client::server_client::{ServerClient, ServerRequest, ServerRequestError, labels};
use crate::client::summary::{JobSummary, RunEndCause};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::output;
use crate::process::signals::{self, SignalHandlers};
use crate::render::hosts;
use crate::render::summary_file::SummaryFile;
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::{open_outlets, run_query};

/// Interval at which the command checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Polling interval of the job, independent of the live stream.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// Polling interval of results before the job has started.
const START_EVERY: Duration = Duration::from_millis(500);
/// Maximum time to retry a submission whose response was lost.
const ASKING: Duration = Duration::from_secs(30);
/// Row group size of Parquet files, in bytes.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Runs the job; writes the summary file however it ends.
pub fn query(
    server: &str,
    flags: &QueryCommandFlags,
    query: &CommandQuery,
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    check(&flags.query)?;
    run_query::check_paths(&flags.query.work, flags.query.output.as_deref())?;
    signals::survive_size_limits().context("cannot handle signals")?;
    let create = |path| SummaryFile::create(path, FileOwner::Us);
    let mut file = flags
        .query
        .work
        .summary_json
        .as_deref()
        .map(create)
        .transpose()?;
    match answer(server, flags, query, telling) {
        Ok(summary) => {
            file.as_mut()
                .map_or(Ok(()), |file| file.write(&summary.json()))?;
            Ok(if summary.is_complete() {
                CommandOutcome::Done
            } else {
                CommandOutcome::Incomplete
            })
        }
        Err(error) => {
            if let Some(Err(unwritten)) = file.as_mut().map(|file| file.fail(&format!("{error:#}")))
            {
                output::complain(&format!("error: {unwritten:#}"));
            }
            Err(error)
        }
    }
}

/// Rejects flags that require local packets.
fn check(flags: &QueryFlags) -> anyhow::Result<()> {
    let work = &flags.work;
    let said = [
        (work.write.is_some(), "--write"),
        (
            work.count.is_some(),
            "--count (use LIMIT 5000p in the query)",
        ),
        (work.stats.is_some(), "--stats"),
        (work.pin.is_some(), "--pin"),
        (flags.names == HostNameSource::Dns, "--names dns"),
    ];
    match said.iter().find(|(is_said, _)| *is_said) {
        Some((_, flag)) => Err(wrong_flags(format!(
            "{flag} is not supported with --server: agents read the packets"
        ))),
        None => Ok(()),
    }
}

fn answer(
    server: &str,
    flags: &QueryCommandFlags,
    query: &CommandQuery,
    telling: Verbosity,
) -> anyhow::Result<JobSummary> {
    let started = Instant::now();
    let text = query.text();
    let mut checked = query.check_for_server(flags.remote.by_network);
    if flags.query.work.live.exports {
        let exported = |query| exported_query::of(query, &PlanOptions::default());
        checked = checked.map(exported).transpose().map_err(wrong_flags)?;
    }
    let plan = checked.as_ref().map(planner::lower);
    let remote = ServerClient::at(
        server,
        flags.remote.kept.token_file.as_deref(),
        flags.remote.kept.ca.as_deref(),
    )?;
    let asked = request(text, flags)?;
    if let Some(query) = &checked {
        open_outlets::check(&flags.query.outlets, query)?;
    }
    let ready = flags.query.prepare(text)?;
    let stop = StopSignal::default();
    let signals = SignalHandlers::end(&stop).context("cannot handle signals")?;
    let job = submit(&remote, &asked, text)?;
    let id = job["id"]
        .as_str()
        .context("the server's job has no number")?
        .to_owned();
    let lease = Duration::from_nanos(flags.remote.lease.unsigned_abs());
    let keeper = LeaseRenewer::begin(&remote, &id, lease, &stop).context("cannot keep the job")?;
    let mut run = ServedRun {
        line: RetryingClient::new(remote),
        id,
        job,
        stop,
        signals,
        telling,
        mentioned: None,
    };
    let result = run.go(flags, text, plan.as_ref(), ready);
    let result = result.map(|done| run.sum_up(text.to_owned(), done, started));
    if result.is_err() || run.stop.is_asked() {
        run.stop.stop();
        if !keeper.is_stopped() {
            output::complain(&format!(
                "note: the server did not receive the stop request of job {}; the job ends within {}, when its lease expires",
                run.id,
                sinks::units::chosen_duration(flags.remote.lease),
            ));
        }
    }
    result
}

/// Body of the submission.
fn request(text: &str, flags: &QueryCommandFlags) -> anyhow::Result<Value> {
    let live = &flags.query.work.live;
    let lease = Duration::from_nanos(flags.remote.lease.unsigned_abs())
        .as_secs_f64()
        .ceil();
    Ok(json!({
        "query": text,
        "kind": "one_off",
        "on": labels(&flags.remote.kept.on, "--on requires LABEL=VALUE")?,
        "redact": !flags.remote.raw,
        "source": super::jobs::source(live.exports),
        "interfaces": live.interfaces,
        "capture_filter": (!live.filter.is_empty()).then_some(&live.filter),
        "network": flags.remote.by_network,
        "lease_seconds": lease as u64,
    }))
}

/// Submits the job, with retries; the idempotency key prevents a duplicate.
fn submit(remote: &ServerClient, body: &Value, text: &str) -> anyhow::Result<Value> {
    let number = |salt: u64| RandomState::new().hash_one(salt);
    let key = format!("{:016x}{:016x}", number(0), number(1));
    let asked = ServerRequest {
        body: Some(body),
        key: Some(&key),
        query: text,
        ..ServerRequest::plain("POST", "/api/v1/jobs")
    };
    let until = Instant::now() + ASKING;
    let mut was_heard = false;
    let mut delays = RetryPolicy::COMMAND.delays(u64::from(std::process::id()));
    loop {
        match remote.try_json(&asked) {
            Err(ServerRequestError::Later(error))
                if error.is::<ureq::Error>() && Instant::now() < until =>
            {
                was_heard = true
            }
            Err(ServerRequestError::Nobody(_)) if was_heard && Instant::now() < until => {}
            answer => return Ok(answer?),
        }
        std::thread::sleep(delays.next_delay());
    }
}

/// A job whose rows are printed.
struct ServedRun {
    line: RetryingClient,
    id: String,
    job: Value,
    stop: StopSignal,
    signals: SignalHandlers,
    telling: Verbosity,
    /// Last problem printed.
    mentioned: Option<String>,
}

/// Result of a run.
#[derive(Default)]
struct ServedOutcome {
    rows: u64,
    coverage: RowCoverage,
    delivered: Vec<sinks::DeliveryOutcome>,
    notes: Vec<String>,
    output_errors: Vec<String>,
    /// The reader has closed the output.
    is_closed: bool,
    is_terminal: bool,
}

impl ServedRun {
    fn go(
        &mut self,
        flags: &QueryCommandFlags,
        text: &str,
        plan: Option<&Plan>,
        mut ready: <QueryFlags as ResultTarget>::Ready,
    ) -> anyhow::Result<ServedOutcome> {
        let query = &flags.query;
        let mut served = self.results(plan)?;
        self.say_begin()?;
        let (name, is_terminal) = query.name(&ready);
        let has_windows = served.iter().all(|of| of.head.processor.is_some());
        let shown = match query.format_for(&ready.0) {
            OutputFormat::Table if is_terminal && has_windows => RowPresentation::Watched,
            OutputFormat::Table => RowPresentation::AsTable,
            _ => RowPresentation::Exactly,
        };
        if let Some((outlets, _)) = &mut ready.1 {
            outlets.start(&LiveFlags {
                interfaces: Vec::new(),
                ..query.work.live.clone()
            })?;
        }
        let opened = SinkContext {
            heads: served.iter().map(|of| of.head.clone()).collect(),
            tables: served.iter().map(|of| of.result_table(text)).collect(),
            names: hosts::read(query.work.text.hosts.as_deref())?,
            pace: WindowPace::AtOnce,
            row_group_bytes: ROW_GROUP_BYTES,
        };
        let mut sink = query.open(ready, opened)?;
        let mut done = ServedOutcome {
            is_terminal,
            ..ServedOutcome::default()
        };
        let mut printer = RowPrinter::new(sink.as_mut(), shown);
        let written = self.print(&mut served, &mut printer)?;
        done.rows = printer.rows;
        done.coverage = printer.coverage;
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => done.is_closed = true,
            Err(error) => {
                let why = format!("cannot write the result to {name}; it is incomplete: {error}");
                done.output_errors.push(why);
            }
        }
        done.notes = sink.notes();
        done.delivered = sink.delivered();
        done.output_errors
            .extend(done.delivered.iter().filter_map(open_outlets::complaint));
        Ok(done)
    }

    /// Results of the job, once it has started.
    fn results(&mut self, plan: Option<&Plan>) -> anyhow::Result<Vec<JobResultReader>> {
        loop {
            let id = self.id.clone();
            let found = self.line.ask(|remote| results(remote, &id, plan))?;
            if !found.is_empty() || self.look()? {
                return Ok(found);
            }
            std::thread::sleep(START_EVERY);
        }
    }

    fn say_begin(&mut self) -> anyhow::Result<()> {
        if self.telling == Verbosity::Errors {
            return Ok(());
        }
        let agents = self.line.get(&format!("/api/v1/jobs/{}/agents", self.id))?;
        let names = agents["agents"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|of| of["agent"].as_str());
        let names: Vec<&str> = names.collect();
        let on = match names.as_slice() {
            [] => String::new(),
            [one] => format!(" on agent {one}"),
            several => format!(" on {} agents ({})", several.len(), several.join(", ")),
        };
        output::complain(&format!("job {}{on}; Ctrl-C stops it", self.id));
        Ok(())
    }

    /// Polls the job; returns whether it has ended.
    fn look(&mut self) -> anyhow::Result<bool> {
        self.job = self.line.get(&format!("/api/v1/jobs/{}", self.id))?;
        Ok(self.job["state"] == "ended")
    }

    /// Prints rows until the job has ended and all are read; the inner error is that of the output.
    fn print(
        &mut self,
        served: &mut [JobResultReader],
        printer: &mut RowPrinter<'_>,
    ) -> anyhow::Result<io::Result<()>> {
        let mut watch =
            JobEventStream::begin(&self.line.remote, &self.id).context("cannot watch the job")?;
        let mut asked = Instant::now();
        let mut is_over = false;
        let mut said_stop = false;
        let mut is_due = true;
        loop {
            if is_due || is_over {
                if let Err(error) = self.read(served, printer)? {
                    return Ok(Err(error));
                }
                if is_over {
                    return Ok(printer.sink.finish());
                }
            }
            is_due = false;
            let mut wants_look = asked.elapsed() >= ASK_EVERY;
            for news in watch.wait(LOOK_EVERY).context("cannot watch the job")? {
                match news {
                    JobEvent::Rows => is_due = true,
                    JobEvent::Alive => {}
                    JobEvent::Job(job) => {
                        wants_look |= job["state"] == "ended";
                        self.mention(&job, printer)?;
                    }
                    JobEvent::Open { result, rows } => printer.note_open(served, result, &rows),
                }
            }
            if let Err(error) = printer.show_open() {
                return Ok(Err(error));
            }
            if wants_look {
                is_over = self.look()?;
                asked = Instant::now();
                is_due = true;
            }
            if self.stop.is_asked() && !is_over && !std::mem::replace(&mut said_stop, true) {
                self.say_stop(printer)?;
            }
        }
    }

    fn say_stop(&self, printer: &mut RowPrinter<'_>) -> anyhow::Result<()> {
        if self.telling != Verbosity::Errors {
            printer.sink.hide_open()?;
            let name = self.signals.name().unwrap_or("asked to stop");
            output::complain(&format!(
                "{name}: stopping job {}, waiting for its last rows; Ctrl-C again ends the program at once",
                self.id
            ));
        }
        Ok(())
    }

    /// Prints new problems of the job.
    fn mention(&mut self, job: &Value, printer: &mut RowPrinter<'_>) -> anyhow::Result<()> {
        let reason = job["reason"]
            .as_str()
            .filter(|_| job["state"] != "ended")
            .map(str::to_owned);
        if reason == self.mentioned {
            return Ok(());
        }
        if let (Some(reason), true) = (&reason, self.telling != Verbosity::Errors) {
            printer.sink.hide_open()?;
            output::complain(&format!("note: {reason}"));
        }
        self.mentioned = reason;
        Ok(())
    }

    /// Reads and writes all rows so far; the inner error is that of the output.
    fn read(
        &mut self,
        served: &mut [JobResultReader],
        printer: &mut RowPrinter<'_>,
    ) -> anyhow::Result<io::Result<()>> {
        loop {
            let mut batches = Vec::new();
            let mut has_more = false;
            for (result, of) in served.iter_mut().enumerate() {
                let (rows, more) = self.line.ask(|remote| of.next(remote))?;
                batches.extend(rows.into_iter().map(|batch| (result, batch)));
                has_more |= more;
            }
            if let Err(error) = printer.write(in_order(batches)) {
                return Ok(Err(error));
            }
            if !has_more {
                return Ok(Ok(()));
            }
        }
    }

    /// Prints the final notes and returns the summary.
    fn sum_up(&mut self, query: String, done: ServedOutcome, started: Instant) -> JobSummary {
        // The last known state is used if the server no longer responds.
        let agents = if done.is_closed {
            Value::Null
        } else {
            self.line
                .get(&format!("/api/v1/jobs/{}/agents", self.id))
                .unwrap_or_default()
        };
        let summary = JobSummary {
            query,
            job: self.job.clone(),
            agents: agents["agents"].as_array().cloned().unwrap_or_default(),
            taps: agents["taps"].clone(),
            rows: done.rows,
            coverage: done.coverage,
            delivered: done.delivered,
            ended_by: if self.stop.is_asked() || done.is_closed {
                RunEndCause::Us
            } else {
                RunEndCause::Itself
            },
            output_errors: done.output_errors,
            elapsed: started.elapsed(),
        };
        if done.is_closed {
            self.stop.stop();
            return summary;
        }
        let is_told = self.telling != Verbosity::Errors;
        if is_told {
            done.notes
                .iter()
                .for_each(|note| output::complain(&format!("note: {note}")));
        }
        summary
            .complaints()
            .iter()
            .for_each(|text| output::complain(&format!("error: {text}")));
        if is_told {
            let gap = if done.is_terminal { "\n" } else { "" };
            output::complain_lines(&format!("{gap}{}", summary.text().trim_end()));
        }
        summary
    }
}
