//! Limits of agents: the maximum counts agents and not their connections, so that one agent keeps no other out, and
//! connected agents take no place of other connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use server::GatewaySettings;

use super::center::{Center, PATIENCE};

/// A server on which connections that say nothing stay open during a test.
fn center(agents_max: usize) -> Center {
    let settings = GatewaySettings::default();
    let link = link::SessionLimits {
        silence_max_ns: 10 * PATIENCE.as_nanos() as u64,
        ..settings.link
    };
    Center::start(GatewaySettings {
        agents_max,
        link,
        ..settings
    })
}

/// A new connection as the agent with this token, and the answer to it.
fn knock(center: &Center, token: &str) -> (TcpStream, String) {
    let address = *center.address.lock().expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(
        stream,
        "GET /api/v1/agent HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Connection: Upgrade\r\nUpgrade: netalytics/1\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer).expect("an answer");
    (
        stream,
        String::from_utf8_lossy(&answer[..read]).into_owned(),
    )
}

fn accepted(center: &Center, token: &str) -> TcpStream {
    let (stream, answer) = knock(center, token);
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    stream
}

fn refused(center: &Center, token: &str, why: &str) {
    let (_, answer) = knock(center, token);
    assert!(
        answer.starts_with("HTTP/1.1 429") && answer.contains(why),
        "{answer}"
    );
}

#[test]
fn an_agent_with_many_connections_keeps_no_other_out() {
    let center = center(3);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| center.token(name));
    let of_a: Vec<TcpStream> = (0..8).map(|_| accepted(&center, &a)).collect();
    refused(&center, &a, "this agent has 8 connections");
    let of_b = accepted(&center, &b);
    let _of_c = [accepted(&center, &c), accepted(&center, &c)];
    refused(&center, &d, "the maximum number of agents is connected");
    let metrics = center.ask("GET", "/metrics", None).1.to_string();
    let counted = "netalytics_limit_reached_total{limit=\\\"agents\\\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
    // The agent's place is free when its last connection has ended, and not before.
    let (kept, ended) = of_a.split_first().expect("eight");
    ended
        .iter()
        .for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    center.until("seven of eight connections have ended", |center| {
        let (stream, answer) = knock(center, &a);
        drop(stream);
        answer.starts_with("HTTP/1.1 101").then_some(())
    });
    refused(&center, &d, "the maximum number of agents is connected");
    drop(of_b);
    center.until("a place is free", |center| {
        knock(center, &d)
            .1
            .starts_with("HTTP/1.1 101")
            .then_some(())
    });
    drop(kept.shutdown(std::net::Shutdown::Both));
}

#[test]
fn connected_agents_take_no_place_of_other_connections() {
    let center = center(1000);
    // More than the connections that a server accepts by default.
    let tokens: Vec<String> = (0..66)
        .map(|n| center.token(&format!("agent-{n}")))
        .collect();
    let connected: Vec<TcpStream> = tokens
        .iter()
        .flat_map(|token| [(); 8].map(|()| accepted(&center, token)))
        .collect();
    assert!(connected.len() > 512);
    let counters = center.ask("GET", "/api/v1/counters", None).1;
    for name in ["connections_waited", "connections_evicted"] {
        assert_eq!(counters[name], 0, "{counters}");
    }
    // The other agents are still connected.
    for mut stream in connected {
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("set");
        let read = stream.read(&mut [0; 1]);
        assert!(read.is_err(), "it was closed");
    }
}
