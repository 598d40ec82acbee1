//! FROM, TO and columns: requested packets and mode.

use mirror::openflow::FlowMatch;
use mirror::{PacketSelection, asked, offers};

use crate::bed::plan;

fn check(query: &str, which: PacketSelection, expected: &[&str]) {
    let mut found: Vec<String> = asked(&plan(query).monitor, which)
        .into_iter()
        .map(|cube| FlowMatch::from(cube).to_string())
        .collect();
    found.sort();
    assert_eq!(found, expected, "{query}");
}

#[test]
fn both_directions_are_requested_for_the_parsers_protocols() {
    check(
        "PARSE http TO 10.0.0.2:80",
        PacketSelection::Flow,
        &[
            "tcp,nw_dst=10.0.0.2,tp_dst=80",
            "tcp,nw_src=10.0.0.2,tp_src=80",
        ],
    );
    check(
        "PARSE dns FROM 10.1.0.0/16 TO [fd00::1]:53, 10.0.0.53:53",
        PacketSelection::Flow,
        &[
            "tcp,nw_src=10.0.0.53,nw_dst=10.1.0.0/16,tp_src=53",
            "tcp,nw_src=10.1.0.0/16,nw_dst=10.0.0.53,tp_dst=53",
            // A switch sees these ports in fragments.
            "udp,nw_src=10.0.0.53,nw_dst=10.1.0.0/16,tp_src=0,tp_dst=0",
            "udp,nw_src=10.0.0.53,nw_dst=10.1.0.0/16,tp_src=53",
            "udp,nw_src=10.1.0.0/16,nw_dst=10.0.0.53,tp_dst=53",
            "udp,nw_src=10.1.0.0/16,nw_dst=10.0.0.53,tp_src=0,tp_dst=0",
        ],
    );
    check("PARSE packet", PacketSelection::Flow, &["ip", "ipv6"]);
    check(
        "PARSE packet TO *:53",
        PacketSelection::Flow,
        &[
            "tcp,tp_dst=53",
            "tcp,tp_src=53",
            "tcp6,tp_dst=53",
            "tcp6,tp_src=53",
            "udp,tp_dst=53",
            "udp,tp_src=0,tp_dst=0",
            "udp,tp_src=53",
            "udp6,tp_dst=53",
            "udp6,tp_src=0,tp_dst=0",
            "udp6,tp_src=53",
        ],
    );
    // An address contained in another network is not a separate box.
    check(
        "PARSE http TO 10.0.0.0/8, 10.0.0.2",
        PacketSelection::Flow,
        &["tcp,nw_dst=10.0.0.0/8", "tcp,nw_src=10.0.0.0/8"],
    );
    check(
        "PARSE tcp_conn_time TO 10.0.0.2",
        mirror::MirrorMode::ENDS.which,
        &[
            "tcp,nw_dst=10.0.0.2,tcp_flags=+fin",
            "tcp,nw_dst=10.0.0.2,tcp_flags=-fin+syn",
            "tcp,nw_dst=10.0.0.2,tcp_flags=-fin-syn+rst",
            "tcp,nw_src=10.0.0.2,tcp_flags=+fin",
            "tcp,nw_src=10.0.0.2,tcp_flags=-fin+syn",
            "tcp,nw_src=10.0.0.2,tcp_flags=-fin-syn+rst",
        ],
    );
}

/// The cheapest mode, and whether it has gaps.
#[test]
fn the_mode_follows_from_the_columns() {
    const ALL: &str = "all packets of the flows";
    let heads = "packets of the flows with ACK or PSH, the first 512 bytes of each";
    for (query, expected, lacks) in [
        (
            "PARSE tcp_conn_time PROCESS (diff-group: group=destIP)",
            "packets of the flows with SYN or FIN or RST",
            2,
        ),
        (
            "PARSE tcp_conn_time SELECT handshake_ns",
            "all packets of the flows, the first 128 bytes of each",
            0,
        ),
        (
            "PARSE tcp_flow_key PROCESS (count)",
            "packets of the flows with SYN or FIN or RST",
            2,
        ),
        (
            "PARSE tcp_pkt_size PROCESS (count)",
            "all packets of the flows, the first 128 bytes of each",
            0,
        ),
        ("PARSE tcp_pkt_size PROCESS (sum)", ALL, 0),
        (
            "PARSE flow SELECT duration, conn_state",
            "all packets of the flows, the first 128 bytes of each",
            1,
        ),
        (
            "PARSE flow SELECT application",
            "all packets of the flows, the first 512 bytes of each",
            2,
        ),
        ("PARSE flow SELECT client_bytes", ALL, 0),
        (
            "PARSE mysql_query SELECT response_time",
            "packets of the flows with PSH",
            3,
        ),
        ("PARSE http SELECT method, url, status", heads, 2),
        ("PARSE http SELECT url, response_bytes", ALL, 0),
        ("PARSE mysql_query", ALL, 0),
        (
            "PARSE http, tcp_conn_time SELECT url, conn_time",
            "all packets of the flows, the first 512 bytes of each",
            1,
        ),
    ] {
        let offers = offers(&plan(query).monitor);
        assert_eq!(
            (&*offers[0].mode.to_string(), offers[0].lacks.len()),
            (expected, lacks),
            "{query}"
        );
        let loses = ["PSH", "512 bytes"]
            .iter()
            .any(|word| expected.contains(word))
            && !query.contains("PARSE flow");
        assert_eq!(offers[0].loses_exchanges, loses, "{query}");
        // At least one mode has no gaps.
        assert!(offers.iter().any(|offer| offer.lacks.is_empty()), "{query}");
    }
}
