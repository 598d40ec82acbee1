//! The rows of several lanes equal those of one, for any order of reports and any silent lanes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tuple::{TupleWriter, common};

use super::*;
use crate::fixture::{FixtureQuery, FixtureTuple, QueryFixture};
use crate::lanes::LaneCoverage;

/// Collects rows as text with their missing lanes: `3` or `0-10: 2`, followed by ` -a` if lane `a` is missing.
#[derive(Default)]
struct TextRows(Vec<(String, LaneCoverage)>);

impl TakeRows for TextRows {
    fn take(&mut self, output: EngineOutput, lanes: &CollectorLanes) {
        lanes.cover(&output, &mut |EngineOutput {
                                       batch, pipeline, ..
                                   },
                                   coverage| {
            let field = |name: &str| batch.schema().find(name).expect("a column");
            for row in 0..batch.rows() {
                let text = match pipeline {
                    None => batch.i64(common::TS_END).value(row).to_string(),
                    Some(pipeline) => {
                        let time = |name| {
                            batch
                                .schema()
                                .find(name)
                                .map_or(0, |id| batch.i64(id).value(row))
                        };
                        let start = time("window_start");
                        let end = time("window_end");
                        let count = batch.u64(field("count")).value(row);
                        let name = if pipeline == 0 {
                            batch.text(field("name")).value(row)
                        } else {
                            "all"
                        };
                        format!("{start}-{end}: {name} {count}")
                    }
                };
                self.0.push((text, coverage.clone()));
            }
        });
    }
}

impl TextRows {
    fn drain(&mut self) -> String {
        let one = |(text, coverage): (String, LaneCoverage)| {
            let missing = coverage
                .missing
                .iter()
                .map(|id| format!(" -{}", char::from(id.0 as u8)));
            format!("{text}{}", missing.collect::<String>())
        };
        self.0.drain(..).map(one).collect::<Vec<_>>().join(", ")
    }

    /// Rows of one result after those of the other: their relative order depends on when windows are closed.
    fn rows(mut self) -> Vec<String> {
        self.0.sort_by_key(|(text, _)| text.contains("all"));
        self.0.into_iter().map(|(text, _)| text).collect()
    }
}

/// Checks a script of actions and the resulting rows: `a expect`, `a join`, `a idle`, `a resume`, `a finish`, `a lost`,
/// `end`; `a 10: 3 5`: a report with its watermark and the times of its tuples. `late`: number of late rows.
fn check(query: FixtureQuery, script: &[(&str, &str)], late: u64) {
    let fixture = QueryFixture::new(query);
    let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut lanes = BTreeMap::new();
    let mut out = TextRows::default();
    for (event, expected) in script {
        let name = event.as_bytes()[0];
        let id = LaneId(name.into());
        match event.split_once(' ').map_or("end", |(_, what)| what) {
            "end" => collector.end(&mut out),
            "expect" => collector.expect(id),
            "join" => collector.join(id),
            "resume" => collector.resume(id),
            "idle" => collector.idle(id, &mut out),
            "finish" => collector.finish(id, &mut out),
            "lost" => collector.lost(id, &mut out),
            report => {
                let (watermark, times) = report.split_once(':').expect("a report");
                let tuples: Vec<FixtureTuple> = times
                    .split_whitespace()
                    .map(|time| FixtureTuple {
                        name,
                        time: time.parse().expect("a time"),
                        flow: name.into(),
                    })
                    .collect();
                let lane = lanes.entry(id).or_insert_with(|| fixture.lane());
                let report = lane.report(watermark.parse().expect("a time"), &tuples);
                collector.take(id, report, &mut out);
            }
        }
        assert_eq!(out.drain(), *expected, "{event} of {script:?}");
    }
    assert_eq!(
        collector.rows_late() + collector.counters().tuples_late,
        late,
        "{script:?}"
    );
}

/// Monitors that receive only packets with certain flags see acknowledgments of uncopied bytes, which are not a loss of
/// the windows.
#[test]
fn bytes_that_were_not_copied_are_no_loss() {
    for (is_partial, expected) in [(false, Some(0.75)), (true, None)] {
        let fixture = QueryFixture::new(FixtureQuery::Windows);
        let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
        if is_partial {
            collector.expect_partial_flows();
        }
        let mut lane = fixture.lane();
        let mut all = Vec::new();
        collector.join(LaneId(0));
        let report = lane.report(
            20,
            &[FixtureTuple {
                name: b'a',
                time: 3,
                flow: 1,
            }],
        );
        let loss = LossCount { seen: 1, lost: 3 };
        collector.take(
            LaneId(0),
            WorkerReport { loss, ..report },
            &mut IgnoreCoverage(&mut all),
        );
        collector.end(&mut IgnoreCoverage(&mut all));
        let lost = all.iter().map(|output: &EngineOutput| {
            let id = output.batch.schema().find("lost").expect("a column");
            let column = output.batch.f64(id);
            column.iter().next().flatten()
        });
        assert!(
            lost.clone().count() > 0 && lost.clone().all(|lost| lost == expected),
            "{:?}",
            lost.collect::<Vec<_>>()
        );
    }
}

#[test]
fn rows_wait_for_all_that_are_at_work() {
    let script = [
        ("a join", ""),
        ("b join", ""),
        ("a 10: 3 5 10", ""),
        ("b 7: 4 6", "3, 4, 5, 6"),
        ("a 20: 11", ""),
        ("b 30: 12 25", "10, 11, 12"),
        ("a finish", "25"),
        ("b finish", ""),
        ("end", ""),
    ];
    check(FixtureQuery::Raw, &script, 0);
}

#[test]
fn silent_lanes_delay_nothing_and_are_named() {
    let script = [
        ("a join", ""),
        ("b join", ""),
        ("b 2: 1", ""),
        ("a 10: 3 5", "1"),
        ("b idle", "3 -b, 5 -b"),
        ("a 20: 12", "12 -b"),
        // Earlier rows of lane `b` are late.
        ("b 15: 4 14", "4 -b, 14 -b"),
        ("b resume", ""),
        ("a 40: 30", ""),
        ("b 50: 21", "21, 30"),
        ("end", ""),
    ];
    check(FixtureQuery::Raw, &script, 2);
}

#[test]
fn closed_windows_are_not_opened_again() {
    let script = [
        ("a join", ""),
        ("b join", ""),
        ("a 10: 3 5", ""),
        ("b 10: 4", "0-10: a 2, 0-10: b 1, 0-10: all 3"),
        ("b idle", ""),
        ("a 20: 12", "10-20: a 1 -b, 10-20: all 1 -b"),
        ("b resume", ""),
        ("a 30: 22", ""),
        ("b 30: 13 23", "20-30: a 1, 20-30: b 1, 20-30: all 2"),
        ("end", ""),
    ];
    // Once per pipeline.
    check(FixtureQuery::Windows, &script, 2);
}

#[test]
fn lanes_that_end_are_not_missed_and_lost_ones_are() {
    let script = [
        ("a join", ""),
        ("b join", ""),
        ("c expect", ""),
        ("a 10: 3", ""),
        ("b 10: 4", "0-10: a 1 -c, 0-10: b 1 -c, 0-10: all 2 -c"),
        ("b finish", ""),
        ("a 20: 12", "10-20: a 1 -c, 10-20: all 1 -c"),
        ("c 20: 13", ""),
        ("c 30: 23", ""),
        ("c lost", ""),
        (
            "a 40: 24 34",
            "20-30: a 1, 20-30: c 1, 30-40: a 1 -c, 20-30: all 2, 30-40: all 1 -c",
        ),
        ("end", ""),
    ];
    check(FixtureQuery::Windows, &script, 2);
}

#[test]
fn if_all_lanes_are_silent_the_latest_watermark_applies() {
    let script = [
        ("a join", ""),
        ("b join", ""),
        ("a 30: 25", ""),
        ("b 20: 5", "5"),
        ("a idle", ""),
        ("b idle", "25 -b"),
        ("a resume", ""),
        ("a 40: 31", "31 -b"),
        ("end", ""),
    ];
    check(FixtureQuery::Raw, &script, 0);
}

#[test]
fn how_many_were_expected() {
    let fixture = QueryFixture::new(FixtureQuery::Raw);
    let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut out = TextRows::default();
    let bounds = (Timestamp(20), Timestamp(30));
    collector.expect(LaneId(1));
    collector.join(LaneId(2));
    collector.take(LaneId(2), fixture.lane().report(10, &[]), &mut out);
    assert_eq!(
        collector.lanes().coverage(bounds, 0),
        LaneCoverage {
            expected: 2,
            missing: vec![LaneId(1), LaneId(2)]
        }
    );
    collector.finish(LaneId(2), &mut out);
    assert_eq!(
        collector.lanes().coverage(bounds, 0),
        LaneCoverage {
            expected: 1,
            missing: vec![LaneId(1)]
        }
    );
}

/// Action of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneStep {
    Report { watermark: i64 },
    Idle,
    Resume,
}

/// A worker and its watermark.
struct LaneWorker(crate::fixture::FixtureLane, i64);

impl LaneWorker {
    fn new(fixture: &QueryFixture) -> LaneWorker {
        LaneWorker(fixture.lane(), i64::MIN)
    }

    /// Report of a lane, one of `lanes`, with its share of the tuples since the previous report.
    fn report(
        &mut self,
        (lane, lanes): (usize, usize),
        tuples: &[FixtureTuple],
        watermark: i64,
    ) -> WorkerReport {
        let is_due = |tuple: &FixtureTuple| {
            tuple.flow as usize % lanes == lane && (self.1..watermark).contains(&tuple.time)
        };
        let due: Vec<FixtureTuple> = tuples.iter().copied().filter(is_due).collect();
        self.1 = watermark;
        self.0.report(watermark, &due)
    }

    /// Returns the remaining results.
    fn last(mut self) -> WorkerReport {
        self.0.last(self.1)
    }
}

/// Executes the actions of all lanes, each in order, interleaved by `turns`.
fn walk(steps: &[Vec<LaneStep>], turns: &[usize], act: &mut dyn FnMut(usize, LaneStep)) {
    let lanes = steps.len();
    let mut done = vec![0; steps.len()];
    for lane in turns.iter().copied().cycle().map(|turn| turn % lanes) {
        let has_more = |lane: &usize| done[*lane] < steps[*lane].len();
        let Some(lane) = (lane..lanes).chain(0..lane).find(has_more) else {
            return;
        };
        act(lane, steps[lane][done[lane]]);
        done[lane] += 1;
    }
}

/// Runs lanes with the tuples of their flows, interleaved by `turns`; returns rows, the number of late rows, and the
/// tuples counted by the engine.
fn run(
    query: FixtureQuery,
    tuples: &[FixtureTuple],
    lanes: usize,
    steps: &[Vec<LaneStep>],
    turns: &[usize],
) -> (Vec<String>, u64) {
    let fixture = QueryFixture::new(query);
    let mut collector = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut out = TextRows::default();
    let mut workers: Vec<LaneWorker> = (0..lanes).map(|_| LaneWorker::new(&fixture)).collect();
    (0..lanes).for_each(|lane| collector.join(LaneId(lane as u64)));
    walk(steps, turns, &mut |lane, step| {
        let id = LaneId(lane as u64);
        match step {
            LaneStep::Idle => collector.idle(id, &mut out),
            LaneStep::Resume => collector.resume(id),
            LaneStep::Report { watermark } => {
                collector.take(
                    id,
                    workers[lane].report((lane, lanes), tuples, watermark),
                    &mut out,
                );
            }
        }
    });
    workers.into_iter().enumerate().for_each(|(lane, worker)| {
        collector.take(LaneId(lane as u64), worker.last(), &mut out);
    });
    (0..lanes).for_each(|lane| collector.finish(LaneId(lane as u64), &mut out));
    collector.end(&mut out);
    (
        out.rows(),
        collector.rows_late() + collector.counters().tuples_late,
    )
}

/// Reports at these times, and a final one.
fn reports(times: &[i64]) -> Vec<LaneStep> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
        .into_iter()
        .chain([END])
        .map(|watermark| LaneStep::Report { watermark })
        .collect()
}

const END: i64 = 100;

fn some_tuples() -> impl Strategy<Value = Vec<FixtureTuple>> {
    let one = (0u8..4, 0..END, 0u64..6);
    let one = one.prop_map(|(name, time, flow)| FixtureTuple {
        name: b'a' + name,
        time,
        flow,
    });
    prop::collection::vec(one, 0..60)
}

fn some_times() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(0..END, 0..8)
}

/// Number of rows per tuple: itself, or one in each of two counts.
fn counted(rows: &[String], query: FixtureQuery) -> u64 {
    let count = |row: &String| match query {
        FixtureQuery::Raw => 1,
        FixtureQuery::Windows | FixtureQuery::Sliding | FixtureQuery::Whole => row
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0),
    };
    rows.iter().map(count).sum()
}

proptest! {
    /// For any order of reports, rows equal those of one lane.
    #[test]
    fn rows_do_not_depend_on_the_number_of_lanes(
        tuples in some_tuples(),
        times in prop::collection::vec(some_times(), 1..5),
        turns in prop::collection::vec(0usize..5, 1..30),
    ) {
        for query in [FixtureQuery::Raw, FixtureQuery::Windows] {
            let one = run(query, &tuples, 1, &[reports(&[])], &[0]);
            let steps: Vec<_> = times.iter().map(|times| reports(times)).collect();
            let many = run(query, &tuples, steps.len(), &steps, &turns);
            prop_assert_eq!((&many.0, many.1), (&one.0, 0));
        }
    }

    /// With silent lanes, every tuple is in a row or counted as late; raw rows are complete.
    #[test]
    fn late_tuples_of_silent_lanes_are_counted(
        tuples in some_tuples(),
        times in prop::collection::vec(some_times(), 1..5),
        silences in prop::collection::vec((0usize..4, 0usize..8, 1usize..4), 0..5),
        turns in prop::collection::vec(0usize..5, 1..30),
    ) {
        let mut steps: Vec<_> = times.iter().map(|times| reports(times)).collect();
        for (lane, from, length) in silences {
            let n = steps.len();
            let steps = &mut steps[lane % n];
            let from = from.min(steps.len());
            steps.insert(from, LaneStep::Idle);
            steps.insert((from + length).min(steps.len()), LaneStep::Resume);
        }
        let raw = run(FixtureQuery::Raw, &tuples, steps.len(), &steps, &turns);
        let mut times = raw.0;
        let mut all = tuples.iter().map(|t| t.time.to_string()).collect::<Vec<_>>();
        times.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(times, all);
        let windows = run(FixtureQuery::Windows, &tuples, steps.len(), &steps, &turns);
        // The first three names have rows; a fourth is only included in the total.
        let of_all: Vec<String> = windows.0.into_iter().filter(|row| row.contains("all")).collect();
        prop_assert_eq!(2 * counted(&of_all, FixtureQuery::Windows) + windows.1, 2 * tuples.len() as u64);
    }
}

mod aggregated;

mod of_one_process {
    use super::*;

    /// Rows with an assumed size of ten bytes each.
    fn rows(fixture: &QueryFixture, times: &[i64]) -> ReportPart {
        let mut writer = TupleWriter::new(fixture.schema.clone(), &fixture.columns[..3]);
        for ts in times {
            writer.u64(common::ID, 7);
            writer.i64(common::TS, 0);
            writer.i64(common::TS_END, *ts);
            writer.end_row();
        }
        ReportPart {
            bytes: 10 * times.len(),
            rows: vec![writer.finish()],
            windows: Vec::new(),
        }
    }

    fn times(out: &mut Vec<EngineOutput>) -> Vec<i64> {
        out.drain(..)
            .flat_map(|o| o.batch.i64(common::TS_END).values().to_vec())
            .collect()
    }

    /// Two workers, one already in its second epoch: rows of the first epoch released immediately, those released after
    /// the other has ended it, and the number of cut epochs.
    fn check(waiting_bytes_max: usize, expected: (&[i64], &[i64], u64)) {
        let fixture = QueryFixture::new(FixtureQuery::Raw);
        let collector = Collector::new(fixture.engines(), 2, waiting_bytes_max);
        let mut collector = collector;
        let mut all = Vec::new();
        let report = |part| WorkerReport {
            epoch: 0,
            watermark: Timestamp(9),
            part,
            loss: LossCount::default(),
            lost: None,
            limited: None,
            open: None,
        };
        let out = &mut IgnoreCoverage(&mut all);
        collector.take(LaneId(0), report(rows(&fixture, &[4, 2])), out);
        collector.take_part(LaneId(0), rows(&fixture, &[6]), out);
        collector.take_part(LaneId(1), rows(&fixture, &[5, 3]), out);
        assert_eq!(times(&mut all), expected.0);
        collector.take(
            LaneId(1),
            report(rows(&fixture, &[1])),
            &mut IgnoreCoverage(&mut all),
        );
        assert_eq!(
            (times(&mut all).as_slice(), collector.epochs_cut()),
            (expected.1, expected.2)
        );
    }

    #[test]
    fn rows_wait_for_all_workers_while_there_is_room() {
        check(50, (&[], &[1, 2, 3, 4, 5], 0));
        // The third row exceeds the limit: waiting rows are released.
        check(25, (&[2, 4, 6], &[1, 3, 5], 1));
        check(5, (&[2, 4, 6, 3, 5], &[1], 3));
    }
}
