//! Queries over a server's captures and recordings: in the server process, with one worker and limited memory and time.
//! Rows equal those of `query -r`. Output contains no file paths, because any permitted user may see it.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use capture::PacketSource;
use capture::live::StopSignal;
use monitor::JobInput;
use plan::{SampleMode, TimeBounds};
use planner::{PlanOptions, PlanOutput};
use query::CheckedQuery;
use recording::{DataSet, TableKind};
use runner::replay::{self, ReplayError};
use runner::{MemoryDivision, QueryRun, RowWriting, RunObserver, RunSummary, memory};
use server::{
    FlowRequest, ReadLimits, RecordedFlow, RecordingAnswer, RecordingInspection,
    RecordingQueryError, RecordingReader, RecordingResult,
};
use sinks::{Sink, distinct_names};
use stream::compare::{self, ComparisonSide, PeriodComparison};
use tuple::{Batch, FieldId};

use super::flow_reader::{self, FlowReading};
use crate::source::period;

/// Captures up to this size are read completely to determine the time of the last packet.
const SHORT_BYTES: u64 = 16 << 20;
/// Time limit for that.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// See the module documentation.
pub struct StoredRecordingReader;

impl RecordingReader for StoredRecordingReader {
    fn look(&self, path: &Path) -> Result<RecordingInspection, String> {
        if path.is_dir() {
            recording(path)
        } else {
            captured(path)
        }
    }

    fn ask(
        &self,
        path: &Path,
        query: &CheckedQuery,
        limits: ReadLimits,
    ) -> Result<RecordingAnswer, RecordingQueryError> {
        let asked = StoredQuery {
            path,
            query,
            limits,
            until: Instant::now() + limits.time,
        };
        match query.baseline {
            None => asked.answer(),
            Some(_) => asked.compare(),
        }
    }

    fn follow(
        &self,
        path: &Path,
        asked: &FlowRequest,
    ) -> Result<Option<RecordedFlow>, RecordingQueryError> {
        if path.is_dir() {
            return Err(RecordingQueryError::Wrong(
                "a recording has no packets: use its captures".into(),
            ));
        }
        let read = read_in_time(path, Instant::now() + asked.time, |source, stop| {
            flow_reader::read(source, asked, stop)
        });
        match read {
            (Err(error), _) => Err(RecordingQueryError::Wrong(format!(
                "the packets could not be stored: {error}"
            ))),
            (Ok(FlowReading::Stopped), _) => Err(RecordingQueryError::Late(
                "the flow was not found in time: use a smaller file".into(),
            )),
            (Ok(FlowReading::Absent), None) => Ok(None),
            (Ok(FlowReading::Absent), Some(error)) => Err(RecordingQueryError::Wrong(error)),
            (Ok(FlowReading::Found(mut flow)), error) => {
                flow.conversation.notes.extend(error);
                Ok(Some(*flow))
            }
        }
    }
}

fn recording(path: &Path) -> Result<RecordingInspection, String> {
    let set = DataSet::open(&[path.to_owned()]);
    let tables = || {
        set.tables
            .values()
            .filter(|table| table.heads().any(|head| head.kind == TableKind::Tuples))
    };
    let mut parsers: Vec<String> = tables()
        .filter_map(recording::RecordedTable::holds)
        .collect();
    parsers.sort_unstable();
    parsers.dedup();
    let heads = || tables().flat_map(recording::RecordedTable::heads);
    if parsers.is_empty() {
        return Err("it contains no recording".into());
    }
    Ok(RecordingInspection {
        first_ns: heads().filter_map(|head| head.capture.first_ts).min(),
        last_ns: heads().filter_map(|head| head.capture.last_ts).max(),
        is_redacted: heads().all(|head| head.redacted.is_some()),
        parsers,
    })
}

fn captured(path: &Path) -> Result<RecordingInspection, String> {
    let is_short = path
        .metadata()
        .is_ok_and(|found| found.len() <= SHORT_BYTES);
    let until = Instant::now() + LOOKED_AT;
    let extent = extent_in_time(path, until, is_short)?;
    let is_whole = is_short && Instant::now() < until;
    Ok(RecordingInspection {
        first_ns: extent.map(|(first, _)| first),
        last_ns: extent.map(|(_, last)| last).filter(|_| is_whole),
        ..RecordingInspection::default()
    })
}

/// Time of the first and the last packet of a capture, reading until a deadline: to its end, or only its first block.
fn extent_in_time(
    path: &Path,
    until: Instant,
    to_its_end: bool,
) -> Result<Option<(i64, i64)>, String> {
    let read = read_in_time(path, until, |source, _| {
        period::extent_of_packets(source, || to_its_end && Instant::now() < until)
    });
    match read {
        (None, Some(error)) => Err(error),
        (extent, _) => Ok(extent),
    }
}

/// Reads a capture, which is stopped at the deadline; returns the result, and the first error of the capture.
fn read_in_time<T>(
    path: &Path,
    until: Instant,
    read: impl FnOnce(&mut dyn PacketSource, &StopSignal) -> T,
) -> (T, Option<String>) {
    let stop = StopSignal::default();
    let mut source = capture::open_until(&[path.to_owned()], &stop);
    let (reading, is_read) = channel::<()>();
    let result = thread::scope(|scope| {
        // A single block may take long, for example if highly compressed.
        let left = until.saturating_duration_since(Instant::now());
        let late = stop.clone();
        scope.spawn(move || {
            let _ = is_read.recv_timeout(left);
            late.stop();
        });
        let result = read(&mut *source, &stop);
        drop(reading);
        result
    });
    let error = source.errors().first().map(|error| error.message.clone());
    (result, error)
}

fn late() -> RecordingQueryError {
    RecordingQueryError::Late(
        "the query took too long and was stopped: choose a shorter time, or a smaller file".into(),
    )
}

/// A query of an entry.
struct StoredQuery<'a> {
    path: &'a Path,
    query: &'a CheckedQuery,
    limits: ReadLimits,
    until: Instant,
}

/// Properties of a run besides its rows.
struct StoredRunResult {
    tables: Vec<(Option<String>, runner::RunResultTable)>,
    summary: RunSummary,
    notes: Vec<String>,
}

impl StoredQuery<'_> {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.to_owned()]
    }

    /// Period from the first packet to after the last.
    fn extent(&self) -> Result<TimeBounds, RecordingQueryError> {
        let extent = if self.path.is_dir() {
            period::extent_of_recordings(&self.files())
        } else {
            // The run reports unreadable input.
            extent_in_time(self.path, self.until, true).unwrap_or_default()
        };
        if Instant::now() >= self.until {
            return Err(late());
        }
        Ok(TimeBounds {
            since_ns: extent.map(|(first, _)| first),
            until_ns: extent.map(|(_, last)| last.saturating_add(1)),
        })
    }

    fn periods(&self) -> Result<(TimeBounds, Option<TimeBounds>), RecordingQueryError> {
        let query = self.query;
        if query.period.is_open() && query.baseline.is_none() {
            return Ok((TimeBounds::default(), None));
        }
        let counts_back = query.period.counts_back() || query.baseline.is_some();
        let end_ns = if counts_back {
            self.extent()?.until_ns.map_or(0, |until| until - 1)
        } else {
            0
        };
        let own = query.period.settle(end_ns);
        let own = match query.baseline {
            Some(_) => TimeBounds {
                until_ns: own.until_ns.or(Some(end_ns.saturating_add(1))),
                ..own
            },
            None => own,
        };
        let baseline = query.baseline.map(|baseline| baseline.settle(own, end_ns));
        if [Some(own), baseline]
            .iter()
            .flatten()
            .any(TimeBounds::is_empty)
        {
            Err(RecordingQueryError::Wrong(
                "a period is empty: it ends before it starts; relative times count back from the last packet"
                    .into(),
            ))
        } else {
            Ok((own, baseline))
        }
    }

    fn answer(&self) -> Result<RecordingAnswer, RecordingQueryError> {
        let (own, _) = self.periods()?;
        let mut rows = FirstRows {
            most: self.limits.rows_max,
            results: Vec::new(),
        };
        let StoredRunResult {
            tables,
            summary,
            mut notes,
            ..
        } = self.run(own, PlanOutput::Results, &mut rows)?;
        notes.extend(self.said(&summary));
        let results = tables
            .into_iter()
            .enumerate()
            .map(|(place, (processor, table))| {
                let (batches, left_out) = rows
                    .results
                    .get_mut(place)
                    .map(std::mem::take)
                    .unwrap_or_default();
                let keys = self.keys(place);
                RecordingResult {
                    processor,
                    keys,
                    schema: table.schema,
                    columns: table.columns,
                    batches,
                    left_out,
                }
            });
        let results = results.collect();
        let seen = summary
            .seen
            .map(|(first, last)| (first.0, last.0.saturating_add(1)));
        let of = |ours: Option<i64>, seen: Option<i64>| ours.or(seen);
        let known = match (own.since_ns.is_some() && own.until_ns.is_some(), seen) {
            (false, None) if self.path.is_dir() => self.extent()?,
            _ => TimeBounds {
                since_ns: seen.map(|(first, _)| first),
                until_ns: seen.map(|(_, last)| last),
            },
        };
        let period = of(own.since_ns, known.since_ns).zip(of(own.until_ns, known.until_ns));
        let tuples = summary.accounting.tuples;
        Ok(RecordingAnswer {
            results,
            period,
            baseline: None,
            tuples,
            notes,
        })
    }

    /// Number of group columns of a result.
    fn keys(&self, place: usize) -> usize {
        self.query
            .processors
            .get(place)
            .map_or(0, |pipeline| pipeline.group.len())
    }

    fn compare(&self) -> Result<RecordingAnswer, RecordingQueryError> {
        if self.query.sample != SampleMode::All {
            return Err(RecordingQueryError::Wrong(
                "a comparison uses every flow: omit SAMPLE".into(),
            ));
        }
        let (own, baseline) = self.periods()?;
        let baseline = baseline.unwrap_or_default();
        let both = TimeBounds {
            since_ns: own.since_ns.min(baseline.since_ns),
            until_ns: own.until_ns.max(baseline.until_ns),
        };
        let options = PlanOptions {
            bounds: both,
            ..PlanOptions::default()
        };
        let plan = planner::lower_with(self.query, &options);
        if let Some(why) = compare::refused(&plan.dataflow) {
            return Err(RecordingQueryError::Wrong(why.into()));
        }
        let limits = self.memory();
        let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce)
            .config(&limits)
            .stream;
        let mut comparison = PeriodComparison::new(
            &plan.dataflow,
            &config,
            own,
            baseline,
            self.limits.confidence,
        );
        let mut notes = Vec::new();
        let mut tuples = 0;
        for (side, bounds, name) in [
            (ComparisonSide::Baseline, baseline, "baseline"),
            (ComparisonSide::Own, own, "period"),
        ] {
            let mut half = ComparisonPeriod {
                side,
                comparison: &mut comparison,
                tuples: 0,
            };
            let ran = self.run(bounds, PlanOutput::Comparison, &mut half)?;
            if half.tuples == 0 {
                notes.push(format!("the {name} has no data"));
            }
            tuples += half.tuples;
            notes.extend(ran.notes.into_iter().chain(self.said(&ran.summary)));
        }
        notes.dedup();
        let compared = comparison.results();
        let mut rows = FirstRows {
            most: self.limits.rows_max,
            results: Vec::new(),
        };
        comparison.finish(&mut |place, batch| rows.add(place, &batch));
        let names = distinct_names(compared.iter().map(|one| one.processor.as_str()));
        let results = compared
            .iter()
            .zip(names)
            .enumerate()
            .map(|(place, (one, name))| {
                let (batches, left_out) = rows
                    .results
                    .get_mut(place)
                    .map(std::mem::take)
                    .unwrap_or_default();
                let columns: Vec<FieldId> = one.schema().ids().collect();
                let schema = one.schema().clone();
                let keys = one.keys;
                RecordingResult {
                    processor: Some(name),
                    keys,
                    schema,
                    columns,
                    batches,
                    left_out,
                }
            });
        let ends = |bounds: TimeBounds| bounds.since_ns.zip(bounds.until_ns);
        Ok(RecordingAnswer {
            results: results.collect(),
            period: ends(own),
            baseline: ends(baseline),
            tuples,
            notes,
        })
    }

    fn memory(&self) -> runner::MemoryLimits {
        let mut limits = runner::MemoryLimits {
            max: Some(self.limits.bytes.max(memory::LEAST)),
            ..runner::MemoryLimits::default()
        };
        // Secret seeds of hash tables, which senders of packets cannot know.
        limits.monitor.flow.seed = RandomState::new().hash_one(0);
        limits.stream.seed = RandomState::new().hash_one(0);
        limits
    }

    /// Reads the input within `bounds` into `sink`.
    fn run(
        &self,
        bounds: TimeBounds,
        output: PlanOutput,
        sink: &mut dyn Sink,
    ) -> Result<StoredRunResult, RecordingQueryError> {
        let files = self.files();
        let limits = self.memory();
        let stop = StopSignal::default();
        let notes = RefCell::new(Vec::new());
        let options = PlanOptions {
            bounds,
            output,
            ..PlanOptions::default()
        };
        let is_recording = self.path.is_dir();
        let (plan, mut run) = if is_recording {
            let mut note = |text: &str| notes.borrow_mut().push(self.hidden(text));
            let opened = replay::open(self.query.clone(), &options, &files, &mut note);
            let (plan, replaying) = opened.map_err(|why| match why {
                ReplayError::Wrong(why) => RecordingQueryError::Wrong(why),
                ReplayError::Unreadable(why) => {
                    RecordingQueryError::Wrong(self.hidden(&why.join("; ")))
                }
            })?;
            let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce)
                .config(&limits)
                .stream;
            let run = QueryRun::replay(&plan, config, replaying);
            (plan, run)
        } else {
            let plan = planner::lower_with(self.query, &options);
            let source = capture::open_until(&files, &stop);
            if let Some(error) = source.errors().first() {
                return Err(RecordingQueryError::Wrong(error.message.clone()));
            }
            let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce).config(&limits);
            let run = QueryRun::start(&plan, &config, JobInput::Shared(source, 1));
            let run = run.map_err(|error| {
                RecordingQueryError::Wrong(format!("cannot start a worker: {error}"))
            })?;
            (plan, run)
        };
        run.stop = Some(stop.clone());
        let watch = ReadDeadline {
            until: self.until,
            stop,
            is_late: Cell::new(false),
            notes: &notes,
        };
        let mut watching = &watch;
        let tables = run.tables(&plan);
        let heads = run.heads(&plan);
        let gone = run.go(sink, &mut watching);
        let summary = run.end(&plan, None);
        if watch.is_late.get() {
            return Err(late());
        }
        gone.map_err(|error| {
            RecordingQueryError::Wrong(format!("the rows could not be stored: {error}"))
        })?;
        let tables = heads
            .into_iter()
            .map(|head| head.processor)
            .zip(tables)
            .collect();
        drop(watch);
        Ok(StoredRunResult {
            tables,
            summary,
            notes: notes.into_inner(),
        })
    }

    /// Errors of a run.
    fn said(&self, summary: &RunSummary) -> Vec<String> {
        summary.complaints().map(|text| self.hidden(text)).collect()
    }

    /// Removes file paths from a text.
    fn hidden(&self, text: &str) -> String {
        text.replace(&self.path.display().to_string(), "the file")
    }
}

/// Stops a run at its deadline.
struct ReadDeadline<'a> {
    until: Instant,
    stop: StopSignal,
    is_late: Cell<bool>,
    notes: &'a RefCell<Vec<String>>,
}

impl RunObserver for &ReadDeadline<'_> {
    fn look(&mut self, _: &mut QueryRun, _: &mut dyn Sink) -> io::Result<()> {
        if self.until.saturating_duration_since(Instant::now()) == Duration::ZERO {
            self.is_late.set(true);
            self.stop.stop();
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        self.notes.borrow_mut().push(text.to_owned());
    }
}

/// The first rows of each result; counts the others.
struct FirstRows {
    most: usize,
    results: Vec<(Vec<Batch>, u64)>,
}

impl FirstRows {
    fn add(&mut self, place: usize, batch: &Batch) {
        if self.results.len() <= place {
            self.results.resize_with(place + 1, Default::default);
        }
        let (batches, left_out) = &mut self.results[place];
        let room = self
            .most
            .saturating_sub(batches.iter().map(Batch::rows).sum());
        let taken = room.min(batch.rows());
        *left_out += (batch.rows() - taken) as u64;
        if taken > 0 {
            batches.push(batch.slice(0, taken));
        }
    }
}

impl Sink for FirstRows {
    fn write(&mut self, place: usize, batch: &Batch) -> io::Result<()> {
        self.add(place, batch);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One of two periods; passes its tuples to the comparison.
struct ComparisonPeriod<'c> {
    side: ComparisonSide,
    comparison: &'c mut PeriodComparison,
    tuples: u64,
}

impl Sink for ComparisonPeriod<'_> {
    fn write(&mut self, _: usize, batch: &Batch) -> io::Result<()> {
        self.tuples += batch.rows() as u64;
        self.comparison.push(self.side, batch);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture with one packet followed by many gigabytes of compressed blocks without packets.
    fn packed_tightly(path: &Path) {
        let block = |kind: u32, body: &[u8]| {
            let length = (body.len() as u32 + 12).to_le_bytes();
            [&kind.to_le_bytes(), &length[..], body, &length].concat()
        };
        let section = block(
            0x0a0d_0d0a,
            &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat(),
        );
        let interface = block(1, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let packet = block(
            6,
            &[&[0; 12][..], &[60, 0, 0, 0, 60, 0, 0, 0], &[0; 60]].concat(),
        );
        let nothing = block(0x8000_0001, &[0; 1 << 16]).repeat(256);
        let pack = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("packed");
        let file = [
            pack(&[section, interface, packet].concat()),
            pack(&nothing).repeat(2000),
        ]
        .concat();
        assert!((file.len() as u64) < SHORT_BYTES);
        std::fs::write(path, file).expect("a file");
    }

    #[test]
    fn a_small_file_that_is_much_is_given_up_in_time() {
        let path = std::env::temp_dir().join(format!("netalytics-tight-{}", std::process::id()));
        packed_tightly(&path);
        let begun = Instant::now();
        let looked = StoredRecordingReader.look(&path).expect("a capture");
        assert_eq!(
            (looked.first_ns, looked.last_ns),
            (Some(0), None),
            "its end is not known"
        );
        let schemas = parsers::registry::schemas();
        for text in ["PARSE packet", "PARSE packet SINCE 1s"] {
            let query = query::check(text, &schemas, &()).expect("a query");
            let limits = ReadLimits {
                time: Duration::from_secs(1),
                bytes: 64 << 20,
                rows_max: 10,
                confidence: 0.95,
            };
            let asked = StoredRecordingReader.ask(&path, &query, limits);
            assert!(
                matches!(asked, Err(RecordingQueryError::Late(_))),
                "{text}: {asked:?}"
            );
        }
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        std::fs::remove_file(path).expect("it exists");
    }
}
