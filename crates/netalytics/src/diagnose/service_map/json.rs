//! A map as a JSON document; numbers as in the query results, times in ns.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::edges::{ServiceEdge, host};

/// The document.
#[must_use]
pub fn document(
    edges: &[ServiceEdge],
    queries: &[String],
    inputs: &[String],
    names: &HashMap<IpAddr, String>,
) -> Value {
    let edges: Vec<Value> = edges.iter().map(|edge| of_edge(edge, names)).collect();
    json!({ "inputs": inputs, "edges": edges, "queries": queries })
}

fn of_edge(edge: &ServiceEdge, names: &HashMap<IpAddr, String>) -> Value {
    let ServiceEdge {
        client_ip,
        server_ip,
        server_port,
        protocol,
        flows,
        bytes: [client_bytes, server_bytes],
        ..
    } = edge;
    let answers = edge.answers;
    json!({
        "client": host(client_ip, names),
        "client_ip": client_ip,
        "server": host(server_ip, names),
        "server_ip": server_ip,
        "server_port": server_port,
        "protocol": protocol,
        "flows": flows,
        "client_bytes": client_bytes,
        "server_bytes": server_bytes,
        "requests": answers.map(|a| a.requests),
        "requests_per_second": answers.and_then(|a| a.per_second),
        "success": answers.and_then(|a| a.success),
        "time_ns": answers.map(|a| a.time_ns),
        "p50_ns": answers.and_then(|a| a.p50_ns),
        "p99_ns": answers.and_then(|a| a.p99_ns),
        "total_time_ns": answers.and_then(|a| a.total_time_ns),
        "p99_total_ns": answers.and_then(|a| a.p99_total_ns),
        "depth": edge.depth,
        "share_of_client_time": edge.share,
    })
}
