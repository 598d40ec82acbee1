//! A plan as text: monitors, processing of tuples, cost, and limitations of the results. The text depends only on the
//! plan.

use std::fmt::Write;
use std::sync::Arc;

use plan::{
    AggregateColumn, AggregateFunction, Column, Dataflow, DataflowInput, MonitorSpec, Pipeline,
    Plan, ProfileSpec, QueryLimit, RateGoal, RawRows, SampleMode, SampledUnit, ShareTotal,
    SortDirection, SortKey, TapSelection, result,
};
use tuple::{Schema, Unit};

use crate::query_text;

/// Parsers that read only packet headers; all others read messages.
const HEADERS_ONLY: &[&str] = &[
    "tcp_flow_key",
    "tcp_conn_time",
    "tcp_pkt_size",
    "packet",
    "flow",
];
/// Position of the right-hand column.
const INDENT: usize = 14;

/// The plan as stable text, one fact per line.
#[must_use]
pub fn explain(plan: &Plan) -> String {
    let mut out = String::from("query\n");
    for line in plan.query.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let _ = writeln!(out, "  {}", line.replace(char::is_control, " "));
    }
    out.push_str("monitor\n");
    monitor(&mut out, &plan.monitor);
    if let Some(goal) = rate_goal(plan) {
        row(&mut out, "rate", &goal);
    }
    out.push_str("dataflow\n");
    dataflow(&mut out, &plan.dataflow);
    out.push_str("notes\n");
    for note in notes(plan) {
        let _ = writeln!(out, "  - {note}");
    }
    out
}

fn row(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "  {label:INDENT$}{text}");
}

fn monitor(out: &mut String, monitor: &MonitorSpec) {
    for parser in &monitor.parsers {
        row(out, "parser", &parser.schema.name);
        let names: Vec<_> = parser
            .columns
            .iter()
            .map(|id| parser.schema.field(*id).name.as_ref())
            .collect();
        let names = if names.is_empty() {
            "none: tuples are only counted".to_owned()
        } else {
            names.join(", ")
        };
        row(out, "  columns", &names);
    }
    let ends = |ends: &[plan::AddressMatch]| match ends {
        [] => "any".to_owned(),
        ends => ends
            .iter()
            .map(query_text::end)
            .collect::<Vec<_>>()
            .join(", "),
    };
    row(out, "clients", &ends(&monitor.clients));
    row(out, "servers", &ends(&monitor.servers));
    row(out, "limit", &limit(monitor.limit));
    row(
        out,
        "sample",
        &match monitor.sample {
            SampleMode::All => "every flow".to_owned(),
            SampleMode::Auto => "every flow, fewer under overload".to_owned(),
            SampleMode::Exported => "packets that exporters sampled".to_owned(),
            SampleMode::Fraction(p) => {
                format!("{p} of the flows, each included or excluded as a whole")
            }
        },
    );
    let taps = match monitor.taps {
        TapSelection::Server => return,
        TapSelection::Client => {
            "for a flow that several agents capture, the one closest to the client reports"
        }
        TapSelection::All => "for a flow that several agents capture, all of them report",
        TapSelection::Ends => {
            "for a flow that several agents capture, those at both ends report, and their tuples are joined"
        }
    };
    row(out, "taps", taps);
}

/// The goal of the sampling rate, and the columns to which it applies.
fn rate_goal(plan: &Plan) -> Option<String> {
    let RateGoal { error, cpu } = plan.monitor.goal;
    let unit = plan
        .dataflow
        .rates()
        .map_or(SampledUnit::Tuples, |(_, unit)| unit);
    let bounded = plan.dataflow.pipelines.iter().flat_map(|pipeline| {
        let schema = result::schema(pipeline, result::IntervalMode::None, &|c: Column| {
            query_text::field(&plan.dataflow, c).clone()
        });
        let first = result::first_aggregate(pipeline);
        let columns = pipeline.aggregates.iter().enumerate();
        columns
            .filter(|(_, column)| column.aggregate.has_error(unit))
            .map(|(i, _)| schema.fields[first + i].name.to_string())
            .collect::<Vec<_>>()
    });
    let bounded = || bounded.collect::<Vec<_>>().join(", ");
    let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
    let budget = cpu.map(|cpu| format!("at most {} of the CPU time", percent(cpu)));
    let bound = error.map(|error| {
        format!(
            "the lowest at which {} of the ten largest groups are within ± {}",
            bounded(),
            percent(error)
        )
    });
    match (bound, budget) {
        (None, None) => None,
        (Some(bound), None) => Some(bound),
        (None, Some(budget)) => Some(format!("the highest with {budget}")),
        (Some(bound), Some(budget)) => Some(format!("{bound}, with {budget}")),
    }
}

fn limit(limit: QueryLimit) -> String {
    let nanos = limit
        .nanos
        .map(|n| format!("{} after the first packet", query_text::duration(n)));
    let packets = limit
        .packets
        .map(|n| format!("after {n} packets that match"));
    match (nanos, packets) {
        (None, None) => "none: until the input ends or is stopped".to_owned(),
        (Some(one), None) | (None, Some(one)) => one,
        (Some(nanos), Some(packets)) => format!("{nanos} or {packets}, whichever comes first"),
    }
}

fn dataflow(out: &mut String, dataflow: &Dataflow) {
    for input in &dataflow.inputs {
        let condition = input
            .filter
            .as_ref()
            .map(|f| format!(" where {}", query_text::predicate(dataflow, f)));
        row(
            out,
            "take",
            &format!("{}{}", input.schema.name, condition.unwrap_or_default()),
        );
    }
    if dataflow.inputs.len() > 1 {
        row(
            out,
            "join",
            "by id, the flow; a joined tuple's time is the latest of its parts",
        );
    }
    if let Some(filter) = &dataflow.filter {
        row(out, "where", &query_text::predicate(dataflow, filter));
    }
    if dataflow.pipelines.is_empty() {
        row(out, "result", "the tuples themselves");
        raw_rows(out, dataflow);
    }
    for pipeline in &dataflow.pipelines {
        row(out, "result", &pipeline.name);
        steps(out, dataflow, pipeline);
    }
}

fn raw_rows(out: &mut String, dataflow: &Dataflow) {
    let RawRows {
        select,
        order,
        rows_max,
    } = &dataflow.rows;
    if let Some(select) = select {
        let shown = |column: &Column| {
            let text = query_text::column(dataflow, *column);
            let name = &query_text::field(dataflow, *column).name;
            if column.computed_place().is_some() && text != **name {
                format!("{text} AS {name}")
            } else {
                text
            }
        };
        row(
            out,
            "  columns",
            &select.iter().map(shown).collect::<Vec<_>>().join(", "),
        );
    }
    let key = |(column, direction): &(Column, SortDirection)| match direction {
        SortDirection::Ascending => query_text::column(dataflow, *column),
        SortDirection::Descending => format!(
            "{}, the largest first",
            query_text::column(dataflow, *column)
        ),
    };
    if !order.is_empty() {
        row(
            out,
            "  order by",
            &order.iter().map(key).collect::<Vec<_>>().join("; "),
        );
    }
    if let Some(max) = rows_max {
        row(out, "  keep", &format!("the first {max} rows"));
    }
}

fn steps(out: &mut String, dataflow: &Dataflow, pipeline: &Pipeline) {
    for (place, value) in pipeline.values.iter().enumerate() {
        let required = if pipeline.value_required && place == 0 {
            "; tuples without it are excluded"
        } else {
            ""
        };
        let unit = unit(value.unit)
            .map(|u| format!(" ({u})"))
            .unwrap_or_default();
        row(
            out,
            "  value",
            &format!(
                "{}{unit}{required}",
                query_text::column(dataflow, value.column)
            ),
        );
    }
    match pipeline.window {
        None => row(out, "  window", "none: the whole run"),
        Some(w) => {
            let size = query_text::duration(w.size_ns);
            let kind = if w.slide_ns == w.size_ns {
                format!("tumbling, {size}")
            } else {
                format!("sliding, {size} every {}", query_text::duration(w.slide_ns))
            };
            row(
                out,
                "  window",
                &format!(
                    "{kind}; waits {} for late tuples",
                    query_text::duration(w.lateness_ns)
                ),
            );
        }
    }
    if let Some(profile) = &pipeline.profile {
        return profile_steps(out, dataflow, pipeline, profile);
    }
    match pipeline.group.as_slice() {
        [] => row(out, "  group by", "none: one group of all tuples"),
        group => {
            let names: Vec<_> = group
                .iter()
                .map(|g| query_text::column(dataflow, g.column))
                .collect();
            row(
                out,
                "  group by",
                &format!(
                    "{}; at most {} groups exactly",
                    names.join(", "),
                    pipeline.groups_max
                ),
            );
        }
    }
    let computed: Vec<_> = pipeline
        .aggregates
        .iter()
        .map(|a| aggregate(dataflow, pipeline, a))
        .collect();
    row(out, "  compute", &computed.join(", "));
    if let Some(top) = pipeline.top_k {
        let by = computed.get(top.by).map_or("", String::as_str);
        row(out, "  keep", &format!("the {} largest by {by}", top.k));
    }
    selection(out, dataflow, pipeline);
}

/// The rows of a window in the output.
fn selection(out: &mut String, dataflow: &Dataflow, pipeline: &Pipeline) {
    let schema = result::schema(pipeline, result::IntervalMode::None, &|c: Column| {
        query_text::field(dataflow, c).clone()
    });
    // Conditions and keys refer to the results as the only input.
    let input = DataflowInput {
        schema: Arc::new(schema),
        columns: Vec::new(),
        filter: None,
    };
    let computed = pipeline.selection.computed.clone();
    let results = Dataflow {
        inputs: vec![input],
        computed,
        ..Dataflow::default()
    };
    if let Some(having) = &pipeline.selection.having {
        row(out, "  having", &query_text::predicate(&results, having));
    }
    let key = |key: &SortKey| {
        let direction = if key.direction == SortDirection::Descending {
            ", the largest first"
        } else {
            ""
        };
        format!("{}{direction}", query_text::column(&results, key.column))
    };
    if !pipeline.selection.order_by.is_empty() {
        let keys: Vec<_> = pipeline.selection.order_by.iter().map(key).collect();
        row(out, "  order by", &keys.join("; "));
    }
    if let Some(rows) = pipeline.selection.rows_max {
        row(
            out,
            "  show",
            &format!("the first {rows} rows of each window; the others are counted"),
        );
    }
}

fn profile_steps(
    out: &mut String,
    dataflow: &Dataflow,
    pipeline: &Pipeline,
    profile: &ProfileSpec,
) {
    let name = |column| query_text::column(dataflow, column);
    row(
        out,
        "  operations",
        &format!("by {}", name(profile.operation)),
    );
    row(
        out,
        "  reads",
        &query_text::predicate(dataflow, &profile.reads),
    );
    row(
        out,
        "  writes",
        &query_text::predicate(dataflow, &profile.writes),
    );
    let sequential = format!(
        "at most {} times its size from the end of the one before",
        profile.near
    );
    if let (Some(_), Some(file)) = (profile.offset, profile.file) {
        row(
            out,
            "  sequential",
            &format!("{sequential}, by flow and {}", name(file)),
        );
    }
    let hottest: Vec<_> = profile
        .object
        .into_iter()
        .chain([profile.client])
        .map(name)
        .collect();
    let hottest = hottest.join(", ");
    let max = pipeline.groups_max;
    row(
        out,
        "  keep",
        &format!(
            "the {} hottest of {hottest}; at most {max} of each exactly",
            profile.k
        ),
    );
}

/// An aggregate, with its value if there are several.
fn aggregate(dataflow: &Dataflow, pipeline: &Pipeline, aggregated: &AggregateColumn) -> String {
    let value = || query_text::column(dataflow, pipeline.values[aggregated.value].column);
    let takes_one_of_several = pipeline.values.len() > 1 && aggregated.aggregate.takes_value();
    let text = match &aggregated.aggregate {
        AggregateFunction::Share(ShareTotal::Values) => return format!("share of all {}", value()),
        other => aggregate_alone(dataflow, other),
    };
    if takes_one_of_several {
        format!("{text} of {}", value())
    } else {
        text
    }
}

fn aggregate_alone(dataflow: &Dataflow, aggregate: &AggregateFunction) -> String {
    let name = match aggregate {
        AggregateFunction::Count => "count",
        AggregateFunction::Sum => "sum",
        AggregateFunction::Avg => "avg",
        AggregateFunction::Min => "min",
        AggregateFunction::Max => "max",
        AggregateFunction::Stddev => "stddev",
        AggregateFunction::Rate => "rate",
        AggregateFunction::Hist => "hist",
        AggregateFunction::Cdf => "cdf",
        AggregateFunction::Distinct(column) => {
            return format!("distinct {}", query_text::column(dataflow, *column));
        }
        // Rounded, because 0.29 × 100 is not exactly 29.
        AggregateFunction::Quantile(q) => return format!("p{}", (q * 1e8).round() / 1e6),
        AggregateFunction::Throughput => "sum per second",
        AggregateFunction::Share(_) => "share of all tuples",
        AggregateFunction::Success(predicate) => {
            return format!(
                "success (share of {})",
                query_text::predicate(dataflow, predicate)
            );
        }
        AggregateFunction::Ratio(predicate) => {
            return format!(
                "ratio (share of {})",
                query_text::predicate(dataflow, predicate)
            );
        }
    };
    name.to_owned()
}

fn unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Nanoseconds => Some("a duration"),
        Unit::Bytes => Some("bytes"),
        Unit::PerSecond => Some("per second"),
        Unit::BytesPerSecond => Some("bytes per second"),
        Unit::Fraction => Some("a share"),
        Unit::EpochNanoseconds => Some("a point in time"),
        Unit::None | Unit::Id => None,
    }
}

/// Cost and limitations of the results.
fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![reading(&plan.monitor)];
    let inputs = &plan.dataflow.inputs;
    let pipelines = &plan.dataflow.pipelines;
    let mut add = |holds: bool, note: &str| notes.extend(holds.then(|| note.to_owned()));
    add(
        inputs.len() > 1,
        "a tuple waits for its partners of the same flow; a flow that lacks one of them is not in the result",
    );
    let messages = inputs.iter().filter(|i| !headers_only(&i.schema)).count();
    add(
        messages > 1,
        "every tuple of one parser meets every tuple of another in the same flow",
    );
    let parts = inputs
        .iter()
        .any(|i| i.schema.name == "tcp_conn_time" && i.filter.is_none());
    let diff_only = pipelines.iter().all(|p| p.value_required);
    add(
        parts && !diff_only && plan.dataflow.filter.is_none(),
        "a connection has two tuples, its start and its end; both are counted",
    );
    let required = |name: &str| {
        let is_it = |c: Column| query_text::field(&plan.dataflow, c).name == name;
        pipelines
            .iter()
            .any(|p| p.value_required && p.values.iter().any(|v| is_it(v.column)))
    };
    add(
        required("conn_time_ns"),
        "connections whose start or end was not captured have no duration and are excluded",
    );
    add(
        required("response_time_ns"),
        "requests without a response have no response time and are excluded",
    );
    add(
        plan.monitor.sample != SampleMode::All && pipelines.iter().any(|p| p.profile.is_none()),
        "below the rate of 1 counts and sums are scaled up, and every number has a 95 % interval",
    );
    add(
        plan.monitor.sample != SampleMode::All && pipelines.iter().any(|p| p.profile.is_some()),
        "a profile of the workload has no intervals",
    );
    let sketched = |a: &AggregateFunction| {
        matches!(
            a,
            AggregateFunction::Quantile(_) | AggregateFunction::Hist | AggregateFunction::Cdf
        )
    };
    add(
        pipelines
            .iter()
            .any(|p| p.profile.is_some() || p.aggregates.iter().any(|a| sketched(&a.aggregate))),
        "quantiles and distributions are within 1 % of the value",
    );
    add(
        pipelines
            .iter()
            .any(|p| p.profile.is_some() || !p.group.is_empty()),
        "beyond the groups counted exactly, results are marked as approximate",
    );
    add(
        pipelines.iter().any(|p| p.window.is_some()),
        "tuples that arrive after their window has closed are counted and excluded",
    );
    notes
}

/// The depth of packet inspection.
fn reading(monitor: &MonitorSpec) -> String {
    let deep: Vec<_> = monitor
        .parsers
        .iter()
        .filter(|p| !headers_only(&p.schema))
        .map(|p| p.schema.name.as_ref())
        .collect();
    match deep.as_slice() {
        [] => "packet headers are enough: payload is not needed, nothing is reassembled".to_owned(),
        deep => format!(
            "reassembles TCP for {}; `quality` marks tuples with missing data",
            deep.join(", ")
        ),
    }
}

fn headers_only(schema: &Schema) -> bool {
    HEADERS_ONLY.contains(&schema.name.as_ref())
}
