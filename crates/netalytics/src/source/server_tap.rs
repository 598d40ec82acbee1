//! `--server-tap FILE`: a second capture of the same traffic, taken closer to the servers. It is read first, and its
//! measurements of each request are kept for the tuples of the main capture. A stop request ends this as well.

use std::time::Duration;

use anyhow::{Context, anyhow};
use capture::live::StopSignal;
use monitor::job::JobConfig;
use monitor::{MonitorJob, MonitorProgress};
use plan::{Dataflow, DataflowInput, MonitorSpec, ParserUse, Plan, QueryLimit, TimeSpan};
use stream::{EngineOutput, OutputConsumer, ServerTap, TapSightings};
use tuple::common;

use crate::cli::flags::WorkFlags;
use crate::process::failure::wrong_flags;
use crate::source::packet_input;

const PATIENCE: Duration = Duration::from_millis(100);

/// Reads the server's tap if the query uses it; `is_capture`: whether -r names captures.
pub fn read(
    flags: &WorkFlags,
    is_capture: bool,
    plan: &Plan,
    config: &JobConfig,
    stop: &StopSignal,
) -> anyhow::Result<Option<ServerTap>> {
    let asks = plan
        .monitor
        .parsers
        .iter()
        .filter(|parser| parser.reads_two_taps());
    let parsers: Vec<ParserUse> = asks.map(in_order).collect();
    match (parsers.is_empty(), flags.server_tap.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => {
            return Err(wrong_flags(
                "--server-tap: the query uses no column that needs two taps, such as tap.network_time",
            ));
        }
        (false, true) => {
            return Err(wrong_flags(
                "tap.… requires two captures of the same traffic: -r closer to the clients, --server-tap FILE closer to the servers",
            ));
        }
        (false, false) if !is_capture => {
            return Err(wrong_flags("--server-tap requires captures: -r FILE"));
        }
        (false, false) => {}
    }
    let dataflow = |parser: &ParserUse| Dataflow {
        inputs: vec![DataflowInput {
            schema: parser.schema.clone(),
            columns: parser.columns.clone(),
            filter: None,
        }],
        ..Dataflow::default()
    };
    let dataflows: Vec<Dataflow> = parsers.iter().map(dataflow).collect();
    // The period of the other capture does not apply: its clock differs.
    let limit = QueryLimit::default();
    let span = TimeSpan::default();
    let spec = MonitorSpec {
        parsers,
        limit,
        span,
        ..plan.monitor.clone()
    };
    let input = packet_input::open(&flags.server_tap, &flags.live, flags.workers, &spec, stop)?;
    let mut job = MonitorJob::start_several(&spec, &dataflows, config, input)
        .context("cannot start the workers")?;
    let mut taking = SightingCollector(TapSightings::new(config.stream.join_bytes_max));
    while job.next(PATIENCE, &mut taking) == MonitorProgress::Going {
        if stop.is_asked() {
            job.stop();
        }
    }
    let ended = job.end();
    match ended
        .errors
        .first()
        .map(ToString::to_string)
        .or(ended.panics.into_iter().next())
    {
        Some(error) => Err(anyhow!("--server-tap: {error}")),
        None => Ok(Some(taking.0.done())),
    }
}

/// Warning that the two captures seem to be exchanged: most requests took longer at the server's tap.
pub fn exchanged(tap: &ServerTap) -> Option<String> {
    let negative = tap.negative();
    let joined = tap.counts().joined;
    (negative > joined / 2).then(|| {
        format!(
            "warning: {negative} of {joined} values of tap.network_time are negative: are the captures swapped? -r is the one closer to the clients, --server-tap the one closer to the servers"
        )
    })
}

/// Adds the columns by which tuples are sorted.
fn in_order(parser: &ParserUse) -> ParserUse {
    let mut columns = parser.columns.clone();
    columns.extend([common::ID, common::TS, common::TS_END]);
    columns.sort_unstable();
    columns.dedup();
    ParserUse {
        schema: parser.schema.clone(),
        columns,
    }
}

struct SightingCollector(TapSightings);

impl OutputConsumer for SightingCollector {
    fn take(&mut self, output: EngineOutput) {
        self.0.add(&output.batch);
    }
}
