//! `netalytics calibrate`: what monitors take on this machine, by parser, from a built-in workload; kept in a file that `explain` and `query`
//! read with `--costs`. What it cannot measure it says, and leaves at what is supposed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use monitor::{Input, Job, Step, job};
use planner::physical::Costs;
use stream::{Output, TakeOutput};

use crate::demo::CAPTURE;
use crate::failure::Ended;
use crate::flags::calibrate::CalibrateFlags;
use crate::live::Owner;
use crate::output;

/// So often the workload is repeated, each time later.
const ROUNDS: u32 = 100;
/// Seconds from one round to the next: by then flows of the one before are over.
const ROUND_SECONDS: u32 = 600;
/// Of so many runs the fastest counts: others at work on the machine make runs slower, and none faster.
const RUNS: usize = 5;
/// Nothing else is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Parsers, and the port of theirs in the workload; none: they read all packets.
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

/// Measures, and prints or keeps what it has found.
pub fn calibrate(flags: &CalibrateFlags, quiet: bool) -> anyhow::Result<Ended> {
    let folder = tempfile::tempdir().context("no folder for the workload")?;
    let workload = folder.path().join("workload.pcap");
    std::fs::write(&workload, repeated(CAPTURE, ROUNDS)).context("cannot write the workload")?;
    let tell = |text: &str| {
        if !quiet {
            output::complain(text);
        }
    };
    let nobody = measure("PARSE packet TO 203.0.113.1:1 PROCESS (count)", &workload)?;
    let refuse_ns = nobody.ns_each(0.0);
    let mut parse_ns = Vec::new();
    for (parser, port) in PARSERS {
        let to = port.map(|port| format!(" TO *:{port}")).unwrap_or_default();
        let measured = measure(&format!("PARSE {parser}{to} PROCESS (count)"), &workload)?;
        let ns = measured.ns_each(refuse_ns);
        tell(&format!("{parser}: {ns:.0} ns for each of {} packets", measured.asked));
        parse_ns.push((parser, ns));
    }
    tell(
        "not measured here, so supposed: a packet's way from an interface into a monitor, and what a switch takes to copy one; set [monitor] receive_ns and [switch] where you know better",
    );
    let text = written(refuse_ns, &parse_ns);
    // What reads the file later has to understand it.
    Costs::parse(&text).map_err(anyhow::Error::msg).context("what was measured makes no sense")?;
    match &flags.output {
        None => output::print(text.as_bytes()),
        Some(path) => {
            output::create(path, Owner::Us)?
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            Ok(Ended::Done)
        }
    }
}

/// What a run took.
struct Measured {
    took: Duration,
    /// Packets that were asked for.
    asked: u64,
    /// All others.
    refused: u64,
}

impl Measured {
    /// Nanoseconds for each packet that was asked for, where the others took so long each; where none was, for each of the others.
    fn ns_each(&self, refuse_ns: f64) -> f64 {
        let all = self.took.as_secs_f64() * 1e9;
        match self.asked {
            0 => all / self.refused.max(1) as f64,
            asked => ((all - self.refused as f64 * refuse_ns) / asked as f64).max(0.0),
        }
    }
}

/// The fastest of some runs of a query over the workload, on one worker.
fn measure(query: &str, workload: &Path) -> anyhow::Result<Measured> {
    let checked = query::check(query, &parsers::registry::schemas(), &query::HostTable::default());
    let checked = checked.map_err(|errors| anyhow::anyhow!(query::render(&errors, query)))?;
    let plan = planner::lower(&checked);
    let mut best: Option<Measured> = None;
    for _ in 0..RUNS {
        let input = Input::Shared(capture::open(&[PathBuf::from(workload)]), 1);
        let started = Instant::now();
        let mut job = Job::start(&plan, &job::Config::default(), input).context("cannot start a worker")?;
        while job.next(PATIENCE, &mut Nowhere) != Step::Done {}
        let took = started.elapsed();
        let accounting = job.end().accounting;
        let refused = accounting.filtered_total();
        let asked = accounting.received - refused;
        if best.as_ref().is_none_or(|best| took < best.took) {
            best = Some(Measured { took, asked, refused });
        }
    }
    best.context("nothing was measured")
}

struct Nowhere;

impl TakeOutput for Nowhere {
    fn take(&mut self, _: Output) {}
}

/// A pcap file (little-endian) whose records come again and again, each round later.
fn repeated(capture: &[u8], rounds: u32) -> Vec<u8> {
    const HEAD: usize = 24;
    let mut all = capture.get(..HEAD).unwrap_or_default().to_vec();
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(capture.get(at..at + 4)?.try_into().ok()?)) };
    for round in 0..rounds {
        let mut at = HEAD;
        while let (Some(seconds), Some(length)) = (number(at), number(at + 8)) {
            let end = at + 16 + length as usize;
            let Some(rest) = capture.get(at + 4..end) else { break };
            all.extend(seconds.wrapping_add(round * ROUND_SECONDS).to_le_bytes());
            all.extend(rest);
            at = end;
        }
    }
    all
}

/// As `--costs` reads it.
fn written(refuse_ns: f64, parse_ns: &[(&str, f64)]) -> String {
    let supposed = Costs::default();
    let mut text = format!(
        "# Written by netalytics calibrate: [monitor.parse_ns] and refuse_ns were measured, the rest is supposed.\n\
         origin = \"calibrated\"\n\n[monitor]\nreceive_ns = {:.1}\nreceive_byte_ns = {:.2}\nrefuse_ns = {refuse_ns:.1}\nmemory_gb = {:.2}\n\n[monitor.parse_ns]\n",
        supposed.monitor.receive_ns, supposed.monitor.receive_byte_ns, supposed.monitor.memory_gb
    );
    for (parser, ns) in parse_ns {
        text += &format!("{parser} = {ns:.1}\n");
    }
    let switch = supposed.switch;
    text += &format!(
        "\n[switch]\ncopy_ns = {:.1}\nmirror_ns = {:.1}\ntunnel_ns = {:.1}\n# cut_ns: not measured, so copies are not cut\n",
        switch.copy_ns, switch.mirror_ns, switch.tunnel_ns
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_the_capture_many_times() {
        let twice = repeated(CAPTURE, 2);
        assert_eq!(twice.len(), 24 + 2 * (CAPTURE.len() - 24));
        assert_eq!(repeated(&CAPTURE[..30], 2).len(), 24, "a record that is cut off");
    }

    #[test]
    fn what_is_written_is_read() {
        let costs = Costs::parse(&written(60.0, &[("http", 300.0), ("packet", 80.0)])).expect("costs");
        assert_eq!(costs.monitor.parse_ns["http"], 300.0);
        assert_eq!((costs.monitor.refuse_ns, costs.switch.cut_ns), (60.0, None));
    }
}
