//! `netalytics check 'QUERY' -r FILE… --assert 'p99 < 50ms'`: exit status 0 if all assertions hold, 1 if not.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use capture::seccomp::Files;
use runner::Writing;
use serde_json::json;
use sinks::Sink;
use stream::compare::Compared;
use tuple::{Batch, Schema};

use crate::asserting::{Answer, Asserted, Outcome, junit};
use crate::commands::query_past;
use crate::commands::work::{Opened, Target, Telling, work};
use crate::comparing::Comparing;
use crate::failure::{Ended, WrongUse, wrong_flags};
use crate::flags::CheckFlags;
use crate::live::Owner;
use crate::{output, query_text};

/// Checks the assertions.
pub fn check(flags: &mut CheckFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    let text = query_text::read(&flags.work.text)?;
    flags.work.text.query = Some(text.clone());
    if let Some(path) = &flags.report {
        let inputs: Vec<_> = flags.work.read.iter().chain(&flags.baseline).collect();
        output::refuse_inputs(path, &inputs)?;
    }
    let is_compared = !flags.baseline.is_empty() || query::parse(&text).0.baseline.is_some();
    let telling = if verbose { Telling::Everything } else { Telling::Errors };
    let held = match &flags.kept.server {
        Some(server) => kept(server, flags, &text, quiet)?,
        None if is_compared => compared(flags, telling)?,
        None => answered(flags, telling)?,
    };
    let answer = Answer { schema: &held.schema, keys: held.keys, batches: &held.batches };
    let mut outcomes: Vec<Outcome> =
        held.asserted.iter().map(|asserted| asserted.judge(&answer, flags.allow_empty)).collect();
    if held.ended != Ended::Done {
        outcomes.push(Outcome::unread());
    }
    if let Some(path) = &flags.report {
        let passed = outcomes.iter().all(|outcome| outcome.failure.is_none());
        let rows: usize = held.batches.iter().map(Batch::rows).sum();
        report(path, &text, rows, passed, &outcomes)?;
    }
    let shown: String =
        outcomes.iter().filter(|outcome| !quiet || outcome.failure.is_some()).map(Outcome::lines).collect();
    output::print(output::visible_lines(&shown).as_bytes())?;
    Ok(match outcomes.iter().all(|outcome| outcome.failure.is_none()) {
        true => Ended::Done,
        false => Ended::Incomplete,
    })
}

/// A result and its assertions.
struct Held {
    asserted: Vec<Asserted>,
    schema: Arc<Schema>,
    keys: usize,
    batches: Vec<Batch>,
    ended: Ended,
}

/// Answers the query.
fn answered(flags: &CheckFlags, telling: Telling) -> anyhow::Result<Held> {
    let collecting = Collecting { flags, shared: Rc::default() };
    let ended = work(&flags.work, &collecting, telling)?;
    let shared = collecting.shared.take();
    let (asserted, schema, keys) = shared.about.context("nothing was answered")?;
    Ok(Held { asserted, schema, keys, batches: shared.batches, ended })
}

/// Answer from stored data of a server's jobs.
fn kept(server: &str, flags: &CheckFlags, text: &str, quiet: bool) -> anyhow::Result<Held> {
    let mut kept = query_past::ask(server, &flags.kept, text, flags.confidence)?;
    kept.mention(Telling::of(quiet, false));
    let schemas: Vec<&Arc<Schema>> = kept.results.iter().map(|(result, _)| &result.schema).collect();
    let asserted = asserted(flags, &schemas)?;
    let (result, batches) = kept.results.remove(0);
    if result.head.processor.is_none() {
        return Err(wrong_flags(
            "results are checked, and without PROCESS there are only tuples: add PROCESS",
        ));
    }
    let windows = result.schema.find("window_start").map_or(0, |_| 2);
    Ok(Held {
        asserted,
        keys: result.head.keys + windows,
        schema: result.schema,
        batches,
        ended: Ended::Done,
    })
}

/// Answers the query and compares it with its baseline.
fn compared(flags: &CheckFlags, telling: Telling) -> anyhow::Result<Held> {
    let mut about = None;
    let comparing = Comparing { own: &flags.work, baseline: &flags.baseline, confidence: flags.confidence };
    let mut done = comparing.run(telling, &mut |results: &[Compared]| {
        let schemas: Vec<&Arc<Schema>> = results.iter().map(Compared::schema).collect();
        about = Some(asserted(flags, &schemas)?);
        Ok(())
    })?;
    let asserted = about.context("nothing was compared")?;
    let only = done.results.remove(0);
    Ok(Held {
        asserted,
        schema: only.schema().clone(),
        keys: only.keys,
        batches: done.rows.remove(0),
        ended: done.ended,
    })
}

/// Assertions on the only result.
fn asserted(flags: &CheckFlags, schemas: &[&Arc<Schema>]) -> anyhow::Result<Vec<Asserted>> {
    let [schema] = schemas else {
        return Err(wrong_flags(format!(
            "assertions are about one result, and the query has {}: check them one by one",
            schemas.len()
        )));
    };
    let (mut all, mut wrong) = (Vec::new(), String::new());
    for text in &flags.asserts {
        match query::check_assertion(text, schema) {
            Ok(assertion) => all.push(Asserted { text: text.clone(), assertion }),
            Err(errors) => wrong.push_str(&query::render(&errors, text)),
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(WrongUse::Query(wrong).into()) }
}

fn report(path: &Path, query: &str, rows: usize, passed: bool, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let text = match path.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml")) {
        true => junit(query, outcomes),
        false => {
            let assertions: Vec<_> = outcomes.iter().map(Outcome::json).collect();
            let report = json!({ "query": query, "passed": passed, "rows": rows, "assertions": assertions });
            format!("{report:#}\n")
        }
    };
    let mut file = output::create(path, Owner::Us)?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Collects the rows of a result.
struct Collecting<'a> {
    flags: &'a CheckFlags,
    shared: Rc<RefCell<Collected>>,
}

#[derive(Default)]
struct Collected {
    /// The assertions, and the schema and number of key columns of their result.
    about: Option<(Vec<Asserted>, Arc<Schema>, usize)>,
    batches: Vec<Batch>,
}

impl Target for Collecting<'_> {
    type Ready = ();

    fn path(&self) -> Option<&Path> {
        self.flags.report.as_deref()
    }

    fn files(&self) -> Files {
        Files::New
    }

    fn writing(&self) -> Writing {
        Writing::AtOnce
    }

    fn fit(&self, plan: &mut plan::Plan) -> anyhow::Result<()> {
        let pipelines = &plan.dataflow.pipelines;
        if pipelines.is_empty() {
            return Err(wrong_flags(
                "results are checked, and without PROCESS there are only tuples: add PROCESS",
            ));
        }
        if pipelines.iter().any(|pipeline| pipeline.profile.is_some()) {
            return Err(wrong_flags(
                "a workload profile cannot be checked: check its values with other processors",
            ));
        }
        Ok(())
    }

    fn prepare(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn name(&self, (): &()) -> (String, bool) {
        ("the check".into(), false)
    }

    fn open(&self, (): (), opened: Opened) -> anyhow::Result<Box<dyn Sink>> {
        let schemas: Vec<&Arc<Schema>> = opened.tables.iter().map(|table| &table.schema).collect();
        let asserted = asserted(self.flags, &schemas)?;
        let head = &opened.heads[0];
        let keys = head.keys + if head.slide_ns.is_some() { 2 } else { 0 };
        self.shared.borrow_mut().about = Some((asserted, schemas[0].clone(), keys));
        Ok(Box::new(ToRows(self.shared.clone())))
    }
}

struct ToRows(Rc<RefCell<Collected>>);

impl Sink for ToRows {
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
