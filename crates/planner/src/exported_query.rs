//! Checks of a query over export messages (sFlow, NetFlow, IPFIX), before it runs: samples have packet headers, flow
//! records have counters, and neither has messages or response times.

use parsers::flow_level::flow_record;
use parsers::registry::{self, ParserInput};
use plan::{SampleMode, SampledUnit};
use query::CheckedQuery;
use query::checked_query::QueryInput;

use crate::PlanOptions;

/// Checks a query for captured packets.
///
/// # Errors
/// The reason, if only export messages have the tuples.
pub fn check_captured(query: &CheckedQuery) -> Result<(), String> {
    let reads = |input: &QueryInput| registry::find(&input.schema.name).map(|parser| parser.reads);
    let mut inputs = query.inputs.iter();
    if inputs.any(|input| matches!(reads(input), Some(ParserInput::Interfaces))) {
        return Err(
            "PARSE interface: counters of interfaces come from sFlow agents: add --exports, or --listen sflow://ADDR"
                .to_owned(),
        );
    }
    Ok(())
}

/// The query for export messages.
///
/// # Errors
/// The part of the query that export messages cannot answer, with the reason.
pub fn of(query: CheckedQuery, options: &PlanOptions) -> Result<CheckedQuery, String> {
    let is_sampled_here = query.sample != SampleMode::All;
    if is_sampled_here && !(query.sample == SampleMode::Auto && query.goal.is_set()) {
        return Err(
            "SAMPLE selects flows by their packets; exporters sample before they export, at rates of their own: SAMPLE \
             auto ERROR 5% reports the rate that suffices"
                .to_owned(),
        );
    }
    if query.inputs.len() > 1 {
        return Err(
            "samples and flow records of exporters cannot be joined: use PARSE packet or PARSE flow"
                .to_owned(),
        );
    }
    for input in &query.inputs {
        let name = &input.schema.name;
        match registry::find(name).map(|parser| parser.reads) {
            Some(ParserInput::Packets(_) | ParserInput::Flows) => {}
            Some(ParserInput::Interfaces) if query.goal.is_set() => {
                return Err(format!(
                    "PARSE {name}: counters are not sampled, so that no rate determines their error"
                ));
            }
            Some(ParserInput::Interfaces) if query.from.is_empty() && query.to.is_empty() => {}
            Some(ParserInput::Interfaces) => {
                return Err(format!(
                    "PARSE {name}: an interface has no addresses for FROM and TO: WHERE exporter = '10.0.0.1' and \
                     interface = 3"
                ));
            }
            Some(ParserInput::Messages(..)) => {
                return Err(format!(
                    "PARSE {name}: samples and flow records have packet headers and counters only; messages and \
                     response times cannot be derived from them: use PARSE packet or PARSE flow"
                ));
            }
            _ => {
                return Err(format!(
                    "PARSE {name}: samples and flow records do not contain the first packet of every flow: PARSE packet \
                     or PARSE flow"
                ));
            }
        }
        let is_flow = input.schema.facts.counter_rate.is_some();
        for id in flow_record::CAPTURED_ONLY.iter().filter(|_| is_flow) {
            let field = &input.schema.field(*id).name;
            if options.reads(&query, field) {
                return Err(format!(
                    "{field} is measured from every packet of a flow; flow records of exporters do not contain it"
                ));
            }
        }
    }
    let is_flow = |input: &QueryInput| input.schema.facts.counter_rate.is_some();
    let mut aggregates = query.processors.iter().flat_map(|of| &of.aggregates);
    if query.goal.is_set()
        && query.inputs.iter().any(is_flow)
        && !aggregates.any(|column| column.aggregate.has_error(SampledUnit::Counters))
    {
        return Err(
            "the error of flow records is that of a sum or throughput: their number and means have no interval"
                .to_owned(),
        );
    }
    if query.goal.cpu.is_some() && query.inputs.iter().any(is_flow) {
        return Err(
            "BUDGET limits the cost of samples, and flow records do not state their number: use PARSE packet"
                .to_owned(),
        );
    }
    Ok(CheckedQuery {
        sample: SampleMode::Exported,
        ..query
    })
}
