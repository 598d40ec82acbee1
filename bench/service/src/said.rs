//! Reports of agents: one report per window of a query, with a given number of groups.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, StringArray,
    UInt64Array,
};
use clap::{Args, ValueEnum};
use collect::{ReportPart, WorkerReport};
use plan::Plan;
use stream::{EngineSet, LossCount};
use tuple::{Batch, DataType, common};
use wire::Timestamp;

/// Amount of data per agent.
#[derive(Args, Clone)]
pub struct Size {
    /// Number of agents
    #[arg(long, default_value_t = 200)]
    pub agents: usize,
    /// Number of windows of one second
    #[arg(long, default_value_t = 10)]
    pub windows: usize,
    /// Number of groups per agent and window
    #[arg(long, default_value_t = 5000)]
    pub groups: usize,
    /// Whether agents report the same groups
    #[arg(long, value_enum, default_value_t = Keys::Shared)]
    pub keys: Keys,
}

/// Whether agents report the same groups.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// Equal groups, as from replicas with the same pages.
    Shared,
    /// Different groups, as from servers with different clients.
    Own,
}

impl Size {
    /// Total number of groups.
    pub fn total(&self) -> usize {
        self.agents * self.windows * self.groups
    }
}

/// An encoded report and its watermark.
pub type Said = (i64, Vec<u8>);

const SECOND_NS: i64 = 1_000_000_000;
/// Start of event time: a whole minute.
const BEGIN_NS: i64 = 1_800_000_000 * SECOND_NS;

/// The plan of a query.
pub fn plan_of(query: &str) -> Plan {
    let schemas = parsers::registry::schemas();
    planner::lower(&query::check(query, &schemas, &()).expect("a query"))
}

/// The reports of one agent.
pub fn reports(plan: &Plan, size: &Size, agent: usize) -> Vec<Said> {
    let mut engines = EngineSet::worker(
        std::slice::from_ref(&plan.dataflow),
        &stream::EngineConfig::default(),
    );
    let seed = if size.keys == Keys::Own { agent } else { 0 };
    let report = |window: usize| {
        let from_ns = BEGIN_NS + window as i64 * SECOND_NS;
        engines.push(
            0,
            &tuples(plan, size.groups, seed, from_ns),
            &mut Vec::new(),
        );
        let watermark_ns = from_ns + SECOND_NS;
        let mut part = ReportPart::default();
        engines
            .detach(watermark_ns)
            .into_iter()
            .for_each(|windows| part.add_windows(windows));
        let watermark = Timestamp(watermark_ns);
        let loss = LossCount::default();
        let report = WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss,
            lost: None,
            limited: None,
            open: None,
        };
        (watermark_ns, report.encode())
    };
    (0..size.windows).map(report).collect()
}

/// A tuple of every group, spread over a window.
fn tuples(plan: &Plan, groups: usize, seed: usize, from_ns: i64) -> Batch {
    let schema = plan.monitor.parsers[0].schema.clone();
    let columns = &plan.dataflow.inputs[0].columns;
    let step_ns = SECOND_NS / (groups as i64 + 1);
    let numbers = || (0..groups).map(|i| (i * 2_654_435_761) % 50_000_000);
    let array = |id| -> Option<ArrayRef> {
        columns.contains(&id).then_some(())?;
        Some(match schema.field(id).data_type {
            DataType::I64 if [common::TS, common::TS_END].contains(&id) => {
                let times = (0..groups as i64).map(|i| from_ns + i * step_ns);
                Arc::new(Int64Array::from_iter_values(times))
            }
            DataType::I64 => Arc::new(Int64Array::from_iter_values(numbers().map(|n| n as i64))),
            DataType::U64 => Arc::new(UInt64Array::from_iter_values(numbers().map(|n| n as u64))),
            DataType::F64 => Arc::new(Float64Array::from_iter_values((0..groups).map(|_| 1.0))),
            DataType::Bool => Arc::new(BooleanArray::from(vec![true; groups])),
            DataType::Text => {
                // Names that compress no better than those of real pages.
                let name =
                    |i: usize| (seed * groups + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
                let paths = (0..groups).map(|i| format!("shop.example/items/{:010x}", name(i)));
                Arc::new(StringArray::from_iter_values(paths))
            }
            DataType::Ip => {
                let address = |i: usize| {
                    let n = (seed * groups + i) as u32;
                    std::net::Ipv4Addr::from(0x0a00_0000 | n)
                        .to_ipv6_mapped()
                        .octets()
                };
                let all = FixedSizeBinaryArray::try_from_iter((0..groups).map(address));
                Arc::new(all.expect("sixteen bytes each"))
            }
            DataType::Hashes | DataType::Json => return None,
        })
    };
    Batch::new(schema.clone(), groups, schema.ids().map(array).collect())
}
