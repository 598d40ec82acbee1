//! sFlow and IPFIX as ways of a query: a switch exports samples or flow records instead of copying packets. They suffice
//! for counts, sums, and rankings over header fields. Results are estimates: the plan states the sampling rate, the
//! expected error, and the cost.

use mirror::exporter::ExporterSlot;
use mirror::mode::HEADER_BYTES;
use plan::{AggregateFunction, ParserUse, Pipeline, Plan, SampleMode};

use super::export_part::{DEVIATIONS, ExportPart, ExportSwitch};
use super::parts::TWICE;
use super::request::{OccupiedSlot, PlanningProblem};
use crate::topology::SwitchAccess;

/// Length of a sample or record in a datagram, with the datagram's headers, in bytes.
const SAMPLE_BYTES: f64 = HEADER_BYTES as f64 + 72.0;
const RECORD_BYTES: f64 = 115.0;
/// Records of a connection: two directions, each at the port that it enters.
const RECORDS_PER_CONNECTION: f64 = 2.0;
/// Expected error of a total for which the sampling rate is chosen.
const ERROR: f64 = 0.05;
/// Maximum packets per sample that is chosen.
const SAMPLING_MAX: f64 = 10_000.0;
/// Period of the error of a query without windows, in seconds.
const PERIOD: f64 = 10.0;
/// Places whose exports have the tuples of a query's parser; a query of others never uses an export.
#[must_use]
pub fn export_slots(plan: &Plan) -> Vec<ExporterSlot> {
    let both = [ExporterSlot::Sflow, ExporterSlot::Ipfix];
    both.into_iter()
        .filter(|slot| missing(plan, *slot).is_none())
        .collect()
}

/// The reason that an export lacks what a query reads; `None`: it suffices.
fn missing(plan: &Plan, slot: ExporterSlot) -> Option<String> {
    let [parser] = plan.monitor.parsers.as_slice() else {
        return Some("an export answers queries of one parser only".to_owned());
    };
    let needed = match slot {
        ExporterSlot::Ipfix => "flow",
        _ => "packet",
    };
    if *parser.schema.name != *needed {
        let name = &parser.schema.name;
        return Some(format!(
            "{slot} has the tuples of PARSE {needed} only; {name} needs packets"
        ));
    }
    if plan.dataflow.pipelines.is_empty() {
        return Some("the result is tuples; an export suffices for counts and sums".to_owned());
    }
    if let Some(column) = absent_column(parser, slot) {
        return Some(format!("{slot} does not report {column}"));
    }
    if let Some(aggregate) = plan.dataflow.pipelines.iter().find_map(inexact) {
        return Some(format!("{aggregate} cannot be estimated from samples"));
    }
    match plan.monitor.sample {
        SampleMode::Fraction(_) => {
            return Some("SAMPLE with a share selects whole flows".to_owned());
        }
        SampleMode::Auto if plan.monitor.goal.is_set() && slot == ExporterSlot::Ipfix => {
            return Some(
                "the sampling rate of IPFIX does not follow an error: its counters would mix rates"
                    .to_owned(),
            );
        }
        SampleMode::Auto if plan.monitor.goal.is_set() => {}
        SampleMode::Auto => return Some("SAMPLE auto selects whole flows".to_owned()),
        SampleMode::All | SampleMode::Exported => {}
    }
    plan.monitor
        .limit
        .packets
        .map(|_| "LIMIT in packets needs all packets".to_owned())
}

/// A required column that exported headers or records lack.
fn absent_column(parser: &ParserUse, slot: ExporterSlot) -> Option<String> {
    const ENDS: [&str; 10] = [
        "id",
        "ts",
        "ts_end",
        "client_ip",
        "client_port",
        "server_ip",
        "server_port",
        "transport",
        "sample_rate",
        "vlan_id",
    ];
    const HEADERS: [&str; 10] = [
        "src_ip",
        "src_port",
        "dst_ip",
        "dst_port",
        "packet_bytes",
        "ttl",
        "tcp_flags",
        "seq",
        "ack",
        "window",
    ];
    const COUNTS: [&str; 4] = [
        "client_packets",
        "server_packets",
        "client_bytes",
        "server_bytes",
    ];
    let own: &[&str] = match slot {
        ExporterSlot::Ipfix => &COUNTS,
        _ => &HEADERS,
    };
    let names = parser.columns.iter();
    let mut names = names.map(|column| &parser.schema.field(*column).name);
    names
        .find(|name| !ENDS.contains(&&***name) && !own.contains(&&***name))
        .map(ToString::to_string)
}

/// An aggregate of a pipeline that samples do not determine.
fn inexact(pipeline: &Pipeline) -> Option<&'static str> {
    use AggregateFunction as Of;
    if pipeline.profile.is_some() {
        return Some("a profile");
    }
    pipeline
        .aggregates
        .iter()
        .find_map(|column| match column.aggregate {
            Of::Count | Of::Sum | Of::Avg | Of::Rate | Of::Throughput | Of::Share(_) => None,
            Of::Min => Some("min"),
            Of::Max => Some("max"),
            Of::Stddev => Some("stddev"),
            Of::Distinct(_) => Some("distinct"),
            Of::Quantile(_) => Some("a quantile"),
            Of::Hist | Of::Cdf => Some("a distribution"),
            Of::Success(_) | Of::Ratio(_) => Some("a proportion"),
        })
}

impl PlanningProblem<'_> {
    /// The export in a place, or the reason that it is not possible.
    pub(super) fn export(&self, slot: ExporterSlot) -> Result<ExportPart, String> {
        let ask = self.ask;
        if let Some(why) = missing(ask.plan, slot) {
            return Err(why);
        }
        if ask.exact {
            return Err("the result would not be exact".to_owned());
        }
        // A switch counts only the flows that it covers; these are disjoint, except those that may be copied twice.
        if self.twice() {
            return Err(TWICE.to_owned());
        }
        for switch in self.at.keys() {
            let of = &ask.site.switches[*switch];
            if !matches!(of.reached, SwitchAccess::Ovsdb(_)) {
                let name = &of.name;
                return Err(format!("the network file has no ovsdb for {name}"));
            }
            let is_there = |other: &&OccupiedSlot| other.switch == *switch && other.slot == slot;
            if let Some(other) = ask.occupied.iter().find(is_there) {
                return Err(format!("{}: {}; it stays", of.name, other.exporter));
            }
        }
        Ok(self.estimated(slot))
    }

    fn estimated(&self, slot: ExporterSlot) -> ExportPart {
        let ask = self.ask;
        let rates = || self.at.values().map(|(_, rates)| rates);
        let costs = &ask.costs.export;
        let windows = ask.plan.dataflow.pipelines.iter();
        let windows = windows.filter_map(|pipeline| pipeline.window.map(|window| window.size_ns));
        let period = windows.min().map_or(PERIOD, |ns| ns as f64 / 1e9);
        let packets = rates().map(|rates| rates.packets).sum::<f64>() * period;
        let chosen = || {
            let enough = (DEVIATIONS / ERROR).powi(2);
            (packets / enough).clamp(1.0, SAMPLING_MAX) as u32
        };
        let sampling = ask.sampling.unwrap_or_else(chosen).max(1);
        // A bridge samples all its traffic, packets where they enter.
        let passing = rates().map(|rates| rates.passing_mbps).sum::<f64>() * 1e6
            / 8.0
            / ask.costs.traffic.packet_bytes;
        let samples = passing / f64::from(sampling);
        let (sent, bytes, each_ns) = match slot {
            ExporterSlot::Ipfix => {
                let connections = passing / ask.costs.traffic.connection_packets;
                let records = samples.min(RECORDS_PER_CONNECTION * connections);
                (records, RECORD_BYTES, costs.ipfix_sample_ns)
            }
            _ => (samples, SAMPLE_BYTES, costs.sflow_sample_ns),
        };
        ExportPart {
            slot,
            switches: self
                .at
                .keys()
                .map(|index| ExportSwitch {
                    index: *index,
                    name: ask.site.switches[*index].name.clone(),
                })
                .collect(),
            sampling,
            packets,
            period,
            mbps: sent * bytes * 8.0 / 1e6,
            switch_cores: samples * each_ns / 1e9,
            receiver_cores: sent * costs.receive_ns / 1e9,
        }
    }
}
