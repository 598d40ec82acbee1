//! Queries of the NetAlytics paper.

use super::*;

#[test]
fn the_papers_first_query() {
    let q = checked(
        "PARSE tcp_conn_time, http_get FROM 10.0.2.8:5555 TO 10.0.2.9:80 LIMIT 90s SAMPLE auto PROCESS (top-k: k=10, w=10s)",
    );
    let end = |ip: &str, port| {
        vec![AddressMatch {
            net: Some((ip.parse().expect("an address"), 32)),
            port: Some(port),
        }]
    };
    assert_eq!(
        q.inputs
            .iter()
            .map(|i| i.schema.name.as_ref())
            .collect::<Vec<_>>(),
        ["tcp_conn_time", "http_get"]
    );
    assert_eq!(
        (q.from.clone(), q.to.clone()),
        (end("10.0.2.8", 5555), end("10.0.2.9", 80))
    );
    assert_eq!(
        (q.limit, q.sample),
        (
            QueryLimit {
                packets: None,
                nanos: Some(90_000_000_000)
            },
            SampleMode::Auto
        )
    );
    assert_eq!(
        shown(&q, q.inputs[0].filter.as_ref().expect("ends only")),
        r#"event Eq Text("end")"#
    );
    assert_eq!(q.inputs[1].filter, None);
    let [p] = q.processors.as_slice() else {
        panic!("one processor")
    };
    assert_eq!(
        (p.name.as_str(), p.value_required, p.values.len()),
        ("top-k", false, 0)
    );
    assert_eq!(groups_of(&q, p), ["http_get.url"]);
    assert_eq!(
        (computed(p), p.top_k),
        (vec![AggregateFunction::Count], Some(TopK { k: 10, by: 0 }))
    );
    let size_ns = 10_000_000_000;
    let lateness_ns = 1_000_000_000;
    assert_eq!(
        p.window,
        Some(Window {
            size_ns,
            slide_ns: size_ns,
            lateness_ns
        })
    );
    assert_eq!(p.groups_max, 100_000);
}

#[test]
fn the_papers_second_query() {
    let q = checked(
        "PARSE tcp_conn_time FROM * TO h1:80, h2:3306 LIMIT 500s SAMPLE * PROCESS (diff-group: group=destIP)",
    );
    assert!(q.from.is_empty());
    assert_eq!(q.to.len(), 3, "h2 has two addresses");
    assert_eq!(q.sample, SampleMode::All);
    assert!(q.inputs[0].filter.is_some());
    let p = &q.processors[0];
    assert!(p.value_required && p.top_k.is_none() && p.window.is_none());
    assert_eq!(value_of(&q, p), ["tcp_conn_time.conn_time_ns"]);
    assert_eq!(groups_of(&q, p), ["tcp_conn_time.server_ip"]);
    use AggregateFunction::*;
    assert_eq!(
        computed(p),
        [
            Count,
            Min,
            Avg,
            Max,
            Quantile(0.5),
            Quantile(0.95),
            Quantile(0.99)
        ]
    );
}

#[test]
fn the_papers_third_query() {
    let q = checked(
        "PARSE (tcp_conn_time, http_get) FROM * TO h1:80 LIMIT 5000p SAMPLE 0.1 PROCESS (diff-group: group=get)",
    );
    assert_eq!(
        (q.limit.packets, q.sample),
        (Some(5000), SampleMode::Fraction(0.1))
    );
    let p = &q.processors[0];
    assert_eq!(value_of(&q, p), ["tcp_conn_time.conn_time_ns"]);
    assert_eq!(groups_of(&q, p), ["http_get.url"]);
}

#[test]
fn the_papers_fourth_query() {
    let q = checked(
        "PARSE (tcp_flow_key, tcp_pkt_size) FROM * TO h1:80, h2:3306, LIMIT 90s SAMPLE * PROCESS (group-sum: group=srcIP, destIP)",
    );
    let p = &q.processors[0];
    assert_eq!(value_of(&q, p), ["tcp_pkt_size.packet_bytes"]);
    assert_eq!(
        groups_of(&q, p),
        ["tcp_flow_key.src_ip", "tcp_flow_key.dst_ip"]
    );
    assert_eq!(computed(p), [AggregateFunction::Sum]);
}
