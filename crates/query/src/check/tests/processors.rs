//! PROCESS: chains of blocks, their defaults, windows, and processors with columns of their own.

use super::*;

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
        shown(&q, profile.success.as_ref().expect("the facts of http")),
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
fn service_map_columns_follow_the_parser() {
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
