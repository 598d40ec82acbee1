//! The queries of an overview: one about flows, one about connections that failed, two about slow connects, two about
//! each protocol with response times, and one about each protocol with lookups. `docs/overview.md` lists them.

use parsers::registry::{self, PARSERS, ParserInput};
use plan::{MonitorSpec, Plan};
use tuple::Schema;

/// Columns that identify requests; the first that a parser has is used, otherwise its key.
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
/// Column of the time from the last byte of a request to the last byte of its response.
const TOTAL_TIME: &str = "total_time_ns";
/// Rows of the rankings: more than a screen shows, to be shared by several protocols.
pub const RANKED: usize = 20;
/// A connect that takes this long is slow.
const SLOW_CONNECT: &str = "100ms";

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
    pub key: String,
    /// Column with the status.
    pub status: Option<&'static str>,
    /// Condition for successful requests.
    pub success: &'static str,
    /// Condition for lookups that found nothing.
    pub not_found: Option<&'static str>,
    /// Column with a duration.
    pub measure: String,
    /// Whether it has a total time, which ranks its requests.
    pub has_total: bool,
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
/// Results of the queries about slow connects: with a lost SYN, and without.
const OF_CONNECTS: usize = 2;
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
            format!(
                "PARSE flow WHERE syn_retransmissions = 0 and handshake_ns >= {SLOW_CONNECT} PROCESS \
                 (group-max-count-top-k: group=server_ip, server_port, value=handshake_ns, k={RANKED})"
            ),
        ];
        for protocol in &protocols {
            let OverviewProtocol { parser, key, .. } = protocol;
            let times = protocol.times();
            texts.push(format!(
                "PARSE {parser} PROCESS (group-count-success-quantile: group=server_ip, server_port, value={times}, \
                 q=0.5, 0.99), (group-quantile-count-top-k: group=server_ip, server_port, {key}, value={times}, q=0.99, \
                 k={RANKED})"
            ));
            texts.push(format!(
                "PARSE {parser} WHERE {} PROCESS (group-count-top-k: group=server_ip, server_port, {}, k={RANKED})",
                protocol.failing(),
                protocol.ends()
            ));
        }
        texts.extend(protocols.iter().filter_map(|protocol| {
            let parser = &protocol.parser;
            let not_found = protocol.not_found?;
            Some(format!(
                "PARSE {parser} WHERE {not_found} or not ({not_found}) PROCESS (group-count-ratio: group=server_ip, \
                 server_port, of=({not_found}) AS not_found)"
            ))
        }));
        OverviewQueries { texts, protocols }
    }

    /// Total number of results.
    #[must_use]
    pub fn results(&self) -> usize {
        Self::of_protocol(self.protocols.len())[0] + self.of_lookups().count()
    }

    /// Protocols with lookups, and the indexes of the results about them.
    pub fn of_lookups(&self) -> impl Iterator<Item = (&OverviewProtocol, usize)> {
        let first = Self::of_protocol(self.protocols.len())[0];
        let lookups = self.protocols.iter().filter(|p| p.not_found.is_some());
        lookups.zip(first..)
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

    /// Indexes of the results about slow connects: with a lost SYN, and without.
    #[must_use]
    pub fn of_connects() -> [usize; OF_CONNECTS] {
        [OF_FLOWS + OF_FAILED, OF_FLOWS + OF_FAILED + 1]
    }

    /// Indexes of a protocol's results: services, slowest and failing requests.
    #[must_use]
    pub fn of_protocol(place: usize) -> [usize; OF_PROTOCOL] {
        let first = OF_FLOWS + OF_FAILED + OF_CONNECTS + place * OF_PROTOCOL;
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
        self.status.map_or_else(
            || self.key.clone(),
            |status| format!("{}, {status}", self.key),
        )
    }

    /// Columns with durations; the first one ranks.
    #[must_use]
    pub fn times(&self) -> String {
        let measure = &self.measure;
        if self.has_total {
            format!("{TOTAL_TIME}, {measure}")
        } else {
            measure.clone()
        }
    }

    /// Name of a quantile of the measure in the results.
    #[must_use]
    pub fn of_measure(&self, quantile: &str) -> String {
        if self.has_total {
            format!("{quantile}_{}", self.measure)
        } else {
            quantile.to_owned()
        }
    }

    /// Name of a quantile of the total time in the results, if there is one.
    #[must_use]
    pub fn of_total(&self, quantile: &str) -> Option<String> {
        self.has_total.then(|| format!("{quantile}_{TOTAL_TIME}"))
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

/// Name of the protocol under which [`protocols`] lists the requests of flows with this application: `http` also has those of `http2`.
pub fn listed_as(application: &str) -> &str {
    let protocols = PARSERS
        .iter()
        .filter_map(|registration| match registration.reads {
            ParserInput::Messages(protocol, _) => Some(protocol),
            _ => None,
        });
    let mut named = protocols.filter(|protocol| protocol.name == application);
    named.next().map_or(application, |protocol| {
        registry::of_same_parsers(protocol)[0].name
    })
}

/// Parsers with response times and success; the most complete one per protocol.
pub fn protocols() -> Vec<OverviewProtocol> {
    let mut found: Vec<(u8, OverviewProtocol)> = Vec::new();
    for registration in PARSERS {
        let ParserInput::Messages(protocol, variant) = registration.reads else {
            continue;
        };
        let name = registry::of_same_parsers(protocol)[0].name;
        let Some(protocol) = of_schema(name, &(registration.schema)()) else {
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
        key: first(KEYS).map_or_else(
            || Some(schema.field(schema.key?).name.to_string()),
            |key| Some(key.to_owned()),
        )?,
        status: first(STATUSES),
        success: schema.facts.success?,
        not_found: schema.facts.not_found,
        measure: schema.field(schema.measure?).name.to_string(),
        has_total: schema.find(TOTAL_TIME).is_some(),
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
        let all = PARSERS
            .iter()
            .filter_map(|registration| match registration.reads {
                ParserInput::Messages(protocol, _) => Some(listed_as(protocol.name)),
                _ => None,
            });
        all.for_each(|name| assert!(names.contains(&name), "{name} is not in {names:?}"));
    }
}
