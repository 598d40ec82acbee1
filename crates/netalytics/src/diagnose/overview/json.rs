//! An overview as a JSON document; numbers as in the query results, times in ns.

use serde_json::{Value, json};

use super::findings::{
    ApplicationTraffic, FailedLookups, FailingRequests, OverviewFindings, RefusedConnections,
    ServiceTraffic, SlowConnects, SlowRequests, TalkerPair,
};

/// The document.
#[must_use]
pub fn document(found: &OverviewFindings, queries: &[String], inputs: &[String]) -> Value {
    let OverviewFindings {
        packets,
        bytes,
        flows,
        undecodable,
        lost_packets,
        capture_loss,
        refused_total,
        ..
    } = found;
    let [refused, unanswered] = refused_total;
    json!({
        "inputs": inputs,
        "first_ts": found.seen_ns.map(|(first, _)| first),
        "last_ts": found.seen_ns.map(|(_, last)| last),
        "packets": packets,
        "bytes": bytes,
        "flows": flows,
        "undecodable": undecodable,
        "lost_packets": lost_packets,
        "capture_loss": capture_loss,
        "applications": found.applications.iter().map(application).collect::<Vec<_>>(),
        "services": found.services.iter().map(service).collect::<Vec<_>>(),
        "talkers": found.talkers.iter().map(talkers).collect::<Vec<_>>(),
        "slowest": found.slowest.iter().map(slow).collect::<Vec<_>>(),
        "failing": found.failing.iter().map(failing).collect::<Vec<_>>(),
        "not_found": found.not_found.iter().map(not_found).collect::<Vec<_>>(),
        "connections_refused": refused,
        "connections_unanswered": unanswered,
        "not_connected": found.refused.iter().map(refused_by).collect::<Vec<_>>(),
        "connects_delayed": found.delayed.iter().map(slow_connects).collect::<Vec<_>>(),
        "connects_slow": found.slow_connects.iter().map(slow_connects).collect::<Vec<_>>(),
        "next": found.next,
        "queries": queries,
    })
}

fn application(a: &ApplicationTraffic) -> Value {
    let ApplicationTraffic {
        application,
        transport,
        flows,
        bytes,
        parser,
    } = a;
    json!({"application": application, "transport": transport, "flows": flows, "bytes": bytes, "parser": parser})
}

fn service(s: &ServiceTraffic) -> Value {
    let ServiceTraffic {
        server_ip,
        server_port,
        application,
        flows,
        bytes,
        answers,
    } = s;
    let mut service = json!({
        "server_ip": server_ip, "server_port": server_port, "application": application, "flows": flows, "bytes": bytes,
    });
    if let (Some(a), Some(service)) = (answers, service.as_object_mut()) {
        let answers = json!({
            "requests": a.requests, "requests_per_second": a.per_second, "success": a.success,
            "p50_ns": a.p50_ns, "p99_ns": a.p99_ns, "p99_total_ns": a.p99_total_ns,
        });
        service.extend(answers.as_object().cloned().unwrap_or_default());
    }
    service
}

fn talkers(t: &TalkerPair) -> Value {
    let [client_bytes, server_bytes] = t.bytes;
    json!({
        "client_ip": t.client_ip, "server_ip": t.server_ip, "flows": t.flows, "client_bytes": client_bytes,
        "server_bytes": server_bytes, "retransmissions": t.retransmissions,
    })
}

fn slow(s: &SlowRequests) -> Value {
    json!({
        "parser": s.parser, (s.key.as_str()): s.request, "requests": s.requests, "p99_ns": s.p99_ns,
        "p99_total_ns": s.p99_total_ns, "server_ip": s.server_ip, "server_port": s.server_port,
    })
}

fn failing(f: &FailingRequests) -> Value {
    json!({
        "parser": f.parser, (f.key.as_str()): f.request, "status": f.status, "requests": f.requests,
        "server_ip": f.server_ip, "server_port": f.server_port,
    })
}

fn not_found(f: &FailedLookups) -> Value {
    json!({
        "server_ip": f.server_ip, "server_port": f.server_port, "protocol": f.protocol, "lookups": f.lookups,
        "not_found": f.not_found,
    })
}

fn refused_by(r: &RefusedConnections) -> Value {
    let RefusedConnections {
        conn_state,
        server_ip,
        server_port,
        connections,
    } = r;
    json!({
        "conn_state": conn_state, "server_ip": server_ip, "server_port": server_port, "connections": connections,
    })
}

fn slow_connects(d: &SlowConnects) -> Value {
    let SlowConnects {
        server_ip,
        server_port,
        connections,
        longest_ns,
    } = d;
    json!({
        "server_ip": server_ip, "server_port": server_port, "connections": connections, "longest_ns": longest_ns,
    })
}
