//! Queries with their plans, and invalid queries with their errors.

use plan::{AddressMatch, AggregateFunction, CaseSensitivity, Column, Pipeline, TopK, Window};

use super::*;

mod budget;
mod expr;

use crate::test_schemas::{hosts, schemas};

mod period;
mod random;
mod results;

fn checked(text: &str) -> CheckedQuery {
    crate::check(text, &schemas(), &hosts())
        .unwrap_or_else(|e| panic!("{}", crate::render(&e, text)))
}

/// `parser.field` for each column.
fn names(query: &CheckedQuery, columns: &[Column]) -> Vec<String> {
    let name = |c: &Column| {
        format!(
            "{}.{}",
            query.inputs[usize::from(c.input)].schema.name,
            query.field(*c).name
        )
    };
    columns.iter().map(name).collect()
}

fn value_of(query: &CheckedQuery, processor: &Pipeline) -> Vec<String> {
    names(
        query,
        &processor
            .values
            .iter()
            .map(|value| value.column)
            .collect::<Vec<_>>(),
    )
}

fn computed(processor: &Pipeline) -> Vec<AggregateFunction> {
    processor
        .aggregates
        .iter()
        .map(|a| a.aggregate.clone())
        .collect()
}

fn groups_of(query: &CheckedQuery, processor: &Pipeline) -> Vec<String> {
    names(
        query,
        &processor
            .group
            .iter()
            .map(|group| group.column)
            .collect::<Vec<_>>(),
    )
}

/// The condition with names, fully parenthesized.
fn shown(query: &CheckedQuery, condition: &Predicate) -> String {
    let name = |c: &Column| query.field(*c).name.to_string();
    let list = |parts: &[Predicate], word: &str| {
        format!(
            "({})",
            parts
                .iter()
                .map(|p| shown(query, p))
                .collect::<Vec<_>>()
                .join(word)
        )
    };
    match condition {
        Predicate::And(parts) => list(parts, " and "),
        Predicate::Or(parts) => list(parts, " or "),
        Predicate::Not(inner) => format!("not {}", shown(query, inner)),
        Predicate::Compare {
            column,
            op,
            literal,
        } => format!("{} {op:?} {literal:?}", name(column)),
        Predicate::Like {
            column,
            pattern,
            case,
        } => match case {
            CaseSensitivity::Sensitive => format!("{} like {pattern:?}", name(column)),
            CaseSensitivity::Ignored => format!("{} ilike {pattern:?}", name(column)),
        },
        Predicate::Matches { column, regex } => {
            format!(
                "{} ~{} {:?}",
                name(column),
                if regex.case == CaseSensitivity::Ignored {
                    "*"
                } else {
                    ""
                },
                regex.pattern
            )
        }
        Predicate::In { column, literals } => format!("{} in {literals:?}", name(column)),
        Predicate::IsNull(c) => format!("{} is null", name(c)),
    }
}

/// Checks the reported errors: position, message, and label.
fn check_errors(text: &str, expected: &[(&str, &str)]) {
    let errors = match crate::check(text, &schemas(), &hosts()) {
        Ok(query) => panic!("{text}: taken as {query:?}"),
        Err(errors) => errors,
    };
    let rendered = crate::render(&errors, text);
    assert_eq!(errors.len(), expected.len(), "{text}\n{rendered}");
    for (error, (place, says)) in errors.iter().zip(expected) {
        assert_eq!(&text[error.span.range()], *place, "{rendered}");
        let said = format!("{}: {}", error.message, error.label());
        assert!(said.contains(says), "{says}\n{rendered}");
    }
}

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

#[test]
fn clauses_come_in_any_order_and_case() {
    let a = checked(
        "PARSE http FROM h1 TO h2 WHERE status = 200 LIMIT 1m, 10p SAMPLE 1/4 PROCESS count",
    );
    let b = checked(
        "parse Http\n\tprocess count -- all\nsample 0.25 limit 10P,1M where status==200 to h2 from h1 ;\n",
    );
    assert_eq!(
        CheckedQuery {
            text: String::new(),
            ..a
        },
        CheckedQuery {
            text: String::new(),
            ..b
        }
    );
}

#[test]
fn limits_and_rates() {
    let limit = |text: &str| checked(&format!("PARSE http LIMIT {text}")).limit;
    assert_eq!(
        limit("250ms"),
        QueryLimit {
            packets: None,
            nanos: Some(250_000_000)
        }
    );
    assert_eq!(
        limit("1h, 5000p,"),
        QueryLimit {
            packets: Some(5000),
            nanos: Some(3_600_000_000_000)
        }
    );
    let sample = |text: &str| checked(&format!("PARSE http SAMPLE {text}")).sample;
    assert_eq!(sample("1/1000"), SampleMode::Fraction(0.001));
    assert_eq!(sample("10%"), SampleMode::Fraction(0.1));
    assert_eq!(sample("AUTO"), SampleMode::Auto);
    assert_eq!(sample("1.0"), SampleMode::All);
    assert_eq!(checked("PARSE http").sample, SampleMode::All);
}

fn check_condition(parse: &str, condition: &str, expected: &str) {
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

fn processor(parse: &str, process: &str) -> (CheckedQuery, Pipeline) {
    let q = checked(&format!("PARSE {parse} PROCESS {process}"));
    let [p] = q.processors.as_slice() else {
        panic!("one processor: {:?}", q.processors)
    };
    let p = p.clone();
    (q, p)
}

#[test]
fn chains_and_their_defaults() {
    use AggregateFunction::*;
    let check = |parse: &str,
                 process: &str,
                 value: Option<&str>,
                 group: &[&str],
                 aggregates: &[AggregateFunction]| {
        let (q, p) = processor(parse, process);
        assert_eq!(
            value_of(&q, &p),
            value.into_iter().collect::<Vec<_>>(),
            "{process}"
        );
        assert_eq!(groups_of(&q, &p), group, "{process}");
        assert_eq!(computed(&p), aggregates, "{process}");
    };
    let stats = super::processor::default_statistics();
    let time = Some("http.response_time_ns");
    let url = ["http.url"];
    check("http", "diff", time, &[], &stats);
    check("http", "(diff)", time, &[], &stats);
    check("http", "diff-group", time, &url, &stats);
    check("http", "group", time, &url, &stats);
    check(
        "http",
        "(group: value=response_bytes)",
        Some("http.response_bytes"),
        &url,
        &stats,
    );
    check(
        "tcp_flow_key",
        "(group: group=srcIP)",
        None,
        &["tcp_flow_key.src_ip"],
        &[Count],
    );
    check("http", "count", None, &[], &[Count]);
    check("http", "count-rate-group", None, &url, &[Count, Rate]);
    check("http", "sum-group", time, &url, &[Sum]);
    check("http", "diff-group-count", time, &url, &[Count]);
    check("http", "group-count", None, &url, &[Count]);
    check(
        "http",
        "group-quantile",
        time,
        &url,
        &[Quantile(0.5), Quantile(0.95), Quantile(0.99)],
    );
    check(
        "http",
        "(quantile-max: q=0.9, 1)",
        time,
        &[],
        &[Quantile(0.9), Quantile(1.0), Max],
    );
    check(
        "http",
        "(hist-cdf-stddev-min: value=response_bytes)",
        Some("http.response_bytes"),
        &[],
        &[Hist, Cdf, Stddev, Min],
    );
    check(
        "http",
        "(diff: value=transfer_time)",
        Some("http.transfer_time_ns"),
        &[],
        &stats,
    );
    check(
        "http, tcp_conn_time",
        "diff",
        Some("tcp_conn_time.conn_time_ns"),
        &[],
        &stats,
    );
    check(
        "http",
        "(min-max: value=ts)",
        Some("http.ts"),
        &[],
        &[Min, Max],
    );
    let distinct = |q: &CheckedQuery, name: &str| {
        Distinct(Column {
            input: 0,
            field: q.inputs[0].schema.find(name).expect("a field"),
        })
    };
    let q = checked("PARSE http");
    check("http", "distinct", None, &[], &[distinct(&q, "url")]);
    check(
        "http",
        "(distinct-group: group=host)",
        None,
        &["http.host"],
        &[distinct(&q, "url")],
    );
    check(
        "http",
        "(distinct-group: group=host, value=client_ip)",
        None,
        &["http.host"],
        &[distinct(&q, "client_ip")],
    );
    check(
        "http",
        "(distinct-group: group=host, key=client_ip)",
        None,
        &["http.host"],
        &[distinct(&q, "client_ip")],
    );
    check(
        "http",
        "(distinct-top-k: key=host)",
        None,
        &["http.host"],
        &[distinct(&q, "url")],
    );
    check(
        "http",
        "(group-count: group=host,get,'status')",
        None,
        &["http.host", "http.url", "http.status"],
        &[Count],
    );
    check(
        "http",
        "(group-count: group=(host,get), groups_max=5)",
        None,
        &["http.host", "http.url"],
        &[Count],
    );
}

#[test]
fn rankings() {
    let check = |process: &str, k: usize, by: usize| {
        let (_, p) = processor("http", process);
        assert_eq!(p.top_k, Some(TopK { k, by }), "{process}");
    };
    check("top-k", 10, 0);
    check("top-5", 5, 0);
    check("(topk: k=3, key=host)", 3, 0);
    check("(top-k: group=host, client_ip)", 10, 0);
    check("group-top-k", 10, 0);
    check("diff-group-top-k", 10, 0);
    check("group-avg-max-top-k", 10, 1);
    check("avg-top-k-group-count", 10, 0);
    check("(group-quantile-top-k: q=0.5,0.99)", 10, 1);
    assert_eq!(processor("http", "diff-group-top-k").1.aggregates.len(), 7);
    assert_eq!(
        computed(&processor("http", "group-top-k").1),
        [AggregateFunction::Count]
    );
}

#[test]
fn windows() {
    let window = |args: &str| {
        processor("http", &format!("(count: {args})"))
            .1
            .window
            .expect("a window")
    };
    let s = 1_000_000_000;
    assert_eq!(
        window("w=10s"),
        Window {
            size_ns: 10 * s,
            slide_ns: 10 * s,
            lateness_ns: s
        }
    );
    assert_eq!(
        window("w=1m, slide=500ms, lateness=0s"),
        Window {
            size_ns: 60 * s,
            slide_ns: s / 2,
            lateness_ns: 0
        }
    );
}

#[test]
fn several_processors_with_and_without_commas() {
    let names = |text: &str| {
        let q = checked(&format!("PARSE http PROCESS {text}"));
        q.processors
            .iter()
            .map(|p| p.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names("(top-k: k=10), (diff-group),"),
        ["top-k", "diff-group"]
    );
    assert_eq!(
        names("(top-k: k=10,)(Diff-Group:) count LIMIT 1s"),
        ["top-k", "Diff-Group", "count"]
    );
}

#[test]
fn success_is_the_parsers_own() {
    let success = |parse: &str| {
        let (q, p) = processor(parse, "success");
        let [AggregateFunction::Success(condition)] = &computed(&p)[..] else {
            panic!("{:?}", p.aggregates)
        };
        shown(&q, condition)
    };
    assert_eq!(success("http"), "status Lt U64(400)");
    assert_eq!(success("tcp_conn_time, http_get"), "status Lt U64(400)");
    assert_eq!(success("tcp_conn_time"), r#"flag Eq Text("FIN")"#);
    assert!(
        success("mysql_query")
            .starts_with("((error_code is null or error_code Eq U64(0)) and (response_time_ns")
    );
    assert!(success("memcached").starts_with("status in [Text(\"hit\")"));
}

#[test]
fn a_workload_profile_takes_the_columns_that_its_parser_has() {
    let (q, p) = processor("http", "workload-profile");
    let profile = p.profile.as_ref().expect("a profile");
    let of = |column: Option<Column>| column.map(|c| q.field(c).name.to_string());
    assert_eq!(
        (of(Some(profile.operation)), of(profile.object)),
        (Some("method".into()), Some("url".into()))
    );
    assert_eq!(
        (of(profile.read_bytes), of(profile.write_bytes)),
        (Some("response_bytes".into()), None)
    );
    assert_eq!(
        (profile.offset, profile.file, profile.checksums),
        (None, None, None)
    );
    assert_eq!(
        shown(&q, &profile.reads),
        r#"method in [Text("GET"), Text("HEAD")]"#
    );
    assert_eq!(
        shown(&q, profile.success.as_ref().expect("http tells")),
        "status Lt U64(400)"
    );
    assert_eq!(
        (profile.k, profile.near, p.groups_max, p.window),
        (10, 2, 10_000, None)
    );
    assert!(p.aggregates.is_empty() && p.group.is_empty());

    let (q, p) = processor(
        "http",
        "(Workload-Profile: k=3, key=host, near=0, w=60s, groups_max=50)",
    );
    let profile = p.profile.as_ref().expect("a profile");
    assert_eq!((profile.k, profile.near, p.groups_max), (3, 0, 50));
    assert_eq!(q.field(profile.object.expect("it is named")).name, "host");
    assert_eq!(p.window.expect("a window").size_ns, 60_000_000_000);
}

#[test]
fn a_service_map_has_what_its_parser_tells() {
    let names = |p: &plan::Pipeline| {
        let named = p.aggregates.iter().filter_map(|a| a.name.clone());
        (
            p.group
                .iter()
                .map(|g| g.name.clone())
                .collect::<Vec<_>>()
                .join(" "),
            named.collect::<Vec<_>>().join(" "),
        )
    };
    let (_, p) = processor("http", "(service-map: w=10s)");
    let expected = (
        "client_ip server_ip server_port",
        "time_ns p50_ns p99_ns response_bytes",
    );
    assert_eq!(names(&p), (expected.0.into(), expected.1.into()));
    assert!(
        p.window.is_some()
            && p.aggregates
                .iter()
                .any(|a| matches!(a.aggregate, AggregateFunction::Success(_)))
    );
    let (_, p) = processor("tcp_pkt_size", "service-map");
    assert_eq!(names(&p).1, "packet_bytes");
    assert!(
        !p.aggregates
            .iter()
            .any(|a| matches!(a.aggregate, AggregateFunction::Success(_)))
    );
    for (query, place, message) in [
        (
            "PARSE http, tcp_conn_time PROCESS (service-map)",
            "service-map",
            "exactly one parser",
        ),
        (
            "PARSE http PROCESS (service-map-count)",
            "service-map",
            "stands alone",
        ),
        (
            "PARSE http PROCESS (service-map: group=url)",
            "group",
            "has no effect with",
        ),
        (
            "PARSE http PROCESS (service-map: k=3)",
            "k",
            "has no effect with",
        ),
        (
            "PARSE http PROCESS (map)",
            "map",
            "did you mean `service-map`?",
        ),
    ] {
        check_errors(query, &[(place, message)]);
    }
}

#[test]
fn errors_of_workload_profiles() {
    for (query, place, says) in [
        (
            "PARSE tcp_pkt_size PROCESS (workload-profile)",
            "workload-profile",
            "those are http or http_get",
        ),
        (
            "PARSE http, tcp_conn_time PROCESS (workload-profile)",
            "workload-profile",
            "exactly one parser",
        ),
        (
            "PARSE http PROCESS (workload-profile-count)",
            "workload-profile",
            "stands alone",
        ),
        (
            "PARSE http PROCESS (workload-profile: group=url)",
            "group",
            "has no effect with",
        ),
        (
            "PARSE http PROCESS (workload-profile: w=10s, slide=1s)",
            "slide",
            "has no effect with",
        ),
        (
            "PARSE http PROCESS (workload-profile: near=-1)",
            "-1",
            "is not valid for `near`",
        ),
        (
            "PARSE http PROCESS (count: near=1)",
            "near",
            "it belongs to the block `workload-profile`",
        ),
        (
            "PARSE http PROCESS (profile)",
            "profile",
            "did you mean `workload-profile`?",
        ),
    ] {
        check_errors(query, &[(place, says)]);
    }
}

#[test]
fn only_whole_connections_take_part_where_parts_would_be_wrong() {
    let filtered = |text: &str| checked(text).inputs[0].filter.is_some();
    assert!(filtered("PARSE tcp_conn_time PROCESS diff"));
    assert!(filtered("PARSE tcp_conn_time PROCESS success, diff"));
    assert!(filtered("PARSE tcp_conn_time, http_get"));
    assert!(!filtered("PARSE tcp_conn_time"));
    assert!(!filtered(
        "PARSE tcp_conn_time PROCESS (group-count: group=event)"
    ));
    assert!(!filtered(
        "PARSE tcp_conn_time PROCESS diff (group-count: group=event)"
    ));
    assert!(!filtered(
        "PARSE tcp_conn_time WHERE event = 'end' PROCESS success (group-count: group=flag)"
    ));
    check_errors(
        "PARSE tcp_conn_time PROCESS success (group-count: group=flag)",
        &[("success", "WHERE event = 'end'")],
    );
}

#[test]
fn errors_of_structure() {
    let check = check_errors;
    check("", &[("", "the query is empty: expected `PARSE`")]);
    check(" -- nothing", &[("", "the query is empty")]);
    check(
        "PRASE http FORM * TO h1 LIMT 3s",
        &[
            ("PRASE", "`PARSE`?"),
            ("FORM", "`FROM`?"),
            ("LIMT", "`LIMIT`?"),
        ],
    );
    check(
        "SELECT * FROM http",
        &[("SELECT", "begins with PARSE"), ("http", "unknown host")],
    );
    check("FROM * PARSE http", &[("FROM", "begins with PARSE")]);
    check("PARSE", &[("", "expected a parser's name")]);
    check("PARSE FROM *", &[("FROM", "expected a parser's name")]);
    check("PARSE http,,http_get", &[(",", "expected a parser's name")]);
    check("PARSE (http, http_get FROM *", &[("(", "is not closed")]);
    check("PARSE http)", &[(")", "unexpected `)`")]);
    check(
        "PARSE http FROM * FROM *",
        &[("FROM", "FROM is given twice")],
    );
    check("PARSE http LIMIT", &[("", "expected a limit")]);
    check(
        "PARSE http SAMPLE LIMIT 1s",
        &[("LIMIT", "expected a rate")],
    );
    check(
        "PARSE http FROM 10.0.0.1 10.0.0.2 TO *",
        &[("10.0.0.2", "expected `,` or a clause: SELECT, TO, WHERE")],
    );
    check("PARSE http; PARSE http", &[("PARSE", "only one query")]);
    check(
        "PARSE http WHERE url = 'x FROM *",
        &[("'x FROM *", "no closing quote")],
    );
    check("PARSE http WHERE url = ‘x’", &[("‘", "quotes are ' or \"")]);
    check(
        "PARSE http @ LIMIT 1x",
        &[("@", "unexpected `@`"), ("1x", "is not a limit")],
    );
}

#[test]
fn errors_of_conditions() {
    let check = |condition: &str, expected: &[(&str, &str)]| {
        check_errors(&format!("PARSE http WHERE {condition}"), expected)
    };
    check("", &[("", "expected a condition")]);
    check(
        "status",
        &[("status", "not a condition: expected a comparison")],
    );
    check("status =", &[("", "expected a value")]);
    check("status = LIMIT 1s", &[("LIMIT", "expected a value")]);
    check("status ~ 5", &[("status", "`~` needs text")]);
    check("url ~ 5", &[("5", "write '5'")]);
    check("url matches 'x'", &[("matches", "write `~ 'pattern'`")]);
    check("url ~ '^a(?=b)'", &[("(?=", "look-around")]);
    check(
        "url ~ 'it''s [a'",
        &[("[", "in the pattern: unclosed character class")],
    );
    check(
        "url ~ '\\w{1000}{1000}'",
        &[("'\\w{1000}{1000}'", "is too large")],
    );
    check(
        "status between 1 and 2",
        &[("between", "x >= a and x <= b")],
    );
    check("status = 1 && status = 2", &[("&", "write `and`")]);
    check(
        "status = 1 status = 2",
        &[("status", "expected `and`, `or` or a clause")],
    );
    check("(status = 1", &[("(", "is not closed")]);
    check("status = 1)", &[(")", "expected `and`")]);
    check("and status = 1", &[("and", "expected a condition")]);
    check("not", &[("", "expected a condition")]);
    check("status not 5", &[("5", "expected `like`, `ilike` or `in`")]);
    check("status in 5", &[("5", "a list in brackets")]);
    check("status in ()", &[(")", "expected a value")]);
    check("status is 5", &[("5", "expected `null` or `not null`")]);
    check("status = null", &[("null", "write `is null`")]);
    check("1 = 2", &[("1 = 2", "no field")]);
    check("'status' = 2", &[("'status' = 2", "without quotes")]);
    check("statsu = 1", &[("statsu", "did you mean `status`?")]);
    check(
        "xyzzy = 1",
        &[("xyzzy", "has no field `xyzzy`: expected method")],
    );
    check(
        "packet_bytes > 1",
        &[("packet_bytes", "`tcp_pkt_size` has it")],
    );
    check(
        "mysql_query.query = 'x'",
        &[("mysql_query.query", "add it: PARSE http, mysql_query")],
    );
    check("htp.url = 'x'", &[("htp.url", "did you mean `http`?")]);
    check("http.ulr = 'x'", &[("http.ulr", "did you mean `url`?")]);
    check("method = GET", &[("GET", "write 'GET'")]);
    check(
        "status = path",
        &[("status = path", "a number is compared with text")],
    );
    check("status = abc", &[("abc", "expected a whole number")]);
    check("status = 1.5", &[("1.5", "expected a whole number")]);
    check("status = -1", &[("-1", "never negative")]);
    check("status = 10ms", &[("10ms", "expected a whole number")]);
    check(
        "status = 99999999999999999999999999",
        &[("99999999999999999999999999", "expected a whole number")],
    );
    check(
        "response_time > 100",
        &[(
            "100",
            "expected a duration such as 100ms or 1.5s; a number needs its unit",
        )],
    );
    check("response_time > 10kB", &[("10kB", "expected a duration")]);
    check(
        "response_time > 0.1ns",
        &[("0.1ns", "the resolution is 1ns")],
    );
    check("response_bytes > 10ms", &[("10ms", "expected a size")]);
    check("ts > 'yesterday'", &[("'yesterday'", "expected a time")]);
    check(
        "client_ip > 10.0.0.1",
        &[(
            "client_ip > 10.0.0.1",
            "cannot be ordered: expected = or !=",
        )],
    );
    check("client_ip = h9", &[("h9", "unknown host `h9`")]);
    check(
        "client_ip = 10.0.0.0/40",
        &[("10.0.0.0/40", "expected an address")],
    );
    check("client_guessed = 1", &[("1", "expected true or false")]);
    check("status like '5%'", &[("status", "`like` needs text")]);
    check("url like a%", &[("a%", "write 'a%'")]);
    check("url like 'a\\'", &[("'a\\'", "ends with `\\`")]);
    check(
        "statsu = 1 or (ulr = 2 and status in (1, x))",
        &[("statsu", "status"), ("ulr", "url"), ("x", "whole number")],
    );
    check(&"(".repeat(1000), &[("(", "nested more than 64 deep")]);
    check_errors(
        "PARSE memcached WHERE checksums = 'x'",
        &[("'x'", "expected `is null`")],
    );
    check_errors(
        "PARSE http, mysql_query WHERE qury = 'x'",
        &[("qury", "did you mean `query`?")],
    );
}

#[test]
fn errors_of_processors() {
    let check = |process: &str, expected: &[(&str, &str)]| {
        check_errors(&format!("PARSE http PROCESS {process}"), expected)
    };
    check("", &[("", "expected a processor")]);
    check("()", &[(")", "expected a processor's name")]);
    check("(top-k", &[("(", "is not closed")]);
    check(
        "(top-k: k)",
        &[("k", "expected an argument such as `k=10`")],
    );
    check("(top-k: k=)", &[(")", "expected a value")]);
    check("(top-k k=3)", &[("k", "`:` between")]);
    check(
        "(top-k: k=3 w=1s)",
        &[("w", "`,` before the next argument")],
    );
    check("top-k: k=3", &[("top-k: k=3", "write `(top-k: k=3)`")]);
    check(
        "(tpo-k: k=3)",
        &[("tpo", "unknown processor `tpo`"), ("k", "")],
    );
    check("grop", &[("grop", "did you mean `group`?")]);
    check(
        "group-mean-median",
        &[("mean", "`avg`"), ("median", "`quantile`")],
    );
    check("group-group", &[("group", "twice")]);
    check("diff--group", &[("", "empty block")]);
    check(
        "(top-k: n=3)",
        &[("n", "unknown argument `n`: expected group")],
    );
    check("(top-k: window=3s)", &[("window", "did you mean `w`?")]);
    check("(top-k: k=3, K=4)", &[("K", "given twice")]);
    check("(top-k: k=0)", &[("0", "a whole number from 1")]);
    check("(top-k: k=ten)", &[("ten", "a whole number from 1")]);
    check("(top-k: k=1,2)", &[("k=1,2", "takes one value")]);
    check("(top-5: k=6)", &[("k", "already sets k")]);
    check(
        "top-99999999999999999999",
        &[("top-99999999999999999999", "a number from 1")],
    );
    check("top-0", &[("top-0", "a number from 1")]);
    check("(count: k=6)", &[("k", "belongs to the block `top-k`")]);
    check(
        "(count: q=0.5)",
        &[("q", "belongs to the block `quantile`")],
    );
    check("(quantile: q=95)", &[("95", "numbers from 0 to 1")]);
    check("(quantile: q=0.5,.5)", &[(".5", "named twice")]);
    check("(sum: group=host)", &[("group", "write `group-sum`")]);
    check(
        "(count: value=status)",
        &[("value", "no block in `count` uses a value")],
    );
    check(
        "(sum: value=url)",
        &[("url", "`sum` cannot use `url`, which is text")],
    );
    check("(sum: value=ts)", &[("ts", "only `min` and `max`")]);
    check("(sum: value=nope)", &[("nope", "has no field `nope`")]);
    check(
        "(diff: value=status)",
        &[("status", "a difference of times")],
    );
    check(
        "(count: key=host)",
        &[("key", "belongs to the block `top-k`")],
    );
    check(
        "(group-count: group=host, key=url)",
        &[("key", "names the groups already")],
    );
    check(
        "(group-distinct: group=url)",
        &[("distinct", "within each `url` there is one `url`")],
    );
    check(
        "(group-count: group=host, HOST)",
        &[("HOST", "repeats `http.host`")],
    );
    check("top-k-sum", &[("top-k", "nothing to rank by")]);
    check(
        "group-hist-top-k",
        &[("top-k", "a distribution cannot be ranked")],
    );
    check("(count: w=10)", &[("10", "write 10s")]);
    check("(count: w=0s)", &[("0s", "expected a duration")]);
    check("(count: w=10s, slide=20s)", &[("20s", "leave gaps")]);
    check("(count: w=10s, slide=3s)", &[("3s", "line up")]);
    check("(count: w=10s, slide=1ms)", &[("1ms", "at most 1000")]);
    check(
        "(count: slide=1s, lateness=2s)",
        &[
            ("slide", "without a window"),
            ("lateness", "without a window"),
        ],
    );
    check(
        "(count: w=1s, lateness=-1s)",
        &[("-1s", "expected a duration")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS diff",
        &[("diff", "records two times")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS group",
        &[(
            "group",
            "`group` needs `group=`: name the columns, as in group=src_ip",
        )],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS top-k",
        &[("top-k", "needs `key=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS sum",
        &[("sum", "`sum` needs `value=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS distinct",
        &[("distinct", "`distinct` needs `value=`")],
    );
    check_errors(
        "PARSE tcp_flow_key PROCESS success",
        &[("success", "those are tcp_conn_time, http,")],
    );
}

#[test]
fn all_errors_at_once_and_none_that_only_follows() {
    check_errors(
        "PARSE htp_get FROM h9 TO 10.0.0.1:x WHERE url = GET LIMIT 90 SAMPLE 2 PROCESS (top-k: k=x), (diff-grop), (sum)",
        &[
            ("htp_get", "did you mean `http_get`?"),
            ("h9", "unknown host"),
            ("10.0.0.1:x", "is not a port"),
            ("90", "write 90s, 90p or 90 rows"),
            ("2", "1/2"),
            ("x", "a whole number"),
            ("grop", "`group`"),
        ],
    );
    check_errors(
        "PARSE http, http LIMIT 1s, 2s, 1p, 0p",
        &[
            ("http", "named twice"),
            ("2s", "second limit"),
            ("0p", "is not a number"),
        ],
    );
    check_errors(
        "PARSE http, nfss, kafka WHERE x = 1",
        &[("nfss", "expected tcp_flow_key"), ("kafka", "")],
    );
}

#[test]
fn fields_called_otherwise_are_known() {
    for (field, meant) in [
        ("response_size", "did you mean `response_bytes`?"),
        ("latency", "did you mean `response_time_ns`?"),
        ("statusCode", "did you mean `status`?"),
    ] {
        check_errors(&format!("PARSE http WHERE {field} > 1"), &[(field, meant)]);
    }
}

#[test]
fn an_error_reads_as_the_design_says() {
    let text = "PARSE htp_get FROM * TO h1:80";
    let errors = crate::check(text, &schemas(), &hosts()).expect_err("a misspelt parser");
    let expected = "error: unknown parser `htp_get`\n  PARSE htp_get FROM * TO h1:80\n        ^^^^^^^ did you mean `http_get`?\n";
    assert_eq!(crate::render(&errors, text), expected);
}

#[test]
fn long_queries_take_about_linear_time_and_are_bounded() {
    let words = [
        "not ",
        "(",
        "a=1 and ",
        "a, ",
        "((",
        "'",
        "'' ",
        "-- \n",
        "= ",
        "x ",
        "http_gte, ",
        "- ",
        "top-k ",
        "(x: y=1, ",
        "status, ",
        "status/100 AS a, ",
        "status + ",
        "if(",
        "coalesce(1,",
        "1/",
    ];
    for head in [
        "",
        "PARSE ",
        "PARSE http FROM ",
        "PARSE http WHERE ",
        "PARSE http PROCESS ",
        "PARSE http PROCESS (top-k: group=",
        "PARSE http SELECT ",
        "PARSE http ORDER BY ",
    ] {
        for word in words {
            let text = format!(
                "{head}{}",
                word.repeat((crate::QUERY_BYTES_MAX - head.len()) / word.len())
            );
            let start = std::time::Instant::now();
            if let Err(errors) = crate::check(&text, &schemas(), &hosts()) {
                assert!(errors.len() <= 50 && crate::render(&errors, &text).len() < 100_000);
            }
            assert!(
                start.elapsed().as_secs() < 5,
                "{head}{word}…: {:?}",
                start.elapsed()
            );
        }
    }
    let long = "x".repeat(crate::QUERY_BYTES_MAX + 1);
    assert!(
        crate::check(&long, &schemas(), &hosts()).expect_err("too long")[0]
            .message
            .contains("more than the limit of 65536")
    );
}
