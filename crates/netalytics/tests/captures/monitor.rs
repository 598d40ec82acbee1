//! `netalytics monitor`: its output, merged by another process, equals the rows of `query`.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use collect::{Collector, IgnoreCoverage, LaneId, MonitorFrame};
use plan::Plan;
use plan::message::{CaptureSpec, JobOrder};
use sinks::{JsonlSink, Sink};
use stream::{EngineOutput, EngineSet, TupleProjection};

use super::{captures, query};

fn plan_of(text: &str) -> Plan {
    let query = query::check(
        text,
        &parsers::registry::schemas(),
        &query::HostTable::default(),
    );
    planner::lower(&query.unwrap_or_else(|e| panic!("{text}: {e:?}")))
}

fn start(plan: &Plan, args: &[&str]) -> (Child, ChildStdin) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_netalytics"))
        .arg("monitor")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut orders = child.stdin.take().expect("it has an input");
    let order = JobOrder {
        job: 1,
        generation: 1,
        attempt: 1,
        plan: plan.clone(),
        redaction: None,
        capture: CaptureSpec::default(),
        packets_max: None,
        memory_max: 0,
        cpu_millis: 0,
        workers: 0,
        taps: plan::TapTable::default(),
        origin: tuple::AgentOrigin::default(),
        topics: Vec::new(),
    };
    let order = order.encode();
    orders
        .write_all(&(order.len() as u32).to_le_bytes())
        .expect("it reads its order");
    orders.write_all(&order).expect("it reads its order");
    (child, orders)
}

/// All frames until the monitor ends, and its exit status.
fn frames(mut child: Child) -> (Vec<MonitorFrame>, bool, String) {
    let mut out = BufReader::new(child.stdout.take().expect("it has an output"));
    let mut frames = Vec::new();
    while let Some(frame) = MonitorFrame::read(&mut out).expect("a frame") {
        frames.push(frame);
    }
    let mut errors = String::new();
    child
        .stderr
        .take()
        .expect("it has errors")
        .read_to_string(&mut errors)
        .expect("they are text");
    (frames, child.wait().expect("it ends").success(), errors)
}

/// JSON lines from the reports of several processes, merged one process after the other.
fn collected(plan: &Plan, processes: &[Vec<MonitorFrame>]) -> String {
    let dataflow = std::slice::from_ref(&plan.dataflow);
    let mut collector = Collector::of_lanes(
        EngineSet::new(dataflow, &stream::EngineConfig::default()),
        64 << 20,
    );
    let mut rows: Vec<EngineOutput> = Vec::new();
    let lanes = || (0..processes.len() as u64).map(LaneId);
    lanes().for_each(|lane| collector.join(lane));
    for (lane, frames) in lanes().zip(processes) {
        for frame in frames {
            if let MonitorFrame::Report(report) = frame {
                let report = collector.decode(report).expect("a report");
                collector.take(lane, report, &mut IgnoreCoverage(&mut rows));
            }
        }
        collector.finish(lane, &mut IgnoreCoverage(&mut rows));
    }
    collector.end(&mut IgnoreCoverage(&mut rows));
    assert_eq!(
        (collector.rows_late(), collector.counters().tuples_late),
        (0, 0)
    );
    let raw = plan.dataflow.pipelines.is_empty();
    let mut shown = raw.then(|| TupleProjection::new(&plan.dataflow, collector.engine(), 64 << 20));
    let mut text = Vec::new();
    let mut sink = JsonlSink::new(
        &mut text,
        &runner::heads(plan, collector.engine(), shown.as_ref()),
    );
    let mut write = |result: Option<usize>, batch: &tuple::Batch| {
        sink.write(result.unwrap_or(0), batch)
            .expect("writing to memory cannot fail");
    };
    for EngineOutput {
        pipeline, batch, ..
    } in rows
    {
        match &mut shown {
            None => write(pipeline, &batch),
            Some(shown) => shown
                .take(&batch)
                .into_iter()
                .for_each(|batch| write(None, &batch)),
        }
    }
    if let Some(shown) = &mut shown {
        shown.finish(|batch| write(None, &batch));
    }
    sink.finish().expect("writing to memory cannot fail");
    drop(sink);
    String::from_utf8(text).expect("JSON lines are text")
}

/// Lines of several results are interleaved by the closing of windows; those of one are in order.
fn by_result(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    let result = |line: &&str| {
        let named = line
            .strip_prefix("{\"processor\":\"")
            .and_then(|rest| rest.split_once('"'));
        named.map_or(String::new(), |(name, _)| name.to_owned())
    };
    lines.sort_by_key(result);
    lines
}

fn check(text: &str, capture: &Path) {
    let plan = plan_of(text);
    let expected = query(text, capture);
    assert!(!expected.is_empty(), "{text}");
    let capture = capture.to_str().expect("a path that is text");
    for workers in ["1", "3"] {
        let (child, orders) = start(&plan, &["--workers", workers, "-r", capture]);
        let (frames, is_well, errors) = frames(child);
        drop(orders);
        assert!(is_well, "{text}: {errors}");
        assert_eq!(frames.first(), Some(&MonitorFrame::Started));
        let Some(MonitorFrame::Closing {
            cut_short: None,
            summary,
        }) = frames.last()
        else {
            panic!("{text}: it ends with {:?}", frames.last());
        };
        let summary: serde_json::Value = serde_json::from_str(summary).expect("JSON");
        assert_eq!(
            (&summary["complete"], &summary["packets"]["adds_up"]),
            (&true.into(), &true.into())
        );
        let packets = summary["packets"]["received"].as_u64().expect("a number");
        let mut accounts = frames.iter().filter_map(|frame| match frame {
            MonitorFrame::Account(counts) => counts
                .iter()
                .find(|(name, _)| name == "packets")
                .map(|(_, n)| *n),
            _ => None,
        });
        // Workers count the packets distributed to them.
        assert!(
            accounts.next_back().is_some_and(|n| 0 < n && n <= packets),
            "{text}: {packets} packets"
        );
        let got = collected(&plan, &[frames]);
        assert_eq!(
            by_result(&got),
            by_result(&expected),
            "{text} with {workers} workers"
        );
    }
}

#[test]
fn other_processes_collect_the_same_rows() {
    let capture = captures().join("shop/in.pcap");
    for text in [
        "PARSE http",
        "PARSE http SELECT url, status, response_time_ns ORDER BY response_time_ns DESC LIMIT 5 ROWS",
        "PARSE http WHERE status >= 200 PROCESS (count: w=1s), (top-k: k=3, w=2s)",
        "PARSE tcp_conn_time, http PROCESS (diff-group: w=1s)",
        "PARSE http PROCESS (quantile: w=1s)",
        "PARSE http PROCESS (count)",
        "PARSE http PROCESS (distinct: key=url, w=1s)",
        "PARSE mysql_query",
    ] {
        check(text, &capture);
    }
}

/// Each monitor sees the flows of one half, by the last bits of ports.
#[test]
fn rows_do_not_depend_on_the_number_of_processes() {
    let capture = captures().join("shop/in.pcap");
    let path = capture.to_str().expect("a path that is text");
    let is_even = "tcp and (tcp[0:2] + tcp[2:2]) & 1 = 0";
    for text in [
        "PARSE http",
        "PARSE http PROCESS (count: w=1s), (top-k: k=3, w=100ms)",
        "PARSE tcp_conn_time, http PROCESS (diff-group: w=500ms)",
        "PARSE http PROCESS (quantile: w=1s)",
    ] {
        let plan = plan_of(text);
        let half = |filter: &str| {
            let (child, orders) = start(&plan, &["--capture-filter", filter, "-r", path]);
            let (frames, is_well, errors) = frames(child);
            drop(orders);
            assert!(is_well, "{text}: {errors}");
            frames
        };
        let got = collected(&plan, &[half(is_even), half(&format!("not ({is_even})"))]);
        assert_eq!(by_result(&got), by_result(&query(text, &capture)), "{text}");
    }
}

#[test]
fn an_order_that_is_none_is_refused() {
    let capture = captures().join("shop/in.pcap");
    let run = |input: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args(["monitor", "-r"])
            .arg(&capture)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The monitor may have ended already.
        let _ = child
            .stdin
            .take()
            .expect("it has an input")
            .write_all(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.stdout.is_empty());
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    for (input, code, words) in [
        (&[][..], 1, "standard input has no order"),
        (&[9, 0, 0, 0, 1], 1, "cut off"),
        (&[255; 8], 2, "too large"),
        (&[1, 0, 0, 0, 0xff], 2, "the order is refused"),
    ] {
        let (ended, errors) = run(input);
        assert!(
            ended == Some(code) && errors.contains(words),
            "{input:?}: {ended:?} {errors}"
        );
    }
}

/// Output of a monitor whose input pipe stays open, and which is ended by `end`.
fn ended_by(
    args: &[&str],
    end: impl FnOnce(ChildStdin) -> Option<ChildStdin>,
) -> (Vec<MonitorFrame>, bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo is there");
    assert!(made.success());
    let path = pipe.to_str().expect("a path that is text");
    let (child, orders) = start(&plan_of("PARSE http"), &[args, &["-r", path]].concat());
    let bytes = std::fs::read(captures().join("shop/in.pcap")).expect("a capture");
    let mut packets = std::fs::OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("it reads the pipe");
    packets.write_all(&bytes).expect("it reads the pipe");
    let orders = end(orders);
    let (frames, is_well, _) = frames(child);
    drop((packets, orders));
    (frames, is_well)
}

#[test]
fn monitors_end_with_their_parent_and_with_their_lease() {
    let why = |frames: &[MonitorFrame]| match frames.last() {
        Some(MonitorFrame::Closing { cut_short, .. }) => cut_short.clone(),
        other => panic!("it ends with {other:?}"),
    };
    let abandoned = ended_by(&[], |_| None);
    assert_eq!(
        why(&abandoned.0).as_deref(),
        Some("the process that started it has ended")
    );
    let ran_out = ended_by(&["--lease", "1h"], |mut orders| {
        orders.write_all(b"renew 0\n").expect("it reads its lines");
        Some(orders)
    });
    assert_eq!(
        why(&ran_out.0).as_deref(),
        Some("its lease was not renewed")
    );
    assert!(!abandoned.1 && !ran_out.1);
    let asked = ended_by(&["--lease", "1h"], |mut orders| {
        orders
            .write_all(b"renew 60000\nnothing that is known\nend\n")
            .expect("it reads its lines");
        Some(orders)
    });
    assert_eq!((why(&asked.0), asked.1), (None, true));
}
