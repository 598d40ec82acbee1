//! `netalytics report ['QUERY'] -r FILE…` or `-i IFACE`: the result as one self-contained HTML file; without a query,
//! an overview.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use anyhow::anyhow;
use capture::seccomp::FileAccess;
use plan::expr::Column;
use plan::{AggregateFunction, GroupBy, Pipeline, Plan, ResultSelection, SampleMode};
use planner::PlanOptions;
use query::CheckedQuery;
use runner::{RowWriting, RunSummary};
use sinks::Sink;
use tuple::{Batch, RedactionSecret, Redactor, common};

use crate::cli::flags::positional::is_given;
use crate::cli::flags::{ReportFlags, ReportFormat, TrafficInputFlags};
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::diagnose::overview::queries::OverviewQueries;
use crate::diagnose::overview::rows::CollectedResults;
use crate::diagnose::overview::{advice, findings};
use crate::diagnose::service_map::edges::MapQueries;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output::OutputDestination;
use crate::render::report::page::{self, Read, ReportFrame};
use crate::render::report::rows::ReportRows;
use crate::run::multi_query::{self, look_into};
use crate::run::redaction::{self, secret};
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::run_query::{self, work};
use crate::source::recording_replay;

/// Name of the additional result with the quality of tuples.
const QUALITIES: &str = "quality";
/// Limit of groups; exceeds the number of quality values.
const QUALITIES_MAX: usize = 64;

/// Writes the report.
pub fn report(flags: &ReportFlags, quiet: bool, verbose: bool) -> anyhow::Result<CommandOutcome> {
    let telling = Verbosity::of(quiet, verbose);
    if !is_given(&flags.work.text) {
        return overview(flags, telling);
    }
    if flags.span.is_some() {
        return Err(wrong_flags(
            "--for applies to a report without a query: use LIMIT in the query",
        ));
    }
    let query = CommandQuery::read(&flags.work.text)?;
    let finding = ReportTarget {
        flags,
        kept: Rc::default(),
        results: Cell::default(),
        shown_plan: RefCell::default(),
        out: RefCell::default(),
    };
    work(&flags.work, &query, &finding, telling)
}

/// A report of a query in progress.
struct ReportTarget<'a> {
    flags: &'a ReportFlags,
    kept: Rc<RefCell<ReportRows>>,
    /// Number of results of the query.
    results: Cell<usize>,
    /// The plan without the additional result, if there is one.
    shown_plan: RefCell<Option<Plan>>,
    out: RefCell<Option<Box<dyn Write + Send>>>,
}

impl ResultTarget for ReportTarget<'_> {
    type Ready = (OutputDestination, Option<RedactionSecret>);

    fn path(&self) -> Option<&Path> {
        self.flags.output.as_deref()
    }

    fn files(&self) -> FileAccess {
        FileAccess::ReadOnly
    }

    fn writing(&self) -> RowWriting {
        RowWriting::AtOnce
    }

    fn options(&self, query: &CheckedQuery, options: PlanOptions) -> anyhow::Result<PlanOptions> {
        self.results.set(query.processors.len().max(1));
        let work = &self.flags.work;
        let is_of_packets = work.bus.kafka.is_none()
            && work.network.network.is_none()
            && !recording_replay::asked(&work.read)?;
        if !is_of_packets || query.processors.is_empty() {
            return Ok(options);
        }
        *self.shown_plan.borrow_mut() = Some(planner::lower_with(query, &options));
        Ok(PlanOptions {
            columns: vec![common::QUALITY],
            pipelines: vec![qualities()],
            ..options
        })
    }

    fn prepare(&self, _: &str) -> anyhow::Result<Self::Ready> {
        prepare(self.flags)
    }

    fn name(&self, (destination, _): &Self::Ready) -> (String, bool) {
        (destination.name.clone(), destination.terminal)
    }

    fn open(
        &self,
        (destination, secret): Self::Ready,
        opened: SinkContext,
    ) -> anyhow::Result<Box<dyn Sink>> {
        *self.out.borrow_mut() = Some(destination.writer);
        let names = (!self.flags.no_resolve).then_some(opened.names.names);
        let mut heads = opened.heads;
        heads.truncate(self.results.get());
        *self.kept.borrow_mut() = ReportRows::new(heads, names);
        Ok(redaction::behind(
            SharedReportRows(self.kept.clone()),
            secret,
        ))
    }

    fn conclude(&self, plan: &Plan, summary: &mut RunSummary) {
        let shown_plan = self.shown_plan.borrow();
        let plan = shown_plan.as_ref().unwrap_or(plan);
        let kept = self.kept.borrow();
        let qualities = by_number(in_sample(kept.qualities.clone(), plan.monitor.sample));
        // Rows of the additional result are not counted.
        summary.rows = kept.results.iter().map(|of| of.all).sum();
        let flags = self.flags;
        let made = match flags.format {
            ReportFormat::Html => {
                let others = names(flags).split_off(flags.work.read.len());
                let frame = ReportFrame {
                    title: &title(flags),
                    account: Read {
                        summary,
                        files: &flags.work.read,
                        others: &others,
                        qualities: &qualities,
                        tuples: Some(summary.accounting.tuples),
                        zone: &flags.time_zone,
                    },
                    is_plain: flags.no_redact,
                    can_be_repeated: others.is_empty(),
                };
                let words = planner::explain(plan);
                // The query itself is shown above.
                let words = words
                    .split_once("\n\n")
                    .map_or(words.as_str(), |(_, rest)| rest);
                Ok(page::of_query(&frame, &plan.query, words, &kept))
            }
            ReportFormat::Svg => page::first_picture(&kept, &flags.time_zone).ok_or(
                "no chart for this result: use groups, windows or a distribution".to_owned(),
            ),
        };
        let written = made.and_then(|text| match self.out.take() {
            Some(mut out) => {
                put(&mut out, &text).map_err(|error| format!("cannot write the report: {error}"))
            }
            None => Ok(()),
        });
        summary.output_errors.extend(written.err());
    }
}

/// The overview report.
fn overview(flags: &ReportFlags, telling: Verbosity) -> anyhow::Result<CommandOutcome> {
    if flags.format == ReportFormat::Svg {
        return Err(wrong_flags("--format svg requires a query"));
    }
    if flags.work.count.is_some() {
        return Err(wrong_flags("--count needs a query: use --for"));
    }
    if flags.work.write.is_some() {
        return Err(wrong_flags("--write requires a query"));
    }
    run_query::check_paths(&flags.work, flags.output.as_deref())?;
    let work = &flags.work;
    let look = TrafficInputFlags {
        read: work.read.clone(),
        live: work.live.clone(),
        words: Vec::new(),
        span: flags.span,
        progress: work.progress,
        workers: work.workers,
        limits: work.limits.clone(),
    };
    let (mut destination, secret) = prepare(flags)?;
    let questions = OverviewQueries::new();
    let map = MapQueries::new();
    let qualities = questions.protocols.iter().map(|protocol| {
        format!(
            "PARSE {} PROCESS (group-count: group={QUALITIES})",
            protocol.parser
        )
    });
    let texts: Vec<String> = questions
        .texts
        .iter()
        .chain(&map.texts)
        .cloned()
        .chain(qualities)
        .collect();
    let mut sink = OverviewRowSink {
        rows: CollectedResults::default(),
        redactor: secret.map(Redactor::new),
    };
    let summary = look_into(&mut sink, &look, &texts, telling)?;
    let mut rows = sink.rows;
    // Queries about flows and protocols have several results; those of the map and of qualities one each.
    let of_map = questions.results();
    let of_qualities = map.texts.len();
    let mut map_rows = rows.split_off(of_map);
    let quality_rows = map_rows.split_off(of_qualities);
    let mut sums = BTreeMap::<String, u64>::new();
    for row in (0..questions.protocols.len()).flat_map(|place| quality_rows.rows(place)) {
        *sums.entry(row.text(QUALITIES)).or_default() += row.number("count");
    }
    let mut found = findings::find(&questions, &rows, &summary);
    found.next = advice::queries(&found, &questions);
    let others = names(flags).split_off(work.read.len());
    let frame = ReportFrame {
        title: &title(flags),
        account: Read {
            summary: &summary,
            files: &work.read,
            others: &others,
            qualities: &by_number(sums),
            tuples: None,
            zone: &flags.time_zone,
        },
        is_plain: flags.no_redact,
        can_be_repeated: others.is_empty(),
    };
    let text = page::of_overview(
        &frame,
        &found,
        &map.edges(&map_rows),
        &texts,
        &multi_query::input(&look),
    );
    put(&mut destination.writer, &text)
        .map_err(|error| anyhow!("cannot write the report: {error}"))?;
    Ok(multi_query::told(
        &summary,
        CommandOutcome::Done,
        telling == Verbosity::Everything,
    ))
}

/// Opens files that need privileges.
fn prepare(flags: &ReportFlags) -> anyhow::Result<(OutputDestination, Option<RedactionSecret>)> {
    let destination =
        OutputDestination::open(flags.output.as_deref(), flags.work.live.file_owner())?;
    if destination.terminal {
        return Err(wrong_flags(
            "a report cannot be written to a terminal: use -o FILE",
        ));
    }
    let secret = if flags.no_redact {
        None
    } else {
        Some(secret(flags.redact_key.as_deref())?)
    };
    Ok((destination, secret))
}

fn put(out: &mut dyn Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn names(flags: &ReportFlags) -> Vec<String> {
    flags.work.inputs()
}

fn title(flags: &ReportFlags) -> String {
    flags
        .title
        .clone()
        .unwrap_or_else(|| names(flags).join(", "))
}

/// Counts tuples by quality.
fn qualities() -> Pipeline {
    let column = Column {
        input: 0,
        field: common::QUALITY,
    };
    Pipeline {
        name: QUALITIES.into(),
        values: Vec::new(),
        value_required: false,
        group: vec![GroupBy {
            column,
            name: QUALITIES.into(),
        }],
        aggregates: vec![AggregateFunction::Count.into()],
        top_k: None,
        window: None,
        groups_max: QUALITIES_MAX,
        selection: ResultSelection::default(),
        profile: None,
    }
}

/// Scales counts of a sample to all flows.
fn in_sample(mut all: BTreeMap<String, u64>, sample: SampleMode) -> BTreeMap<String, u64> {
    if let SampleMode::Fraction(share) = sample {
        all.values_mut()
            .for_each(|n| *n = (*n as f64 * share).round() as u64);
    }
    all
}

/// Sorted by count, descending.
fn by_number(all: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Rows shared with the writer of the file.
struct SharedReportRows(Rc<RefCell<ReportRows>>);

impl Sink for SharedReportRows {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        self.0.borrow_mut().write(result, batch)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        self.0.borrow_mut().learn_name(ip, name);
    }
}

/// Redacted rows of an overview.
struct OverviewRowSink {
    rows: CollectedResults,
    redactor: Option<Redactor>,
}

impl Sink for OverviewRowSink {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        match &mut self.redactor {
            Some(redactor) => self.rows.write(result, &redactor.redact(batch)),
            None => self.rows.write(result, batch),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
