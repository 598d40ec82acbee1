//! `netalytics jobs results`: rows of a job so far, formatted as by `query`.

use anyhow::anyhow;
use sinks::table::TableStyle;
use sinks::{Sink, TableSink, WindowPace};

use crate::cli::flags::OutputFormat;
use crate::client::rows::{JobResultReader, results as served_results, without_coverage};
use crate::client::server_client::{ServerClient, encoded};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::output::{self, OutputDestination};

/// Selection of rows.
pub struct JobRowSelection {
    /// Number of the job.
    pub job: String,
    /// Result by name or index; default: the first.
    pub result: Option<String>,
    /// Further query parameters of the request.
    pub params: String,
}

/// Prints all rows, page by page.
pub fn results(
    remote: &ServerClient,
    which: &JobRowSelection,
    format: OutputFormat,
) -> anyhow::Result<CommandOutcome> {
    match format {
        OutputFormat::Table => as_table(remote, which),
        OutputFormat::Jsonl => as_sent(remote, which, "jsonl"),
        OutputFormat::Csv => as_sent(remote, which, "csv"),
        OutputFormat::Parquet => Err(wrong_flags(
            "the formats of jobs results are table, jsonl and csv; the API also has Parquet",
        )),
    }
}

/// Copies the server's format; the CSV header is written once for all pages.
fn as_sent(
    remote: &ServerClient,
    which: &JobRowSelection,
    word: &str,
) -> anyhow::Result<CommandOutcome> {
    let result = which
        .result
        .iter()
        .map(|result| format!("&result={}", encoded(result)))
        .collect::<String>();
    let path = format!(
        "/api/v1/jobs/{}/rows?limit=10000&format={word}{result}{}",
        which.job, which.params
    );
    let mut after = String::new();
    loop {
        let page = remote.ask("GET", &format!("{path}{after}"))?;
        let has_names_again = word == "csv" && !after.is_empty();
        let names = page
            .body
            .iter()
            .position(|byte| *byte == b'\n')
            .filter(|_| has_names_again);
        output::print(&page.body[names.map_or(0, |end| end + 1)..])?;
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(CommandOutcome::Done),
        }
    }
}

fn as_table(remote: &ServerClient, which: &JobRowSelection) -> anyhow::Result<CommandOutcome> {
    let job = remote.json("GET", &format!("/api/v1/jobs/{}", which.job), None)?;
    let query = job["query"].as_str().unwrap_or_default();
    let plan = query::check(query, &parsers::registry::schemas(), &()).ok();
    let plan = plan.map(|query| planner::lower(&query));
    let all = served_results(remote, &which.job, plan.as_ref())?;
    let (mut served, others) = chosen(all, which)?;
    let destination = OutputDestination::open(None, FileOwner::Us)?;
    let (width, height) = destination
        .terminal
        .then(output::terminal_size)
        .flatten()
        .unzip();
    let style = TableStyle {
        width,
        height,
        pace: WindowPace::Whole,
        ..TableStyle::default()
    };
    let mut sink = TableSink::new(destination.writer, &[served.head.clone()], style);
    match write(remote, &mut served, &mut sink)? {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    sink.notes()
        .iter()
        .for_each(|note| output::complain(&format!("note: {note}")));
    if which.result.is_none() && !others.is_empty() {
        let others = others.join(", ");
        output::complain(&format!(
            "note: the job has other results, which --result shows: {others}"
        ));
    }
    Ok(CommandOutcome::Done)
}

/// The selected result, and the names of the others.
fn chosen(
    mut all: Vec<JobResultReader>,
    which: &JobRowSelection,
) -> anyhow::Result<(JobResultReader, Vec<String>)> {
    let names: Vec<String> = all
        .iter()
        .map(|of| of.head.processor.clone().unwrap_or_default())
        .collect();
    let at = match &which.result {
        None => 0,
        Some(said) => {
            let place = said.parse().ok().filter(|at| *at < names.len());
            place
                .or_else(|| names.iter().position(|name| name == said))
                .ok_or_else(|| {
                    anyhow!(
                        "job {} has no result {said}; it has {}",
                        which.job,
                        names.join(", ")
                    )
                })?
        }
    };
    if all.is_empty() {
        return Err(anyhow!("job {} has not started: no rows yet", which.job));
    }
    let others = names
        .into_iter()
        .enumerate()
        .filter(|(i, _)| *i != at)
        .map(|(_, name)| name)
        .collect();
    Ok((all.swap_remove(at).with(&which.params), others))
}

/// Writes all rows; the inner error is that of the output.
fn write(
    remote: &ServerClient,
    served: &mut JobResultReader,
    sink: &mut dyn Sink,
) -> anyhow::Result<std::io::Result<()>> {
    loop {
        let (batches, has_more) = served.next(remote)?;
        for batch in batches
            .iter()
            .map(without_coverage)
            .filter(|batch| batch.rows() > 0)
        {
            if let Err(error) = sink.write(0, &batch) {
                return Ok(Err(error));
            }
        }
        if !has_more {
            return Ok(sink.finish());
        }
    }
}
