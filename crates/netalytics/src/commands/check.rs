//! `netalytics check 'QUERY' -r FILE… --assert 'p99 < 50ms'`: exit status 0 if all assertions hold, 1 if not.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use capture::seccomp::FileAccess;
use planner::PlanOptions;
use query::CheckedQuery;
use runner::RowWriting;
use serde_json::json;
use sinks::Sink;
use stream::compare::ComparedResult;
use tuple::{Batch, Schema};

use crate::cli::flags::CheckFlags;
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::commands::query_stored;
use crate::process::failure::{CommandOutcome, UsageError, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::output;
use crate::run::assertions::{AssertionOutcome, ParsedAssertion, ResultRows, junit};
use crate::run::comparison::ComparisonInput;
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::work;

/// Checks the assertions.
pub fn check(flags: &CheckFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let query = CommandQuery::read(&flags.work.text)?;
    if let Some(path) = &flags.report {
        let inputs: Vec<_> = flags.work.read.iter().chain(&flags.baseline).collect();
        output::refuse_inputs(path, &inputs)?;
    }
    let is_compared = !flags.baseline.is_empty() || query.has_baseline();
    let telling = if verbose {
        Verbosity::Everything
    } else {
        Verbosity::Errors
    };
    let held = match &flags.kept.server {
        Some(server) => kept(server, flags, &query, quiet)?,
        None if is_compared => compared(flags, &query, telling)?,
        None => answered(flags, &query, telling)?,
    };
    let answer = ResultRows {
        schema: &held.schema,
        keys: held.keys,
        batches: &held.batches,
    };
    let mut outcomes: Vec<AssertionOutcome> = held
        .asserted
        .iter()
        .map(|asserted| asserted.judge(&answer, flags.allow_empty))
        .collect();
    if held.ended != CommandOutcome::Done {
        outcomes.push(AssertionOutcome::unread());
    }
    if let Some(path) = &flags.report {
        let passed = outcomes.iter().all(|outcome| outcome.failure.is_none());
        let rows: usize = held.batches.iter().map(Batch::rows).sum();
        report(path, query.text(), rows, passed, &outcomes)?;
    }
    let shown: String = outcomes
        .iter()
        .filter(|outcome| !quiet || outcome.failure.is_some())
        .map(AssertionOutcome::lines)
        .collect();
    output::print(output::visible_lines(&shown).as_bytes())?;
    Ok(
        if outcomes.iter().all(|outcome| outcome.failure.is_none()) {
            CommandOutcome::Done
        } else {
            CommandOutcome::Incomplete
        },
    )
}

/// A result and its assertions.
struct CheckedResult {
    asserted: Vec<ParsedAssertion>,
    schema: Arc<Schema>,
    keys: usize,
    batches: Vec<Batch>,
    ended: CommandOutcome,
}

/// Answers the query.
fn answered(
    flags: &CheckFlags,
    query: &CommandQuery,
    telling: Verbosity,
) -> anyhow::Result<CheckedResult> {
    let collecting = CheckTarget {
        flags,
        shared: Rc::default(),
    };
    let ended = work(&flags.work, query, &collecting, telling)?;
    let shared = collecting.shared.take();
    let (asserted, schema, keys) = shared.about.context("nothing was answered")?;
    Ok(CheckedResult {
        asserted,
        schema,
        keys,
        batches: shared.batches,
        ended,
    })
}

/// Answer from stored data of a server's jobs.
fn kept(
    server: &str,
    flags: &CheckFlags,
    query: &CommandQuery,
    quiet: bool,
) -> anyhow::Result<CheckedResult> {
    let mut kept = query_stored::ask(server, &flags.kept, query, flags.confidence)?;
    kept.mention(Verbosity::of(quiet, false));
    let schemas: Vec<&Arc<Schema>> = kept
        .results
        .iter()
        .map(|(result, _)| &result.schema)
        .collect();
    let asserted = asserted(flags, &schemas)?;
    let (result, batches) = kept.results.remove(0);
    if result.head.processor.is_none() {
        return Err(wrong_flags(
            "assertions need results, and a query without PROCESS has only tuples: add PROCESS",
        ));
    }
    let windows = result.schema.find("window_start").map_or(0, |_| 2);
    Ok(CheckedResult {
        asserted,
        keys: result.head.keys + windows,
        schema: result.schema,
        batches,
        ended: CommandOutcome::Done,
    })
}

/// Answers the query and compares it with its baseline.
fn compared(
    flags: &CheckFlags,
    query: &CommandQuery,
    telling: Verbosity,
) -> anyhow::Result<CheckedResult> {
    let mut about = None;
    let comparing = ComparisonInput {
        own: &flags.work,
        baseline: &flags.baseline,
        confidence: flags.confidence,
    };
    let mut done = comparing.run(query, telling, &mut |results: &[ComparedResult]| {
        let schemas: Vec<&Arc<Schema>> = results.iter().map(ComparedResult::schema).collect();
        about = Some(asserted(flags, &schemas)?);
        Ok(())
    })?;
    let asserted = about.context("nothing was compared")?;
    let only = done.results.remove(0);
    Ok(CheckedResult {
        asserted,
        schema: only.schema().clone(),
        keys: only.keys,
        batches: done.rows.remove(0),
        ended: done.ended,
    })
}

/// Assertions on the only result.
fn asserted(flags: &CheckFlags, schemas: &[&Arc<Schema>]) -> anyhow::Result<Vec<ParsedAssertion>> {
    let [schema] = schemas else {
        return Err(wrong_flags(format!(
            "assertions apply to one result, and the query has {}: check them one by one",
            schemas.len()
        )));
    };
    let mut all = Vec::new();
    let mut wrong = String::new();
    for text in &flags.asserts {
        match query::check_assertion(text, schema) {
            Ok(assertion) => all.push(ParsedAssertion {
                text: text.clone(),
                assertion,
            }),
            Err(errors) => wrong.push_str(&query::render(&errors, text)),
        }
    }
    if wrong.is_empty() {
        Ok(all)
    } else {
        Err(UsageError::Query(wrong).into())
    }
}

fn report(
    path: &Path,
    query: &str,
    rows: usize,
    passed: bool,
    outcomes: &[AssertionOutcome],
) -> anyhow::Result<()> {
    let text = if path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("xml"))
    {
        junit(query, outcomes)
    } else {
        let assertions: Vec<_> = outcomes.iter().map(AssertionOutcome::json).collect();
        let report =
            json!({ "query": query, "passed": passed, "rows": rows, "assertions": assertions });
        format!("{report:#}\n")
    };
    let mut file = output::create(path, FileOwner::Us)?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Collects the rows of a result.
struct CheckTarget<'a> {
    flags: &'a CheckFlags,
    shared: Rc<RefCell<CheckedRows>>,
}

#[derive(Default)]
struct CheckedRows {
    /// The assertions, and the schema and number of key columns of their result.
    about: Option<(Vec<ParsedAssertion>, Arc<Schema>, usize)>,
    batches: Vec<Batch>,
}

impl ResultTarget for CheckTarget<'_> {
    type Ready = ();

    fn path(&self) -> Option<&Path> {
        self.flags.report.as_deref()
    }

    fn files(&self) -> FileAccess {
        FileAccess::New
    }

    fn writing(&self) -> RowWriting {
        RowWriting::AtOnce
    }

    fn options(&self, query: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        let pipelines = &query.processors;
        if pipelines.is_empty() {
            return Err(wrong_flags(
                "assertions need results, and a query without PROCESS has only tuples: add PROCESS",
            ));
        }
        if pipelines.iter().any(|pipeline| pipeline.profile.is_some()) {
            return Err(wrong_flags(
                "a workload profile cannot be checked: check its values with other processors",
            ));
        }
        Ok(options)
    }

    fn prepare(&self, _: &str) -> anyhow::Result<()> {
        Ok(())
    }

    fn name(&self, (): &()) -> (String, bool) {
        ("the check".into(), false)
    }

    fn open(&self, (): (), opened: SinkContext) -> anyhow::Result<Box<dyn Sink>> {
        let schemas: Vec<&Arc<Schema>> = opened.tables.iter().map(|table| &table.schema).collect();
        let asserted = asserted(self.flags, &schemas)?;
        let head = &opened.heads[0];
        let keys = head.keys + if head.slide_ns.is_some() { 2 } else { 0 };
        self.shared.borrow_mut().about = Some((asserted, schemas[0].clone(), keys));
        Ok(Box::new(CheckRowSink(self.shared.clone())))
    }
}

struct CheckRowSink(Rc<RefCell<CheckedRows>>);

impl Sink for CheckRowSink {
    fn write(&mut self, _: usize, batch: &Batch) -> io::Result<()> {
        self.0.borrow_mut().batches.push(batch.clone());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
