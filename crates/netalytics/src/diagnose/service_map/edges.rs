//! Edges: a client, a service that it calls, and the service's response statistics.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use crate::diagnose::overview::queries::{OverviewProtocol, listed_as, protocols};
use crate::diagnose::overview::rows::{CollectedResults, ResultRow};

/// Queries of a map: of flows, then of each protocol.
pub struct MapQueries {
    /// Texts in the order of their results.
    pub texts: Vec<String>,
    protocols: Vec<OverviewProtocol>,
}

/// A client and a service that it calls.
#[derive(Debug)]
pub struct ServiceEdge {
    /// Address of the client.
    pub client_ip: String,
    /// Address of the server.
    pub server_ip: String,
    /// Port of the server.
    pub server_port: u64,
    /// Protocol, if known.
    pub protocol: Option<String>,
    /// Number of flows, ended or active.
    pub flows: u64,
    /// Bytes on the wire: from the client, and from the server.
    pub bytes: [u64; 2],
    /// Response statistics, if the protocol is parsed.
    pub answers: Option<EdgeResponses>,
    /// Distance from clients that no other host calls: 0 for their edges.
    pub depth: usize,
    /// Total times of this edge as a share of the client's own total times. The sum over its edges exceeds 1 with
    /// concurrent calls. `None`: no requests to the client were captured.
    pub share: Option<f64>,
}

/// Response statistics of a service for a client.
#[derive(Clone, Copy, Debug)]
pub struct EdgeResponses {
    /// Number of requests.
    pub requests: u64,
    /// Requests per second.
    pub per_second: Option<f64>,
    /// Share of successful requests.
    pub success: Option<f64>,
    /// Sum of response times, in ns.
    pub time_ns: f64,
    /// Median of response times.
    pub p50_ns: Option<f64>,
    /// 99th percentile of response times.
    pub p99_ns: Option<f64>,
    /// Sum of total times, if the protocol has them.
    pub total_time_ns: Option<f64>,
    /// 99th percentile of total times.
    pub p99_total_ns: Option<f64>,
}

impl EdgeResponses {
    /// Time that the client spent, in ns.
    fn spent_ns(&self) -> f64 {
        self.total_time_ns.unwrap_or(self.time_ns)
    }
}

/// Client, server, port, protocol.
type EdgeKey = (String, String, u64, Option<String>);

impl MapQueries {
    /// Queries of all flows and protocols.
    #[must_use]
    pub fn new() -> MapQueries {
        let protocols = protocols();
        let parsers = protocols.iter().map(|protocol| protocol.parser.as_str());
        let texts = ["flow"].into_iter().chain(parsers);
        let texts = texts
            .map(|parser| format!("PARSE {parser} PROCESS (service-map)"))
            .collect();
        MapQueries { texts, protocols }
    }

    /// Edges in the direction of calls; those of equal depth by total time, descending.
    #[must_use]
    pub fn edges(&self, rows: &CollectedResults) -> Vec<ServiceEdge> {
        let mut answers: BTreeMap<EdgeKey, EdgeResponses> = BTreeMap::new();
        for (place, protocol) in self.protocols.iter().enumerate() {
            let of_protocol = rows.rows(place + 1);
            answers.extend(
                of_protocol.map(|row| (key(&row, Some(protocol.name.into())), of_row(&row))),
            );
        }
        let mut edges: Vec<ServiceEdge> = Vec::new();
        for row in rows.rows(0) {
            let application = Some(row.value("application")).filter(|name| !name.is_null());
            let key = key(
                &row,
                application.map(|_| listed_as(&row.text("application")).to_owned()),
            );
            let bytes = [row.number("client_bytes"), row.number("server_bytes")];
            edges.push(edge(
                key.clone(),
                row.number("count"),
                bytes,
                answers.remove(&key),
            ));
        }
        // Requests of flows with another application: the parser is more reliable than the first bytes.
        edges.extend(
            answers
                .into_iter()
                .map(|(key, of)| edge(key, 0, [0; 2], Some(of))),
        );
        place(&mut edges);
        let time = |edge: &ServiceEdge| edge.answers.map_or(0.0, |answers| answers.spent_ns());
        edges.sort_by(|a, b| {
            let more = time(b)
                .total_cmp(&time(a))
                .then(b.bytes.iter().sum::<u64>().cmp(&a.bytes.iter().sum()));
            a.depth.cmp(&b.depth).then(more)
        });
        edges
    }
}

fn key(row: &ResultRow<'_>, protocol: Option<String>) -> EdgeKey {
    (
        row.text("client_ip"),
        row.text("server_ip"),
        row.number("server_port"),
        protocol,
    )
}

fn of_row(row: &ResultRow<'_>) -> EdgeResponses {
    EdgeResponses {
        requests: row.number("count"),
        per_second: row.real("rate"),
        success: row.real("success"),
        time_ns: row.real("time").unwrap_or_default(),
        p50_ns: row.real("p50"),
        p99_ns: row.real("p99"),
        total_time_ns: row.real("total_time"),
        p99_total_ns: row.real("p99_total_time"),
    }
}

fn edge(key: EdgeKey, flows: u64, bytes: [u64; 2], answers: Option<EdgeResponses>) -> ServiceEdge {
    let (client_ip, server_ip, server_port, protocol) = key;
    ServiceEdge {
        client_ip,
        server_ip,
        server_port,
        protocol,
        flows,
        bytes,
        answers,
        depth: 0,
        share: None,
    }
}

/// Computes the depth of edges, and their share of the client's time.
fn place(edges: &mut [ServiceEdge]) {
    let mut asks: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut answering_ns: HashMap<&str, f64> = HashMap::new();
    for edge in &*edges {
        asks.entry(&edge.client_ip)
            .or_default()
            .push(&edge.server_ip);
        if let Some(answers) = edge.answers {
            *answering_ns.entry(&edge.server_ip).or_default() += answers.spent_ns();
        }
    }
    let asked: HashSet<&str> = edges.iter().map(|edge| edge.server_ip.as_str()).collect();
    // If all hosts call each other, all are roots.
    let first: Vec<&str> = asks
        .keys()
        .copied()
        .filter(|host| !asked.contains(host))
        .collect();
    let mut next: VecDeque<&str> = first.into();
    let mut depth: HashMap<&str, usize> = next.iter().map(|host| (*host, 0)).collect();
    while let Some(host) = next.pop_front() {
        let deeper = depth[host] + 1;
        for server in asks.get(host).into_iter().flatten() {
            if !depth.contains_key(server) {
                depth.insert(server, deeper);
                next.push_back(server);
            }
        }
    }
    let placed: Vec<(usize, Option<f64>)> = edges
        .iter()
        .map(|edge| {
            let of_client = answering_ns
                .get(edge.client_ip.as_str())
                .filter(|ns| **ns > 0.0);
            let share = of_client
                .zip(edge.answers)
                .map(|(ns, answers)| answers.spent_ns() / ns);
            (
                depth.get(edge.client_ip.as_str()).copied().unwrap_or(0),
                share,
            )
        })
        .collect();
    for (edge, (depth, share)) in edges.iter_mut().zip(placed) {
        edge.depth = depth;
        edge.share = share;
    }
}

/// Name of a host, or its address.
#[must_use]
pub fn host<'a>(ip: &'a str, names: &'a HashMap<IpAddr, String>) -> &'a str {
    ip.parse()
        .ok()
        .and_then(|ip: IpAddr| names.get(&ip))
        .map_or(ip, String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(client: &str, server: &str, time_ns: f64) -> ServiceEdge {
        let answers = EdgeResponses {
            requests: 1,
            per_second: None,
            success: None,
            time_ns,
            p50_ns: None,
            p99_ns: None,
            total_time_ns: None,
            p99_total_ns: None,
        };
        edge(
            (client.into(), server.into(), 80, None),
            1,
            [0; 2],
            Some(answers),
        )
    }

    fn check(edges: &[(&str, &str, f64)], expected: &[(usize, Option<f64>)]) {
        let mut edges: Vec<ServiceEdge> = edges
            .iter()
            .map(|(client, server, ns)| of(client, server, *ns))
            .collect();
        place(&mut edges);
        let got: Vec<_> = edges.iter().map(|edge| (edge.depth, edge.share)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn depth_and_share_follow_the_calls() {
        check(
            &[
                ("user", "web", 100.0),
                ("web", "cache", 10.0),
                ("web", "db", 80.0),
                ("cache", "db", 5.0),
            ],
            &[(0, None), (1, Some(0.1)), (1, Some(0.8)), (2, Some(0.5))],
        );
    }

    #[test]
    fn circles_end() {
        check(
            &[("a", "b", 10.0), ("b", "a", 5.0)],
            &[(0, Some(2.0)), (0, Some(0.5))],
        );
        check(
            &[("x", "a", 1.0), ("a", "b", 1.0), ("b", "a", 1.0)],
            &[(0, None), (1, Some(0.5)), (2, Some(1.0))],
        );
    }

    #[test]
    fn every_query_is_one() {
        let schemas = parsers::registry::schemas();
        for text in MapQueries::new().texts {
            if let Err(errors) = query::check(&text, &schemas, &()) {
                panic!("{}", query::render(&errors, &text));
            }
        }
    }
}
