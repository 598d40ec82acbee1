//! Content of an overview: combines the queries' results by subject.

use std::collections::BTreeMap;

use super::queries::{FlowQueryResult, OverviewQueries, listed_as};
use super::rows::{CollectedResults, ResultRow};
use runner::RunSummary;

/// All results.
#[derive(Debug)]
pub struct OverviewFindings {
    /// Time of the first and the last packet, in ns since the epoch.
    pub seen_ns: Option<(i64, i64)>,
    /// Number of packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Number of flows.
    pub flows: u64,
    /// Packets that could not be decoded.
    pub undecodable: u64,
    /// Packets lost before the capture, if known.
    pub lost_packets: Option<u64>,
    /// Share of acknowledged TCP bytes that were not captured.
    pub capture_loss: f64,
    /// Applications of flows, by bytes.
    pub applications: Vec<ApplicationTraffic>,
    /// Services; those with parsed protocols first.
    pub services: Vec<ServiceTraffic>,
    /// Pairs of hosts, by bytes.
    pub talkers: Vec<TalkerPair>,
    /// Slowest requests, by 99th percentile of the total time.
    pub slowest: Vec<SlowRequests>,
    /// Failing requests, by count.
    pub failing: Vec<FailingRequests>,
    /// Services with lookups that found nothing, by their number.
    pub not_found: Vec<FailedLookups>,
    /// Pairs of hosts with retransmissions, by count.
    pub retransmitting: Vec<TalkerPair>,
    /// Failed connections.
    pub refused: Vec<RefusedConnections>,
    /// Number of failed connections: refused, and without an answer.
    pub refused_total: [u64; 2],
    /// Services with connects delayed by a retransmitted SYN or SYN-ACK.
    pub delayed: Vec<SlowConnects>,
    /// Services with other slow connects.
    pub slow_connects: Vec<SlowConnects>,
    /// Suggested queries.
    pub next: Vec<String>,
}

/// An application.
#[derive(Debug)]
pub struct ApplicationTraffic {
    /// Name, if known.
    pub application: Option<String>,
    /// Transport protocol.
    pub transport: String,
    /// Number of flows.
    pub flows: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Parser of the protocol.
    pub parser: Option<String>,
}

/// Address and port of a service.
#[derive(Debug)]
pub struct ServiceTraffic {
    /// Address.
    pub server_ip: String,
    /// Port.
    pub server_port: u64,
    /// Application protocol.
    pub application: Option<String>,
    /// Number of flows.
    pub flows: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Response statistics, for parsed protocols.
    pub answers: Option<ServiceResponses>,
}

/// Response statistics of a service.
#[derive(Debug)]
pub struct ServiceResponses {
    /// Number of requests.
    pub requests: u64,
    /// Requests per second of the capture.
    pub per_second: f64,
    /// Share of successful requests.
    pub success: Option<f64>,
    /// Median of response times, in ns.
    pub p50_ns: Option<f64>,
    /// 99th percentile of response times, in ns.
    pub p99_ns: Option<f64>,
    /// 99th percentile of total times, in ns.
    pub p99_total_ns: Option<f64>,
}

/// Lookups of a service that found nothing.
#[derive(Debug)]
pub struct FailedLookups {
    /// Address.
    pub server_ip: String,
    /// Port.
    pub server_port: u64,
    /// Protocol.
    pub protocol: &'static str,
    /// Number of lookups.
    pub lookups: u64,
    /// Share of them that found nothing.
    pub not_found: f64,
}

/// A client and a server.
#[derive(Debug)]
pub struct TalkerPair {
    /// Address of the client.
    pub client_ip: String,
    /// Address of the server.
    pub server_ip: String,
    /// Number of flows.
    pub flows: u64,
    /// Bytes on the wire: from the client, and from the server.
    pub bytes: [u64; 2],
    /// Retransmitted segments in both directions.
    pub retransmissions: u64,
}

/// Slow requests.
#[derive(Debug)]
pub struct SlowRequests {
    /// Address of the server.
    pub server_ip: String,
    /// Port of the server.
    pub server_port: u64,
    /// Parser.
    pub parser: String,
    /// Column that identifies the request.
    pub key: String,
    /// Value of that column.
    pub request: Option<String>,
    /// Number of requests.
    pub requests: u64,
    /// 99th percentile of their response times, in ns.
    pub p99_ns: Option<f64>,
    /// 99th percentile of their total times, in ns.
    pub p99_total_ns: Option<f64>,
}

impl SlowRequests {
    /// The time that ranks.
    fn ranking_ns(&self) -> Option<f64> {
        self.p99_total_ns.or(self.p99_ns)
    }
}

/// Failing requests.
#[derive(Debug)]
pub struct FailingRequests {
    /// Address of the server.
    pub server_ip: String,
    /// Port of the server.
    pub server_port: u64,
    /// Parser.
    pub parser: String,
    /// Column that identifies the request.
    pub key: String,
    /// Value of that column.
    pub request: Option<String>,
    /// Status of the response.
    pub status: Option<String>,
    /// Number of requests.
    pub requests: u64,
}

/// A server that does not accept connections.
#[derive(Debug)]
pub struct RefusedConnections {
    /// Zeek's state: REJ, or S0 without an answer.
    pub conn_state: String,
    /// Address.
    pub server_ip: String,
    /// Port.
    pub server_port: u64,
    /// Number of connections.
    pub connections: u64,
}

/// A service with slow connects.
#[derive(Debug)]
pub struct SlowConnects {
    /// Address.
    pub server_ip: String,
    /// Port.
    pub server_port: u64,
    /// Number of connections.
    pub connections: u64,
    /// Longest connect time, in ns.
    pub longest_ns: f64,
}

/// Combines the results of all queries.
#[must_use]
pub fn find(
    questions: &OverviewQueries,
    rows: &CollectedResults,
    summary: &RunSummary,
) -> OverviewFindings {
    let seen_ns = summary.seen.map(|(first, last)| (first.0, last.0));
    let seconds = seen_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
    let accounting = &summary.accounting;
    let talkers = talkers(rows);
    let mut retransmitting: Vec<TalkerPair> = self::talkers(rows);
    retransmitting.retain(|pair| pair.retransmissions > 0);
    retransmitting.sort_by_key(|pair| std::cmp::Reverse(pair.retransmissions));
    let [by_server, all] = OverviewQueries::of_failed();
    let [with_lost_syn, others] = OverviewQueries::of_connects();
    let connects = |result| rows.rows(result).filter_map(slow_connects).collect();
    let of_state = |state: &str| {
        rows.rows(all)
            .filter(|row| row.text("conn_state") == state)
            .map(|row| row.number("count"))
            .sum()
    };
    OverviewFindings {
        seen_ns,
        packets: accounting.received,
        bytes: summary.source.original_bytes,
        flows: accounting.flows.flows(),
        undecodable: accounting.undecodable_total(),
        lost_packets: summary.source.lost_before_us,
        capture_loss: accounting.flows.capture_loss().share(),
        applications: applications(questions, rows),
        services: services(questions, rows, seconds),
        talkers,
        slowest: slowest(questions, rows),
        failing: failing(questions, rows),
        not_found: not_found(questions, rows),
        retransmitting,
        refused: rows.rows(by_server).map(refused).collect(),
        delayed: connects(with_lost_syn),
        slow_connects: connects(others),
        refused_total: [of_state("REJ"), of_state("S0")],
        next: Vec::new(),
    }
}

/// Flows, client bytes and server bytes by key.
fn sums(
    rows: &CollectedResults,
    out: FlowQueryResult,
    back: FlowQueryResult,
    key: &[&str],
) -> Vec<(Vec<Option<String>>, u64, [u64; 2])> {
    let key_of = |row: &ResultRow<'_>| -> Vec<Option<String>> {
        key.iter()
            .map(|column| {
                Some(row.value(column))
                    .filter(|v| !v.is_null())
                    .map(|_| row.text(column))
            })
            .collect()
    };
    let mut sums = BTreeMap::<_, (u64, [u64; 2])>::new();
    for row in rows.rows(OverviewQueries::of_flows(out)) {
        let sum = sums.entry(key_of(&row)).or_default();
        sum.0 += row.number("count");
        sum.1[0] += row.number("sum_bytes");
    }
    for row in rows.rows(OverviewQueries::of_flows(back)) {
        sums.entry(key_of(&row)).or_default().1[1] += row.number("sum_bytes");
    }
    let mut sums: Vec<_> = sums
        .into_iter()
        .map(|(key, (flows, bytes))| (key, flows, bytes))
        .collect();
    sums.sort_by_key(|(_, _, [out, back])| std::cmp::Reverse(out + back));
    sums
}

fn applications(questions: &OverviewQueries, rows: &CollectedResults) -> Vec<ApplicationTraffic> {
    let sums = sums(
        rows,
        FlowQueryResult::ApplicationsOut,
        FlowQueryResult::ApplicationsIn,
        &["transport", "application"],
    );
    let of = |(key, flows, [out, back]): (Vec<Option<String>>, u64, [u64; 2])| {
        let [transport, application] = <[_; 2]>::try_from(key).expect("a key of two columns");
        let protocol = questions
            .protocols
            .iter()
            .find(|p| Some(p.name) == application.as_deref());
        let parser = protocol.map(|p| p.parser.clone());
        ApplicationTraffic {
            application,
            transport: transport.unwrap_or_default(),
            flows,
            bytes: out + back,
            parser,
        }
    };
    sums.into_iter().map(of).collect()
}

fn talkers(rows: &CollectedResults) -> Vec<TalkerPair> {
    let again = rows.rows(OverviewQueries::of_flows(
        FlowQueryResult::PairsRetransmissions,
    ));
    let again: BTreeMap<_, u64> = again
        .map(|row| {
            (
                (row.text("client_ip"), row.text("server_ip")),
                row.number("sum"),
            )
        })
        .collect();
    let of = |(key, flows, bytes): (Vec<Option<String>>, u64, [u64; 2])| {
        let mut key = key.into_iter().map(|end| end.unwrap_or_else(|| "-".into()));
        let client_ip = key.next().unwrap_or_default();
        let server_ip = key.next().unwrap_or_default();
        let pair = (client_ip, server_ip);
        let retransmissions = again.get(&pair).copied().unwrap_or_default();
        TalkerPair {
            client_ip: pair.0,
            server_ip: pair.1,
            flows,
            bytes,
            retransmissions,
        }
    };
    sums(
        rows,
        FlowQueryResult::PairsOut,
        FlowQueryResult::PairsIn,
        &["client_ip", "server_ip"],
    )
    .into_iter()
    .map(of)
    .collect()
}

fn services(
    questions: &OverviewQueries,
    rows: &CollectedResults,
    seconds: f64,
) -> Vec<ServiceTraffic> {
    let mut answers = BTreeMap::new();
    for (place, protocol) in questions.protocols.iter().enumerate() {
        let [of_services, ..] = OverviewQueries::of_protocol(place);
        for row in rows.rows(of_services) {
            let requests = row.number("count");
            let how = ServiceResponses {
                requests,
                per_second: if seconds > 0.0 {
                    requests as f64 / seconds
                } else {
                    0.0
                },
                success: row.real("success"),
                p50_ns: row.real(&protocol.of_measure("p50")),
                p99_ns: row.real(&protocol.of_measure("p99")),
                p99_total_ns: protocol.of_total("p99").and_then(|name| row.real(&name)),
            };
            answers.insert(
                (
                    row.text("server_ip"),
                    row.number("server_port"),
                    protocol.name.to_owned(),
                ),
                how,
            );
        }
    }
    let key = ["server_ip", "server_port", "application"];
    let of = |(key, flows, [out, back]): (Vec<Option<String>>, u64, [u64; 2])| {
        let [server_ip, server_port, application] =
            <[_; 3]>::try_from(key).expect("a key of three columns");
        let server_ip = server_ip.unwrap_or_else(|| "-".into());
        let server_port = server_port
            .and_then(|port| port.parse().ok())
            .unwrap_or_default();
        let key = (
            server_ip,
            server_port,
            listed_as(application.as_deref().unwrap_or_default()).to_owned(),
        );
        let answers = answers.remove(&key);
        ServiceTraffic {
            server_ip: key.0,
            server_port,
            application,
            flows,
            bytes: out + back,
            answers,
        }
    };
    let mut services: Vec<ServiceTraffic> = sums(
        rows,
        FlowQueryResult::ServicesOut,
        FlowQueryResult::ServicesIn,
        &key,
    )
    .into_iter()
    .map(of)
    .collect();
    services.sort_by_key(|s| std::cmp::Reverse(s.answers.as_ref().map_or(0, |a| a.requests)));
    services
}

fn slowest(questions: &OverviewQueries, rows: &CollectedResults) -> Vec<SlowRequests> {
    let mut slowest = Vec::new();
    for (place, protocol) in questions.protocols.iter().enumerate() {
        let [_, of_slow, _] = OverviewQueries::of_protocol(place);
        slowest.extend(rows.rows(of_slow).map(|row| SlowRequests {
            server_ip: row.text("server_ip"),
            server_port: row.number("server_port"),
            parser: protocol.parser.clone(),
            key: protocol.key.clone(),
            request: row.value(&protocol.key).as_str().map(str::to_owned),
            requests: row.number("count"),
            p99_ns: row.real(&protocol.of_measure("p99")),
            p99_total_ns: protocol.of_total("p99").and_then(|name| row.real(&name)),
        }));
    }
    slowest.retain(|slow| slow.ranking_ns().is_some());
    slowest.sort_by(|a, b| {
        let [a, b] = [a, b].map(|slow| slow.ranking_ns().unwrap_or_default());
        b.total_cmp(&a)
    });
    slowest
}

fn failing(questions: &OverviewQueries, rows: &CollectedResults) -> Vec<FailingRequests> {
    let mut failing = Vec::new();
    for (place, protocol) in questions.protocols.iter().enumerate() {
        let [_, _, of_failing] = OverviewQueries::of_protocol(place);
        failing.extend(rows.rows(of_failing).map(|row| {
            FailingRequests {
                server_ip: row.text("server_ip"),
                server_port: row.number("server_port"),
                parser: protocol.parser.clone(),
                key: protocol.key.clone(),
                request: row.value(&protocol.key).as_str().map(str::to_owned),
                status: protocol
                    .status
                    .filter(|status| !row.value(status).is_null())
                    .map(|status| row.text(status)),
                requests: row.number("count"),
            }
        }));
    }
    failing.sort_by_key(|f| std::cmp::Reverse(f.requests));
    failing
}

fn not_found(questions: &OverviewQueries, rows: &CollectedResults) -> Vec<FailedLookups> {
    let mut found: Vec<FailedLookups> = questions
        .of_lookups()
        .flat_map(|(protocol, result)| {
            rows.rows(result).map(|row| FailedLookups {
                server_ip: row.text("server_ip"),
                server_port: row.number("server_port"),
                protocol: protocol.name,
                lookups: row.number("count"),
                not_found: row.real("not_found").unwrap_or_default(),
            })
        })
        .filter(|lookups| lookups.not_found > 0.0)
        .collect();
    let missed = |of: &FailedLookups| of.lookups as f64 * of.not_found;
    found.sort_by(|a, b| missed(b).total_cmp(&missed(a)));
    found
}

fn refused(row: ResultRow<'_>) -> RefusedConnections {
    RefusedConnections {
        conn_state: row.text("conn_state"),
        server_ip: row.text("server_ip"),
        server_port: row.number("server_port"),
        connections: row.number("count"),
    }
}

fn slow_connects(row: ResultRow<'_>) -> Option<SlowConnects> {
    Some(SlowConnects {
        server_ip: row.text("server_ip"),
        server_port: row.number("server_port"),
        connections: row.number("count"),
        longest_ns: row.real("max_ns")?,
    })
}
