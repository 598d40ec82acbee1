//! Checks of a query over export messages (sFlow, NetFlow, IPFIX), before it runs: samples have packet headers, flow
//! records have counters, and neither has messages or response times.

use parsers::flow_level::flow_record;
use parsers::registry::{self, ParserInput};
use plan::SampleMode;
use planner::PlanOptions;
use query::CheckedQuery;

/// The query for export messages.
///
/// # Errors
/// The part of the query that export messages cannot answer, with the reason.
pub fn of(query: CheckedQuery, options: &PlanOptions) -> Result<CheckedQuery, String> {
    if query.sample != SampleMode::All {
        return Err(
            "SAMPLE selects flows by their packets; exporters sample before they export, at rates of their own"
                .to_owned(),
        );
    }
    if query.inputs.len() > 1 {
        return Err(
            "samples and flow records of exporters cannot be joined: PARSE packet or PARSE flow"
                .to_owned(),
        );
    }
    for input in &query.inputs {
        let name = &input.schema.name;
        match registry::find(name).map(|parser| parser.reads) {
            Some(ParserInput::Packets(_) | ParserInput::Flows) => {}
            Some(ParserInput::Messages(..)) => {
                return Err(format!(
                    "PARSE {name}: samples and flow records have packet headers and counters only; messages and \
                     response times cannot be derived from them: PARSE packet or PARSE flow"
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
    Ok(CheckedQuery {
        sample: SampleMode::Exported,
        ..query
    })
}
