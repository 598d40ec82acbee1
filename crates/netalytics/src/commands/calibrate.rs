//! `netalytics calibrate`: measures the cost of monitors on this machine, by parser, with a built-in workload, and
//! writes a file for `explain` and `query` (`--costs`). With namespaces and Open vSwitch, it also measures the cost of
//! copying and exporting in a switch. Values that cannot be measured are reported and keep their defaults.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use monitor::{JobInput, MonitorJob, MonitorProgress, job};
use planner::physical::PlanCosts;
use stream::{EngineOutput, OutputConsumer};

use crate::cli::flags::calibrate::CalibrateFlags;
use crate::network::calibration::{self, NamespaceLab, ReceiveCost, SwitchCopyCost};
use crate::process::failure::CommandOutcome;
use crate::process::file_owner::FileOwner;
use crate::process::output;
use crate::serve::demo::CAPTURE;

/// Repetitions of the workload in one capture, each with later timestamps.
const ROUNDS: u32 = 100;
/// Seconds between repetitions, so that flows of the previous one have expired.
const ROUND_SECONDS: u32 = 600;
/// Maximum wait for other operations.
const PATIENCE: Duration = Duration::from_secs(1);

/// Share of a measured time below which a difference cannot be distinguished from noise.
const UNSURE: f64 = 0.03;

/// Parsers with their port in the workload; none: they read all packets.
const PARSERS: [(&str, Option<u16>); 8] = [
    ("packet", None),
    ("tcp_pkt_size", None),
    ("tcp_flow_key", None),
    ("tcp_conn_time", None),
    ("flow", None),
    ("http", Some(80)),
    ("mysql_query", Some(3306)),
    ("memcached", Some(11211)),
];

/// Measures, and prints or writes the result.
pub fn calibrate(flags: &CalibrateFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    if let Some(order) = &flags.send {
        return output::print(calibration::be_sender(order)?.as_bytes());
    }
    let folder = tempfile::tempdir().context("no folder for the workload")?;
    let workload = folder.path().join("workload.pcap");
    std::fs::write(&workload, repeated(CAPTURE, ROUNDS)).context("cannot write the workload")?;
    let tell = |text: &str| {
        if !quiet {
            output::complain(text);
        }
    };
    let nobody = measure(
        "PARSE packet TO 203.0.113.1:1 PROCESS (count)",
        &workload,
        flags.rounds,
    )?;
    let refuse_ns = nobody.ns_each(0.0);
    let mut parse_ns = Vec::new();
    for (parser, port) in PARSERS {
        let to = port.map(|port| format!(" TO *:{port}")).unwrap_or_default();
        let measured = measure(
            &format!("PARSE {parser}{to} PROCESS (count)"),
            &workload,
            flags.rounds,
        )?;
        let cost = measured.parse_cost(parser, refuse_ns);
        let bound = if cost.is_bound { "less than " } else { "" };
        tell(&format!(
            "{parser}: {bound}{:.0} ns for each of {} packets",
            cost.ns, measured.asked
        ));
        parse_ns.push(cost);
    }
    let lab = NamespaceLab::new();
    let received = of_lab(&lab, |lab| {
        calibration::receiving(lab, refuse_ns, flags.rounds)
    });
    match &received {
        Ok(of) => tell(&format!(
            "receiving a packet: {:.0} ns, and {:.2} ns per byte; an idle monitor: {:.4} cores",
            of.packet, of.byte, of.idle_cores
        )),
        Err(why) => tell(&format!(
            "the cost of receiving a packet could not be measured ({why:#}); [monitor] receive_ns and receive_byte_ns are built-in estimates"
        )),
    }
    let copied = of_lab(&lab, |lab| calibration::copying(lab, flags.rounds));
    match &copied {
        Ok(SwitchCopyCost {
            copy,
            mirror,
            tunnel,
            cut,
            sflow,
            ipfix,
            unsure,
        }) => {
            let ways = [
                ("by a rule", copy),
                ("by a mirror", mirror),
                ("into a tunnel", tunnel),
                ("cut to 128 bytes", cut),
            ];
            let exports = [
                ("per sFlow sample", sflow),
                ("per packet in IPFIX records", ipfix),
            ];
            let of = |(way, ns): &(&str, &Option<f64>)| match ns {
                Some(ns) => format!("{ns:.0} ns {way}"),
                None => format!("less than {unsure:.0} ns {way}, below the resolution"),
            };
            let all = |ways: &[_]| ways.iter().map(of).collect::<Vec<_>>().join(", ");
            tell(&format!(
                "copying a packet in a userspace switch: {}",
                all(&ways)
            ));
            tell(&format!(
                "exporting from a userspace switch: {}",
                all(&exports)
            ));
        }
        Err(why) => tell(&format!(
            "the cost of copying a packet in a switch could not be measured ({why:#}); the values of [switch] are built-in estimates"
        )),
    }
    drop(lab);
    let text = written(refuse_ns, &parse_ns, received.ok(), copied.ok());
    // Verifies that the file can be read.
    PlanCosts::parse(&text)
        .map_err(anyhow::Error::msg)
        .context("the measured values are implausible")?;
    match &flags.output {
        None => output::print(text.as_bytes()),
        Some(path) => {
            output::create(path, FileOwner::Us)?
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// Runs a measurement in the lab, if there is one.
fn of_lab<T>(
    lab: &anyhow::Result<NamespaceLab>,
    measure: impl Fn(&NamespaceLab) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match lab {
        Ok(lab) => measure(lab),
        Err(why) => Err(anyhow::anyhow!("{why:#}")),
    }
}

/// Measured cost of a run.
struct CalibrationRun {
    took: Duration,
    /// Requested packets.
    asked: u64,
    /// Other packets.
    refused: u64,
}

impl CalibrationRun {
    /// Nanoseconds per requested packet, given the cost of others; without requested packets, per other packet.
    fn ns_each(&self, refuse_ns: f64) -> f64 {
        let all = self.took.as_secs_f64() * 1e9;
        match self.asked {
            0 => all / self.refused.max(1) as f64,
            asked => (all - self.refused as f64 * refuse_ns) / asked as f64,
        }
    }

    /// Cost of a parser per requested packet. Noise of the machine may exceed it.
    fn parse_cost(&self, parser: &'static str, refuse_ns: f64) -> ParseCost {
        let ns = self.ns_each(refuse_ns);
        let least = UNSURE * self.ns_each(0.0);
        ParseCost {
            parser,
            ns: ns.max(least),
            is_bound: ns < least,
        }
    }
}

/// The fastest of several runs of a query over the workload, on one worker.
fn measure(query: &str, workload: &Path, rounds: u8) -> anyhow::Result<CalibrationRun> {
    let checked = query::check(
        query,
        &parsers::registry::schemas(),
        &query::HostTable::default(),
    );
    let checked = checked.map_err(|errors| anyhow::anyhow!(query::render(&errors, query)))?;
    let plan = planner::lower(&checked);
    let mut best: Option<CalibrationRun> = None;
    for _ in 0..rounds {
        let input = JobInput::Shared(capture::open(&[PathBuf::from(workload)]), 1);
        let started = Instant::now();
        let mut job = MonitorJob::start(&plan, &job::JobConfig::default(), input)
            .context("cannot start a worker")?;
        while job.next(PATIENCE, &mut NullOutput) != MonitorProgress::Done {}
        let took = started.elapsed();
        let accounting = job.end().accounting;
        let refused = accounting.filtered_total();
        let asked = accounting.received - refused;
        if best.as_ref().is_none_or(|best| took < best.took) {
            best = Some(CalibrationRun {
                took,
                asked,
                refused,
            });
        }
    }
    best.context("nothing was measured")
}

/// Cost of a parser per packet, in nanoseconds.
struct ParseCost {
    parser: &'static str,
    ns: f64,
    /// The cost is below the resolution, which is `ns`.
    is_bound: bool,
}

struct NullOutput;

impl OutputConsumer for NullOutput {
    fn take(&mut self, _: EngineOutput) {}
}

/// A pcap file (little-endian) whose records are repeated with later timestamps.
fn repeated(capture: &[u8], rounds: u32) -> Vec<u8> {
    const HEAD: usize = 24;
    let mut all = capture.get(..HEAD).unwrap_or_default().to_vec();
    let number = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(
            capture.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    for round in 0..rounds {
        let mut at = HEAD;
        while let (Some(seconds), Some(length)) = (number(at), number(at + 8)) {
            let end = at + 16 + length as usize;
            let Some(rest) = capture.get(at + 4..end) else {
                break;
            };
            all.extend(seconds.wrapping_add(round * ROUND_SECONDS).to_le_bytes());
            all.extend(rest);
            at = end;
        }
    }
    all
}

/// The file for `--costs`; values not measured are defaults.
fn written(
    refuse_ns: f64,
    parse_ns: &[ParseCost],
    received: Option<ReceiveCost>,
    copied: Option<SwitchCopyCost>,
) -> String {
    let supposed = PlanCosts::default();
    let mut measured = vec!["[monitor.parse_ns] and refuse_ns"];
    measured.extend(received.map(|_| "receive_ns, receive_byte_ns and idle_cores"));
    measured.extend(copied.map(|_| "[switch] and [export]"));
    let monitor = &supposed.monitor;
    let received = received.unwrap_or(ReceiveCost {
        packet: monitor.receive_ns,
        byte: monitor.receive_byte_ns,
        idle_cores: monitor.idle_cores,
    });
    let mut text = format!(
        "# Written by netalytics calibrate: {} were measured, the rest is estimated.\n\
         origin = \"calibrated\"\n\n[monitor]\nreceive_ns = {:.1}\nreceive_byte_ns = {:.3}\nidle_cores = {:.5}\nrefuse_ns = {refuse_ns:.1}\nmemory_gb = {:.2}\n\n[monitor.parse_ns]\n",
        measured.join(", "),
        received.packet,
        received.byte,
        received.idle_cores,
        supposed.monitor.memory_gb
    );
    for ParseCost {
        parser,
        ns,
        is_bound,
    } in parse_ns
    {
        let note = if *is_bound {
            " # upper bound: below the resolution"
        } else {
            ""
        };
        text += &format!("{parser} = {ns:.1}{note}\n");
    }
    let known = supposed.switch;
    let ways = [
        ("copy_ns", copied.map(|of| of.copy), known.copy_ns),
        ("mirror_ns", copied.map(|of| of.mirror), known.mirror_ns),
        ("tunnel_ns", copied.map(|of| of.tunnel), known.tunnel_ns),
    ];
    let unsure = copied.map_or(0.0, |of| of.unsure);
    let line = |(name, measured, supposed): (&str, Option<Option<f64>>, f64)| match measured {
        Some(Some(ns)) => format!("{name} = {ns:.1}\n"),
        // The built-in default among measured values would look like a larger cost.
        Some(None) => format!("{name} = {unsure:.1} # upper bound: below the resolution\n"),
        None => format!("{name} = {supposed:.1} # estimated\n"),
    };
    text += "\n[switch]\n";
    text.extend(ways.map(line));
    text += &match copied.map(|of| of.cut) {
        Some(Some(ns)) => format!("cut_ns = {ns:.1}\n"),
        Some(None) => format!("cut_ns = {unsure:.1} # upper bound: below the resolution\n"),
        None => "# cut_ns: not measured, so copies are not cut\n".to_owned(),
    };
    let known = supposed.export;
    let exports = [
        (
            "sflow_sample_ns",
            copied.map(|of| of.sflow),
            known.sflow_sample_ns,
        ),
        (
            "ipfix_sample_ns",
            copied.map(|of| of.ipfix),
            known.ipfix_sample_ns,
        ),
    ];
    text += "\n[export]\n";
    text.extend(exports.map(line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_the_capture_many_times() {
        let twice = repeated(CAPTURE, 2);
        assert_eq!(twice.len(), 24 + 2 * (CAPTURE.len() - 24));
        assert_eq!(
            repeated(&CAPTURE[..30], 2).len(),
            24,
            "a record that is cut off"
        );
    }

    #[test]
    fn written_costs_are_read_back() {
        let run = |asked, refused| CalibrationRun {
            took: Duration::from_nanos(1_000_000),
            asked,
            refused,
        };
        let parsers = [
            run(2_000, 6_000).parse_cost("http", 66.7),
            run(2_000, 20_000).parse_cost("packet", 66.7),
        ];
        let costs = PlanCosts::parse(&written(60.0, &parsers, None, None)).expect("costs");
        assert_eq!(costs.monitor.parse_ns["http"], 299.9);
        assert_eq!(
            costs.monitor.parse_ns["packet"], 15.0,
            "below the resolution"
        );
        assert_eq!((costs.monitor.refuse_ns, costs.switch.cut_ns), (60.0, None));
        assert_eq!(
            costs.monitor.receive_ns,
            PlanCosts::default().monitor.receive_ns
        );
        let received = ReceiveCost {
            packet: 900.0,
            byte: 0.25,
            idle_cores: 0.004,
        };
        let copied = SwitchCopyCost {
            copy: Some(700.0),
            mirror: None,
            tunnel: Some(2000.0),
            cut: Some(9000.0),
            sflow: Some(1500.0),
            ipfix: None,
            unsure: 30.0,
        };
        let costs = PlanCosts::parse(&written(60.0, &parsers, Some(received), Some(copied)))
            .expect("costs");
        assert_eq!(
            (costs.monitor.receive_ns, costs.monitor.receive_byte_ns),
            (900.0, 0.25)
        );
        assert_eq!(costs.monitor.idle_cores, 0.004);
        let switch = costs.switch;
        assert_eq!(
            (switch.copy_ns, switch.mirror_ns, switch.tunnel_ns),
            (700.0, 30.0, 2000.0)
        );
        assert_eq!(switch.cut_ns, Some(9000.0));
        assert_eq!(
            (costs.export.sflow_sample_ns, costs.export.ipfix_sample_ns),
            (1500.0, 30.0)
        );
    }
}
