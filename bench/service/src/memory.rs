//! The same partial results in memory: cost of encoding, decoding, and merging on one core.

use clap::Args;
use collect::{Collector, CollectorLanes, LaneId, TakeRows, WorkerReport};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use stream::{EngineOutput, EngineSet};

use crate::said::{Keys, Said, Size, plan_of, reports};

/// Flags of this measurement.
#[derive(Args)]
pub struct Flags {
    #[command(flatten)]
    size: Size,
    /// The query
    #[arg(long)]
    query: String,
}

struct Rows(usize);

impl TakeRows for Rows {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        self.0 += output.batch.rows();
    }
}

fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Runs the measurement; returns the figures.
pub fn run(flags: &Flags) -> Value {
    let size = &flags.size;
    let plan = plan_of(&flags.query);
    let begun = cpu_s();
    let own = if size.keys == Keys::Own {
        size.agents
    } else {
        1
    };
    let said: Vec<Vec<Said>> = (0..own).map(|agent| reports(&plan, size, agent)).collect();
    let encode_s = (cpu_s() - begun) * (size.agents / own) as f64;
    let engines = EngineSet::new(
        std::slice::from_ref(&plan.dataflow),
        &stream::EngineConfig::default(),
    );
    let mut collector = Collector::of_lanes(engines, 256 << 20);
    let mut rows = Rows(0);
    let lanes: Vec<_> = (0..size.agents).map(|n| LaneId(n as u64)).collect();
    lanes.iter().for_each(|lane| collector.join(*lane));
    let mut decode_s = 0.0;
    let mut merge_s = 0.0;
    let mut bytes = 0;
    for window in 0..size.windows {
        for (agent, lane) in lanes.iter().enumerate() {
            let (_, payload) = &said[agent % own][window];
            bytes += payload.len();
            let begun = cpu_s();
            let report: WorkerReport = collector.decode(payload).expect("our own report");
            let decoded = cpu_s();
            collector.take(*lane, report, &mut rows);
            decode_s += decoded - begun;
            merge_s += cpu_s() - decoded;
        }
    }
    let begun = cpu_s();
    collector.end(&mut rows);
    merge_s += cpu_s() - begun;
    let millions = size.total() as f64 / 1e6;
    json!({
        "groups": size.total(), "rows": rows.0, "bytes_per_group": bytes as f64 / size.total() as f64,
        "encode_s": encode_s / millions, "decode_s": decode_s / millions, "merge_s": merge_s / millions,
    })
}
