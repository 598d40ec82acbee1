//! Relaying collectors: the rows of the final collector equal those of one that receives all lanes directly.

use stream::LossStretch;

use super::*;

/// Output of a relaying collector, until it is reported.
#[derive(Default)]
struct RelayedPart(ReportPart);

impl TakeRows for RelayedPart {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        self.0.add_rows(output.batch);
    }

    fn hand_on(&mut self, windows: PartialResultSet) {
        self.0.add_windows(windows);
    }
}

/// A collector of some lanes that is a lane of another.
struct Aggregator {
    collector: Collector,
    merged: RelayedPart,
    /// Number of reports with parts of windows.
    brought: usize,
}

impl Aggregator {
    fn new(fixture: &QueryFixture, open_every_ns: i64) -> Aggregator {
        let collector = Collector::relay_of_lanes(fixture.relaying(), 1 << 20, open_every_ns);
        Aggregator {
            collector,
            merged: RelayedPart::default(),
            brought: 0,
        }
    }

    /// The aggregator's next report, as decoded by another process.
    fn report(&mut self, to: &Collector) -> WorkerReport {
        let part = std::mem::take(&mut self.merged.0);
        self.brought += usize::from(!part.is_empty());
        let watermark = self.collector.watermark();
        let loss = self.collector.capture_loss();
        let lost = self.collector.take_lost();
        let limited = self.collector.take_limited();
        let report = WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost,
            limited,
            open: None,
        };
        to.decode(&report.encode()).expect("it was encoded so")
    }
}

/// Like [`run`], with each lane assigned to an aggregator.
fn run_aggregated(
    query: FixtureQuery,
    tuples: &[FixtureTuple],
    (steps, turns): (&[Vec<LaneStep>], &[usize]),
    (pods, open_every_ns): (usize, i64),
) -> (Vec<String>, u64) {
    let fixture = QueryFixture::new(query);
    let lanes = steps.len();
    let mut root = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut out = TextRows::default();
    let mut pods: Vec<Aggregator> = (0..pods)
        .map(|_| Aggregator::new(&fixture, open_every_ns))
        .collect();
    let of = |lane: usize| lane % pods.len();
    let of: Vec<usize> = (0..lanes).map(of).collect();
    let id = |at: usize| LaneId(at as u64);
    // An aggregator without lanes reports nothing.
    (0..pods.len().min(lanes)).for_each(|pod| root.join(id(pod)));
    (0..lanes).for_each(|lane| pods[of[lane]].collector.join(id(lane)));
    let mut workers: Vec<LaneWorker> = (0..lanes).map(|_| LaneWorker::new(&fixture)).collect();
    walk(steps, turns, &mut |lane, step| {
        let Aggregator {
            collector, merged, ..
        } = &mut pods[of[lane]];
        match step {
            LaneStep::Idle => collector.idle(id(lane), merged),
            LaneStep::Resume => collector.resume(id(lane)),
            LaneStep::Report { watermark } => {
                let report = workers[lane].report((lane, lanes), tuples, watermark);
                collector.take(id(lane), report, merged);
            }
        }
        let report = pods[of[lane]].report(&root);
        root.take(id(of[lane]), report, &mut out);
    });
    for (lane, worker) in workers.into_iter().enumerate() {
        let Aggregator {
            collector, merged, ..
        } = &mut pods[of[lane]];
        collector.take(id(lane), worker.last(), merged);
        collector.finish(id(lane), merged);
    }
    for (at, pod) in pods.iter_mut().enumerate().take(lanes) {
        pod.collector.end(&mut pod.merged);
        let report = pod.report(&root);
        root.take(id(at), report, &mut out);
        root.finish(id(at), &mut out);
    }
    root.end(&mut out);
    (out.rows(), root.rows_late() + root.counters().tuples_late)
}

proptest! {
    /// For any order of reports and any number of aggregators, rows equal those of one collector.
    #[test]
    fn aggregators_give_the_rows_of_one_collector(
        tuples in some_tuples(),
        times in prop::collection::vec(some_times(), 1..6),
        turns in prop::collection::vec(0usize..6, 1..30),
        pods in 1usize..4,
        open_every_ns in prop::sample::select(vec![1, 7, i64::MAX]),
    ) {
        let steps: Vec<_> = times.iter().map(|times| reports(times)).collect();
        for query in [FixtureQuery::Windows, FixtureQuery::Sliding, FixtureQuery::Whole] {
            let direct = run(query, &tuples, steps.len(), &steps, &turns);
            let aggregated = run_aggregated(query, &tuples, (&steps, &turns), (pods, open_every_ns));
            prop_assert_eq!(&aggregated, &direct);
            prop_assert_eq!(direct.1, 0);
        }
    }

    /// With silent lanes, every tuple is in a row or counted as late.
    #[test]
    fn aggregators_count_late_tuples_of_silent_lanes(
        tuples in some_tuples(),
        times in prop::collection::vec(some_times(), 1..6),
        silences in prop::collection::vec((0usize..4, 0usize..8, 1usize..4), 0..5),
        turns in prop::collection::vec(0usize..6, 1..30),
        pods in 1usize..4,
    ) {
        let mut steps: Vec<_> = times.iter().map(|times| reports(times)).collect();
        for (lane, from, length) in silences {
            let n = steps.len();
            let steps = &mut steps[lane % n];
            let from = from.min(steps.len());
            steps.insert(from, LaneStep::Idle);
            steps.insert((from + length).min(steps.len()), LaneStep::Resume);
        }
        let (rows, late) = run_aggregated(FixtureQuery::Windows, &tuples, (&steps, &turns), (pods, 7));
        let of_all: Vec<String> = rows.into_iter().filter(|row| row.contains("all")).collect();
        prop_assert_eq!(2 * counted(&of_all, FixtureQuery::Windows) + late, 2 * tuples.len() as u64);
    }
}

/// Two lanes report a window one after the other: one report contains both, every loss is reported once, and an ended
/// lane delays nothing.
#[test]
fn an_aggregator_has_one_voice() {
    let fixture = QueryFixture::new(FixtureQuery::Windows);
    let mut root = Collector::of_lanes(fixture.engines(), 1 << 20);
    let mut out = TextRows::default();
    let mut pod = Aggregator::new(&fixture, i64::MAX);
    let [a, b] = [LaneId(b'a'.into()), LaneId(b'b'.into())];
    let mut lanes = [fixture.lane(), fixture.lane()];
    pod.collector.join(a);
    pod.collector.join(b);
    root.join(a);
    let mut say = |pod: &mut Aggregator, lane: usize, watermark, times: &[i64], lost: u64| {
        let tuple = |time: &i64| FixtureTuple {
            name: b'x',
            time: *time,
            flow: lane as u64,
        };
        let tuples: Vec<FixtureTuple> = times.iter().map(tuple).collect();
        let mut report = lanes[lane].report(watermark, &tuples);
        let packets = LossCount { seen: 10, lost };
        report.lost = (lost > 0).then_some(LossStretch {
            from_ns: 0,
            to_ns: 10,
            packets,
            bytes: LossCount::default(),
        });
        pod.collector.take([a, b][lane], report, &mut pod.merged);
        let report = pod.report(&root);
        root.take(a, report, &mut out);
        out.drain()
    };
    assert_eq!(say(&mut pod, 0, 12, &[3, 5], 2), "");
    assert_eq!(say(&mut pod, 1, 15, &[4], 1), "0-10: x 3, 0-10: all 3");
    assert_eq!(pod.brought, 1);
    assert_eq!(say(&mut pod, 0, 30, &[13, 25], 0), "");
    pod.collector.lost(b, &mut pod.merged);
    assert_eq!(
        say(&mut pod, 0, 31, &[], 0),
        "10-20: x 1, 20-30: x 1, 10-20: all 1, 20-30: all 1"
    );
    assert_eq!((pod.brought, pod.collector.lost_packets()), (2, 3));
    assert_eq!(root.lost_packets(), 3);
}

/// Another collector receives all reports of a process: no report contains windows closed by an earlier watermark.
#[test]
fn the_last_windows_of_a_process_are_not_late() {
    let fixture = QueryFixture::new(FixtureQuery::Windows);
    for workers in 1..=3 {
        let relay = Collector::relay(fixture.relaying(), workers, 1 << 20);
        let mut process = Aggregator {
            collector: relay,
            merged: RelayedPart::default(),
            brought: 0,
        };
        let mut center = Collector::of_lanes(fixture.engines(), 1 << 20);
        let mut out = TextRows::default();
        let voice = LaneId(9);
        center.join(voice);
        let mut say = |process: &mut Aggregator| {
            let report = process.report(&center);
            center.take(voice, report, &mut out);
        };
        let mut all: Vec<_> = (0..workers).map(|_| fixture.lane()).collect();
        let tuple = |time| FixtureTuple {
            name: b'a',
            time,
            flow: 1,
        };
        // The last epoch passes the ends of both windows.
        for (epoch, watermark, times) in [
            (0, 5, &[3, 4][..]),
            (1, 9, &[8, 7, 12]),
            (u64::MAX, 25, &[]),
        ] {
            for (worker, lane) in all.iter_mut().enumerate() {
                let tuples: Vec<FixtureTuple> = times.iter().map(|time| tuple(*time)).collect();
                let report = match epoch {
                    u64::MAX => lane.last(watermark),
                    _ => lane.report(watermark, &tuples),
                };
                let Aggregator {
                    collector, merged, ..
                } = &mut process;
                collector.take(
                    LaneId(worker as u64),
                    WorkerReport { epoch, ..report },
                    merged,
                );
                say(&mut process);
            }
        }
        process.collector.end(&mut process.merged);
        say(&mut process);
        center.finish(voice, &mut out);
        center.end(&mut out);
        assert_eq!(center.counters().tuples_late, 0, "{workers} workers");
        let counted = |n: usize| n * workers;
        let expected = [
            format!("0-10: a {}", counted(4)),
            format!("10-20: a {}", counted(1)),
            format!("0-10: all {}", counted(4)),
            format!("10-20: all {}", counted(1)),
        ];
        assert_eq!(out.rows()[..4], expected, "{workers} workers");
    }
}
