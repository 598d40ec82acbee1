//! The queries of an overview: one about flows, one about connections that failed, one about connects that a lost SYN
//! delayed, and two about each protocol with response times. `docs/overview.md` lists them.

use parsers::registry::{PARSERS, ParserInput};
use plan::{MonitorSpec, Plan};
use tuple::Schema;

/// Columns that identify requests; the first that a parser has is used.
const KEYS: &[&str] = &[
    "url_template",
    "fingerprint",
    "procedure",
    "command",
    "query_name",
    "server_name",
    "sni",
    "name",
];
/// Columns with the status of a response.
const STATUSES: &[&str] = &[
    "status",
    "error_code",
    "response_code",
    "rcode",
    "error",
    "alert",
    "rpc_status",
];
/// Rows of the request rankings: more than a screen shows, to be shared by several protocols.
const RANKED: usize = 20;

/// All queries, and the indexes of their results.
pub struct OverviewQueries {
    /// Query texts in the order of their results.
    pub texts: Vec<String>,
    /// Parsed protocols.
    pub protocols: Vec<OverviewProtocol>,
}

/// A parsed protocol.
#[derive(Clone, Debug)]
pub struct OverviewProtocol {
    /// Name in flows.
    pub name: &'static str,
    /// Parser.
    pub parser: String,
    /// Column that identifies its requests.
    pub key: &'static str,
    /// Column with the status.
    pub status: Option<&'static str>,
    /// Condition for successful requests.
    pub success: &'static str,
    /// Column with a duration.
    pub measure: String,
}

/// Results of the query about flows, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FlowQueryResult {
    ApplicationsOut,
    ApplicationsIn,
    PairsOut,
    PairsIn,
    PairsRetransmissions,
    ServicesOut,
    ServicesIn,
}

/// Number of results of the query about flows.
const OF_FLOWS: usize = 7;
/// Results of the query about failed connections: by server, and in total.
const OF_FAILED: usize = 2;
/// The result of the query about connects that a lost SYN delayed.
const OF_DELAYED: usize = 1;
/// Results per protocol: services, slowest requests, failing requests.
const OF_PROTOCOL: usize = 3;

impl OverviewQueries {
    /// Queries about all flows and protocols.
    #[must_use]
    pub fn new() -> OverviewQueries {
        let protocols = protocols();
        let sums = |group: &str| {
            format!(
                "(group-count-sum: group={group}, value=client_bytes), (group-sum: group={group}, value=server_bytes)"
            )
        };
        let applications = sums("transport, application");
        let pairs = sums("client_ip, server_ip");
        let services = sums("server_ip, server_port, application");
        let mut texts = vec![
            format!(
                "PARSE flow PROCESS {applications}, {pairs}, (group-sum: group=client_ip, server_ip, \
                 value=retransmissions), {services}"
            ),
            format!(
                "PARSE flow WHERE conn_state in ('REJ', 'S0') PROCESS (group-count-top-k: group=conn_state, server_ip, \
                 server_port, k={RANKED}), (group-count: group=conn_state)"
            ),
            format!(
                "PARSE flow WHERE syn_retransmissions > 0 and handshake_ns > 0 PROCESS (group-max-count-top-k: \
                 group=server_ip, server_port, value=handshake_ns, k={RANKED})"
            ),
        ];
        for protocol in &protocols {
            let OverviewProtocol {
                parser,
                key,
                measure,
                ..
            } = protocol;
            texts.push(format!(
                "PARSE {parser} PROCESS (group-count-success-quantile: group=server_ip, server_port, value={measure}, \
                 q=0.5, 0.99), (group-quantile-count-top-k: group={key}, value={measure}, q=0.99, k={RANKED})"
            ));
            texts.push(format!(
                "PARSE {parser} WHERE {} PROCESS (group-count-top-k: group={}, k={RANKED})",
                protocol.failing(),
                protocol.ends()
            ));
        }
        OverviewQueries { texts, protocols }
    }

    /// Total number of results.
    #[must_use]
    pub fn results(&self) -> usize {
        Self::of_protocol(self.protocols.len())[0]
    }

    /// Index of a result about flows.
    #[must_use]
    pub fn of_flows(of: FlowQueryResult) -> usize {
        of as usize
    }

    /// Indexes of the results about failed connections.
    #[must_use]
    pub fn of_failed() -> [usize; OF_FAILED] {
        [OF_FLOWS, OF_FLOWS + 1]
    }

    /// Index of the result about delayed connects.
    #[must_use]
    pub fn of_delayed() -> usize {
        OF_FLOWS + OF_FAILED
    }

    /// Indexes of a protocol's results: services, slowest and failing requests.
    #[must_use]
    pub fn of_protocol(place: usize) -> [usize; OF_PROTOCOL] {
        let first = OF_FLOWS + OF_FAILED + OF_DELAYED + place * OF_PROTOCOL;
        [first, first + 1, first + 2]
    }
}

impl OverviewProtocol {
    /// Condition for failing requests.
    #[must_use]
    pub fn failing(&self) -> String {
        format!("not ({})", self.success)
    }

    /// Columns that identify requests and their results.
    #[must_use]
    pub fn ends(&self) -> String {
        self.status.map_or(self.key.to_owned(), |status| {
            format!("{}, {status}", self.key)
        })
    }
}

/// Combines the queries into one specification for monitors.
pub fn together(plans: &[Plan]) -> MonitorSpec {
    let parsers = plans
        .iter()
        .flat_map(|plan| plan.monitor.parsers.iter().cloned())
        .collect();
    MonitorSpec {
        parsers,
        ..MonitorSpec::default()
    }
}

/// Parsers with response times and success; the most complete one per protocol.
pub fn protocols() -> Vec<OverviewProtocol> {
    let mut found: Vec<(u8, OverviewProtocol)> = Vec::new();
    for registration in PARSERS {
        let ParserInput::Messages(protocol, variant) = registration.reads else {
            continue;
        };
        let Some(protocol) = of_schema(protocol.name, &(registration.schema)()) else {
            continue;
        };
        match found
            .iter_mut()
            .find(|(_, known)| known.name == protocol.name)
        {
            Some(known) if variant < known.0 => *known = (variant, protocol),
            Some(_) => {}
            None => found.push((variant, protocol)),
        }
    }
    found.into_iter().map(|(_, protocol)| protocol).collect()
}

fn of_schema(name: &'static str, schema: &Schema) -> Option<OverviewProtocol> {
    let first = |names: &[&'static str]| {
        names
            .iter()
            .copied()
            .find(|name| schema.find(name).is_some())
    };
    Some(OverviewProtocol {
        name,
        parser: schema.name.to_string(),
        key: first(KEYS)?,
        status: first(STATUSES),
        success: schema.facts.success?,
        measure: schema.field(schema.measure?).name.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_a_query_with_the_results_that_are_expected() {
        let questions = OverviewQueries::new();
        let schemas = parsers::registry::schemas();
        let results = questions
            .texts
            .iter()
            .map(|text| match query::check(text, &schemas, &()) {
                Ok(checked) => checked.processors.len(),
                Err(errors) => panic!("{}", query::render(&errors, text)),
            });
        assert_eq!(results.sum::<usize>(), questions.results());
        let names: Vec<&str> = questions.protocols.iter().map(|p| p.name).collect();
        assert!(
            ["http", "mysql", "memcached", "rpc"]
                .iter()
                .all(|name| names.contains(name)),
            "{names:?}"
        );
    }
}
