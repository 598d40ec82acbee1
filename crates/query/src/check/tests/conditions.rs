//! WHERE: conditions, literals, and names of fields.

use super::*;

pub(super) fn check_condition(parse: &str, condition: &str, expected: &str) {
    let q = checked(&format!("PARSE {parse} WHERE {condition}"));
    assert_eq!(
        shown(&q, q.filter.as_ref().expect("a condition")),
        expected,
        "{condition}"
    );
}

#[test]
fn conditions() {
    let check = |condition, expected| check_condition("http", condition, expected);
    check("status = 200", "status Eq U64(200)");
    check("500 <= status", "status Ge U64(500)");
    check(
        "status <> 200 or status != 201 and not status == 202",
        "(status Ne U64(200) or (status Ne U64(201) and not status Eq U64(202)))",
    );
    check("not not (status = 1)", "status Eq U64(1)");
    check(
        "(status = 1 or status = 2) and method = 'G''T'",
        "((status Eq U64(1) or status Eq U64(2)) and method Eq Text(\"G'T\"))",
    );
    check(
        "url like \"/a%\" and url not like 'b_'",
        "(url like \"/a%\" and not url like \"b_\")",
    );
    check(
        "status in (200, 204,) and status not in (1)",
        "(status in [U64(200), U64(204)] and not status in [U64(1)])",
    );
    check(
        "status is null or url is not null",
        "(status is null or not url is null)",
    );
    check(
        "client_guessed and not client_guessed",
        "(client_guessed Eq Bool(true) and not client_guessed Eq Bool(true))",
    );
    check("client_guessed = FALSE", "client_guessed Eq Bool(false)");
    check(
        "status=1 WHERE status=2 and status=3",
        "(status Eq U64(1) and status Eq U64(2) and status Eq U64(3))",
    );
    check(
        "(status = 1 and status = 2) or status = 3",
        "((status Eq U64(1) and status Eq U64(2)) or status Eq U64(3))",
    );
}

#[test]
fn literals_are_of_their_columns_type() {
    let check = |condition, expected| check_condition("http", condition, expected);
    check(
        "response_time > 1.5s",
        "response_time_ns Gt I64(1500000000)",
    );
    check("response_time_ns > 1500", "response_time_ns Gt I64(1500)");
    check("response_time > 0", "response_time_ns Gt I64(0)");
    check(
        "Response_Time >= -250us",
        "response_time_ns Ge I64(-250000)",
    );
    check("response_bytes < 4KiB", "response_bytes Lt U64(4096)");
    check(
        "response_bytes >= 10kB and response_bytes < 1_000_000",
        "(response_bytes Ge U64(10000) and response_bytes Lt U64(1000000))",
    );
    check(
        "ts >= '2026-01-31T12:00:00.5+02:00'",
        "ts Ge I64(1769853600500000000)",
    );
    check("ts < 2026-01-31", "ts Lt I64(1769817600000000000)");
    check("ts < 1769817600s", "ts Lt I64(1769817600000000000)");
    check("client_ip = 10.1.0.0/16", "client_ip Eq Net(10.1.0.0, 16)");
    check("client_ip != '10.1.2.3'", "client_ip Ne Net(10.1.2.3, 32)");
    check(
        "client_ip in (::1, 2001:db8::/32, h1)",
        "client_ip in [Net(::1, 128), Net(2001:db8::, 32), Net(10.0.0.1, 32)]",
    );
    check(
        "server_ip = h2",
        "server_ip in [Net(10.0.0.2, 32), Net(2001:db8::2, 128)]",
    );
    check(
        "server_ip != h2",
        "not server_ip in [Net(10.0.0.2, 32), Net(2001:db8::2, 128)]",
    );
    check("fe80::1=server_ip", "server_ip Eq Net(fe80::1, 128)");
    check(
        "id = 00000000000000ff or id = 0xff or id = 255",
        "(id Eq U64(255) or id Eq U64(255) or id Eq U64(255))",
    );
    check("id = abcdefabcdefabcd", "id Eq U64(12379814471884843981)");
}

#[test]
fn names_of_fields() {
    let check = |parse: &str, name: &str, expected: &str| {
        let q = checked(&format!("PARSE {parse} WHERE {name} is null"));
        let Some(Predicate::IsNull(column)) = q.filter else {
            panic!("a test for null")
        };
        assert_eq!(names(&q, &[column]), [expected], "{name}");
    };
    check("http", "URL", "http.url");
    check("http", "Http.Url", "http.url");
    check("http", "get", "http.url");
    check("http", "destPort", "http.server_port");
    check("http", "srcIP", "http.client_ip");
    check("http", "response_time", "http.response_time_ns");
    check("tcp_pkt_size", "destIP", "tcp_pkt_size.dst_ip");
    check("tcp_pkt_size", "dest_port", "tcp_pkt_size.server_port");
    check("tcp_flow_key", "srcPort", "tcp_flow_key.src_port");
    check(
        "tcp_conn_time, http",
        "client_ip",
        "tcp_conn_time.client_ip",
    );
    check("tcp_conn_time, http", "http.client_ip", "http.client_ip");
    check(
        "tcp_conn_time, http",
        "response_time",
        "http.response_time_ns",
    );
    check("http, http_get", "http_get.get", "http_get.url");
}
