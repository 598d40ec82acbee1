//! Estimates the load of a plan on a host before the first packet, from the plan and a few measured numbers;
//! assumptions about traffic are stated at each number. docs/agent.md compares estimates with measurements. Pure.

use plan::{
    AggregateFunction, Column, ComputedField, Dataflow, JobCost, Pipeline, Plan, ResourceUsage,
    SampleMode,
};
use tuple::{AGENT, DataType, FieldId, LABELS, Schema};

/// Cost class of a parser, by the data it reads.
struct ParserCostClass {
    /// Time per packet on a core of the machine in docs/performance.md.
    packet_ns: f64,
    /// Time per tuple in the parser.
    tuple_ns: f64,
    /// Tuples per packet in dense traffic.
    tuples: f64,
    /// Memory per open flow.
    flow_bytes: f64,
}

/// Headers without flows.
const HEADERS: ParserCostClass = ParserCostClass {
    packet_ns: 80.0,
    tuple_ns: 0.0,
    tuples: 1.0,
    flow_bytes: 0.0,
};
/// Flows without payload; twenty packets per flow, with a tuple at its start and one at its end.
const FLOWS: ParserCostClass = ParserCostClass {
    packet_ns: 125.0,
    tuple_ns: 0.0,
    tuples: 0.1,
    flow_bytes: 512.0,
};
/// Messages; eight packets per request and response, including acknowledgments.
const MESSAGES: ParserCostClass = ParserCostClass {
    packet_ns: 200.0,
    tuple_ns: 400.0,
    tuples: 0.125,
    flow_bytes: 1024.0,
};

/// Additional time per packet for each further protocol that reads the same bytes.
const ANOTHER_NS: f64 = 40.0;
/// Time per packet skipped by SAMPLE.
const LEFT_OUT_NS: f64 = 60.0;
/// Time per tuple in a pipeline: group lookup, and update of each aggregate.
const GROUP_NS: f64 = 10.0;
const AGGREGATE_NS: f64 = 5.0;
/// Time per column of an outgoing tuple: writing, redaction, and encoding.
const COLUMN_NS: f64 = 30.0;
/// CPU load without traffic, for the ends of epochs.
const IDLE_CPU_MILLIS: u64 = 5;
/// Memory of a monitor without traffic, including the kernel's ring buffer.
const IDLE_BYTES: u64 = 48 << 20;

/// Open flows per packet per second: twenty packets per flow, ten seconds of lifetime.
const FLOWS_OPEN_PER_PPS: f64 = 10.0 / 20.0;
/// Share of tuples with a group that is new in its window.
const NEW_GROUPS: f64 = 0.1;
/// Time for which a query without windows collects groups.
const WHOLE_RUN_SECONDS: f64 = 600.0;
/// Waiting time of tuples in a join, and of outgoing tuples.
const WAIT_SECONDS: f64 = 5.0;
/// Maximum memory of the parts of a monitor.
const HELD_BYTES_MAX: u64 = 512 << 20;

/// The estimated cost of the plan.
#[must_use]
pub fn cost(plan: &Plan) -> JobCost {
    let share = match plan.monitor.sample {
        SampleMode::Fraction(p) => p,
        SampleMode::All | SampleMode::Auto | SampleMode::Exported => 1.0,
    };
    let dataflow = &plan.dataflow;
    let classes: Vec<&ParserCostClass> = plan
        .monitor
        .parsers
        .iter()
        .map(|parser| class(&parser.schema))
        .collect();
    let most =
        |of: fn(&ParserCostClass) -> f64| classes.iter().map(|class| of(class)).fold(0.0, f64::max);
    let tuples: f64 = classes.iter().map(|class| class.tuples).sum();
    let others = classes.len().saturating_sub(1) as f64;
    let packet_ns = most(|class| class.packet_ns)
        + others * ANOTHER_NS
        + classes
            .iter()
            .map(|class| class.tuples * class.tuple_ns)
            .sum::<f64>()
        + tuples * tuple_ns(dataflow);
    let left_out_ns = if share < 1.0 { LEFT_OUT_NS } else { 0.0 };
    let columns = columns(dataflow);
    let is_raw = dataflow.pipelines.is_empty();
    let row_bytes: f64 = columns
        .iter()
        .map(|data_type| column_bytes(*data_type))
        .sum();
    let rows_bytes = if is_raw {
        tuples * share * row_bytes
    } else {
        0.0
    };
    let waiting = if dataflow.inputs.len() > 1 {
        tuples * row_bytes
    } else {
        0.0
    };
    let per_pps = most(|class| class.flow_bytes) * FLOWS_OPEN_PER_PPS
        + dataflow
            .pipelines
            .iter()
            .map(|p| group_bytes(dataflow, p, tuples))
            .sum::<f64>()
        + (waiting + rows_bytes) * WAIT_SECONDS;
    JobCost {
        base: ResourceUsage {
            cpu_millis: IDLE_CPU_MILLIS,
            memory_bytes: IDLE_BYTES,
        },
        cpu_ns_per_packet: (left_out_ns + share * packet_ns).round() as u64,
        memory_bytes_per_pps: (share * per_pps).round() as u64,
        memory_bytes_max: HELD_BYTES_MAX,
        sent_bytes_per_1000_packets: (1000.0 * rows_bytes).round() as u64,
    }
}

fn class(schema: &Schema) -> &'static ParserCostClass {
    match &*schema.name {
        "packet" | "tcp_pkt_size" => &HEADERS,
        "tcp_flow_key" | "tcp_conn_time" | "flow" => &FLOWS,
        _ => &MESSAGES,
    }
}

/// Cost of processing a tuple.
fn tuple_ns(dataflow: &Dataflow) -> f64 {
    if dataflow.pipelines.is_empty() {
        return columns(dataflow).len() as f64 * COLUMN_NS;
    }
    let of = |p: &Pipeline| {
        (1 + p.group.len()) as f64 * GROUP_NS + p.aggregates.len() as f64 * AGGREGATE_NS
    };
    dataflow.pipelines.iter().map(of).sum()
}

/// The types of the columns of tuples.
fn columns(dataflow: &Dataflow) -> Vec<DataType> {
    let of = |input: &plan::DataflowInput| -> Vec<DataType> {
        input
            .columns
            .iter()
            .map(|id| input.schema.field(*id).data_type)
            .collect()
    };
    dataflow.inputs.iter().flat_map(of).collect()
}

fn column_bytes(data_type: DataType) -> f64 {
    match data_type {
        DataType::Bool => 1.0,
        DataType::U64 | DataType::I64 | DataType::F64 => 8.0,
        DataType::Ip => 16.0,
        DataType::Text | DataType::Json | DataType::Hashes => 32.0,
    }
}

/// Memory for a pipeline's groups per packet per second: the new groups of a window in all open panes, limited by the
/// exact groups for a stated traffic.
fn group_bytes(dataflow: &Dataflow, pipeline: &Pipeline, tuples: f64) -> f64 {
    let few = pipeline
        .group
        .iter()
        .all(|group| has_few_values(dataflow, group.column));
    if few && pipeline.profile.is_none() {
        return 0.0;
    }
    let (seconds, panes) = match pipeline.window {
        None => (WHOLE_RUN_SECONDS, 1.0),
        Some(window) => {
            let slide = window.slide_ns.max(1);
            let panes = 1 + window.size_ns / slide + window.lateness_ns / slide;
            (slide as f64 / 1e9, panes as f64)
        }
    };
    let state = |aggregate: &AggregateFunction| match aggregate {
        AggregateFunction::Quantile(_) | AggregateFunction::Hist | AggregateFunction::Cdf => 512.0,
        AggregateFunction::Distinct(_) => 1024.0,
        _ => 16.0,
    };
    let each = 64.0
        + 32.0 * pipeline.group.len() as f64
        + pipeline
            .aggregates
            .iter()
            .map(|a| state(&a.aggregate))
            .sum::<f64>();
    tuples * NEW_GROUPS * seconds * panes * each
}

/// Whether a column has few values for any traffic; those of the agent have one.
fn has_few_values(dataflow: &Dataflow, column: Column) -> bool {
    let mut few = true;
    ComputedField::sources(&dataflow.computed, column, &mut |source| {
        let schema = &dataflow.inputs[usize::from(source.input)].schema;
        few &= is_few(schema, source.field);
    });
    few
}

fn is_few(schema: &Schema, id: FieldId) -> bool {
    let field = schema.field(id);
    let is_label = field
        .name
        .strip_prefix(LABELS.name)
        .is_some_and(|rest| rest.starts_with('.'));
    field.name == AGENT || is_label || field.data_type == DataType::Bool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost_of(query: &str) -> JobCost {
        let checked = query::check(query, &parsers::registry::schemas(), &());
        cost(&crate::lower(
            &checked.unwrap_or_else(|e| panic!("{query}: {e:?}")),
        ))
    }

    /// Higher load yields a higher estimate.
    #[test]
    fn estimates_are_in_order() {
        let cpu = |query: &str| cost_of(query).cpu_ns_per_packet;
        for (less, more) in [
            ("PARSE packet PROCESS (count)", "PARSE flow PROCESS (count)"),
            ("PARSE flow PROCESS (count)", "PARSE http PROCESS (count)"),
            (
                "PARSE http PROCESS (count)",
                "PARSE http PROCESS (diff-group: group=path)",
            ),
            (
                "PARSE http PROCESS (count)",
                "PARSE http, mysql_query PROCESS (count)",
            ),
            ("PARSE http PROCESS (diff-group: group=path)", "PARSE http"),
            ("PARSE http SELECT path", "PARSE http"),
            ("PARSE packet PROCESS (count)", "PARSE packet"),
            (
                "PARSE http SAMPLE 0.1 PROCESS (count)",
                "PARSE http PROCESS (count)",
            ),
        ] {
            assert!(
                cpu(less) < cpu(more),
                "{less}: {}, {more}: {}",
                cpu(less),
                cpu(more)
            );
        }
        let memory = |query: &str| cost_of(query).memory_bytes_per_pps;
        for (less, more) in [
            ("PARSE packet PROCESS (count)", "PARSE flow PROCESS (count)"),
            (
                "PARSE http PROCESS (count)",
                "PARSE http PROCESS (group-count: group=path, w=10s)",
            ),
            (
                "PARSE http PROCESS (group-count: group=path, w=1s)",
                "PARSE http PROCESS (group-count: group=path, w=60s)",
            ),
            (
                "PARSE http PROCESS (group-count: group=path, w=10s)",
                "PARSE http PROCESS (diff-group: group=path, w=10s)",
            ),
            (
                "PARSE http PROCESS (group-count: group=path, w=10s)",
                "PARSE http PROCESS (group-count: group=path)",
            ),
        ] {
            assert!(
                memory(less) < memory(more),
                "{less}: {}, {more}: {}",
                memory(less),
                memory(more)
            );
        }
        // The agent's name and labels add no groups.
        let plain = memory("PARSE http PROCESS (count)");
        assert_eq!(
            memory("PARSE http PROCESS (diff-group: group=agent, label.role)"),
            plain
        );
    }

    #[test]
    fn only_tuples_are_sent() {
        assert_eq!(
            cost_of("PARSE http PROCESS (diff-group: group=path)").sent_bytes_per_1000_packets,
            0
        );
        let few = cost_of("PARSE http SELECT path");
        let all = cost_of("PARSE http");
        assert!(few.sent_bytes_per_1000_packets > 0);
        assert!(few.sent_bytes_per_1000_packets < all.sent_bytes_per_1000_packets);
    }
}
