//! The queries of an overview: one about flows, one about connections that failed, one about connects that a lost SYN
//! delayed, and two about each protocol with response times. `docs/overview.md` lists them.

use parsers::registry::{PARSERS, Reads};
use plan::{MonitorSpec, Plan};
use tuple::Schema;

/// Columns that identify requests; the first that a parser has is used.
const KEYS: &[&str] =
    &["url_template", "fingerprint", "procedure", "command", "query_name", "server_name", "sni", "name"];
/// How they end.
const STATUSES: &[&str] = &["status", "error_code", "response_code", "rcode", "error", "alert", "rpc_status"];
/// Rows of the rankings of requests: more than a screen shows, so that several protocols may share it.
const RANKED: usize = 20;

/// All questions, each with where its results are.
pub struct Questions {
    /// The queries, in the order of their results.
    pub texts: Vec<String>,
    /// The protocols that are asked about.
    pub protocols: Vec<Protocol>,
}

/// A protocol that is read.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Its name, as flows have it.
    pub name: &'static str,
    /// Its parser.
    pub parser: String,
    /// Column that identifies its requests.
    pub key: &'static str,
    /// What says how they end.
    pub status: Option<&'static str>,
    /// Which are successes.
    pub success: &'static str,
    /// A duration.
    pub measure: String,
}

/// The results of the query about flows, by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OfFlows {
    ApplicationsOut,
    ApplicationsIn,
    PairsOut,
    PairsIn,
    PairsRetransmissions,
    ServicesOut,
    ServicesIn,
}

/// How many those are.
const OF_FLOWS: usize = 7;
/// The query about connections that did not come about: by server, and of how many all together.
const OF_FAILED: usize = 2;
/// The result of the query about connects that a lost SYN delayed.
const OF_DELAYED: usize = 1;
/// Of each protocol: services and the slowest requests; failing ones.
const OF_PROTOCOL: usize = 3;

impl Questions {
    /// The questions about everything that is read.
    #[must_use]
    pub fn new() -> Questions {
        let protocols = protocols();
        let sums = |group: &str| {
            format!(
                "(group-count-sum: group={group}, value=client_bytes), (group-sum: group={group}, value=server_bytes)"
            )
        };
        let (applications, pairs, services) = (
            sums("transport, application"),
            sums("client_ip, server_ip"),
            sums("server_ip, server_port, application"),
        );
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
            let Protocol { parser, key, measure, .. } = protocol;
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
        Questions { texts, protocols }
    }

    /// How many results they have in all.
    #[must_use]
    pub fn results(&self) -> usize {
        Self::of_protocol(self.protocols.len())[0]
    }

    /// Where a result about flows is.
    #[must_use]
    pub fn of_flows(of: OfFlows) -> usize {
        of as usize
    }

    /// Where the connections are that did not come about.
    #[must_use]
    pub fn of_failed() -> [usize; OF_FAILED] {
        [OF_FLOWS, OF_FLOWS + 1]
    }

    /// Where the connects are that a lost SYN delayed.
    #[must_use]
    pub fn of_delayed() -> usize {
        OF_FLOWS + OF_FAILED
    }

    /// Where services, slowest and failing requests of a protocol are.
    #[must_use]
    pub fn of_protocol(place: usize) -> [usize; OF_PROTOCOL] {
        let first = OF_FLOWS + OF_FAILED + OF_DELAYED + place * OF_PROTOCOL;
        [first, first + 1, first + 2]
    }
}

impl Protocol {
    /// The condition of those requests that failed.
    #[must_use]
    pub fn failing(&self) -> String {
        format!("not ({})", self.success)
    }

    /// Columns that identify requests and their results.
    #[must_use]
    pub fn ends(&self) -> String {
        self.status.map_or(self.key.to_owned(), |status| format!("{}, {status}", self.key))
    }
}

/// The queries as one order for monitors, and as their dataflows.
pub fn together(plans: &[Plan]) -> MonitorSpec {
    let parsers = plans.iter().flat_map(|plan| plan.monitor.parsers.iter().cloned()).collect();
    MonitorSpec { parsers, ..MonitorSpec::default() }
}

/// The parsers with requests that take time and end well or not; of each protocol the one that reads all of it.
pub fn protocols() -> Vec<Protocol> {
    let mut found: Vec<(u8, Protocol)> = Vec::new();
    for registration in PARSERS {
        let Reads::Messages(protocol, variant) = registration.reads else { continue };
        let Some(protocol) = of_schema(protocol.name, &(registration.schema)()) else { continue };
        match found.iter_mut().find(|(_, known)| known.name == protocol.name) {
            Some(known) if variant < known.0 => *known = (variant, protocol),
            Some(_) => {}
            None => found.push((variant, protocol)),
        }
    }
    found.into_iter().map(|(_, protocol)| protocol).collect()
}

fn of_schema(name: &'static str, schema: &Schema) -> Option<Protocol> {
    let first = |names: &[&'static str]| names.iter().copied().find(|name| schema.find(name).is_some());
    Some(Protocol {
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
        let questions = Questions::new();
        let schemas = parsers::registry::schemas();
        let results = questions.texts.iter().map(|text| match query::check(text, &schemas, &()) {
            Ok(checked) => checked.processors.len(),
            Err(errors) => panic!("{}", query::render(&errors, text)),
        });
        assert_eq!(results.sum::<usize>(), questions.results());
        let names: Vec<&str> = questions.protocols.iter().map(|p| p.name).collect();
        assert!(["http", "mysql", "memcached", "rpc"].iter().all(|name| names.contains(name)), "{names:?}");
    }
}
