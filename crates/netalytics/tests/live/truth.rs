//! Servers under load: the result contains every request that a server has logged, once, and nothing else.

use std::collections::BTreeMap;

use crate::capture::{Capture, Captured, text};
use crate::net::{Net, SERVER, within};
use crate::servers::{Servers, settled};

/// Requests and their counts.
type Asked = BTreeMap<String, u32>;

fn counted(requests: impl IntoIterator<Item = String>) -> Asked {
    let mut asked = Asked::new();
    requests
        .into_iter()
        .for_each(|request| *asked.entry(request).or_default() += 1);
    asked
}

#[test]
fn results_agree_with_the_servers_own_logs() {
    let Some(net) = Net::new() else { return };
    let Some(servers) = Servers::start(&net.server) else {
        return;
    };
    if try_load(&net, &servers, "2s") {
        return;
    }
    testkit::print_uncaptured("live: packets were lost and counted; repeating with a lower load");
    if !try_load(&net, &servers, "100ms") {
        testkit::print_uncaptured(
            "live: packets were lost and counted again; logs were compared for `less` only",
        );
    }
}

/// Generates load on all servers during three queries; returns whether nothing was lost.
fn try_load(net: &Net, servers: &Servers, wrk: &str) -> bool {
    let before = ["access.log", "general.log", "memcached.log"].map(|log| servers.log_len(log));
    let capture = |query, filter| {
        Capture::start(
            &net.server,
            query,
            &["--workers", "2", "-i", "eth0", filter],
        )
    };
    let http = capture("PARSE http", "tcp port 80");
    let mysql = capture("PARSE mysql_query", "tcp port 3306");
    let memcached = capture("PARSE memcached", "tcp port 11211");
    load(net, servers, wrk);
    for log in ["access.log", "general.log", "memcached.log"] {
        settled(&servers.path(log));
    }
    let captured = [http, mysql, memcached].map(Capture::interrupt);
    for captured in &captured {
        assert_eq!(captured.code, Some(0), "{}", captured.err);
        assert_eq!(
            captured.summary.pointer("/packets/adds_up"),
            Some(&true.into())
        );
    }
    let [http, mysql, memcached] = &captured;
    let pairs = [
        (
            http,
            http_seen(http),
            http_logged(&servers.log("access.log", before[0])),
        ),
        (
            mysql,
            mysql_seen(mysql),
            mysql_logged(&servers.log("general.log", before[1])),
        ),
        (
            memcached,
            memcached_seen(memcached),
            memcached_logged(&servers.log("memcached.log", before[2])),
        ),
    ];
    for (captured, seen, logged) in &pairs {
        if captured.count("/source/lost_before_us") == 0 {
            compare(seen, logged, &captured.err);
        } else {
            let total = |asked: &Asked| asked.values().sum::<u32>();
            assert!(total(seen) <= total(logged), "{}", captured.err);
        }
    }
    captured
        .iter()
        .all(|captured| captured.count("/source/lost_before_us") == 0)
}

fn compare(seen: &Asked, logged: &Asked, err: &str) {
    assert!(logged.values().sum::<u32>() >= 600, "too few to be a load");
    let differ: Vec<_> = logged
        .keys()
        .chain(seen.keys())
        .filter(|request| seen.get(*request) != logged.get(*request))
        .map(|request| (request, seen.get(request), logged.get(request)))
        .take(5)
        .collect();
    assert!(
        differ.is_empty(),
        "request, seen, logged: {differ:#?}\n{err}"
    );
}

fn load(net: &Net, servers: &Servers, wrk: &str) {
    let statements = servers.path("statements.sql");
    let statement = |i| {
        format!(
            "INSERT INTO item VALUES ({i}, 'item {i}') ON DUPLICATE KEY UPDATE name = name;
             SELECT name FROM item WHERE id = {i};\n"
        )
    };
    std::fs::write(&statements, (0..300).map(statement).collect::<String>()).expect("statements");
    let cache = format!(
        "exec 3<>/dev/tcp/{SERVER}/11211; cat <&3 >/dev/null & for i in $(seq 300); do \
         printf 'set key%d 0 0 3\\r\\nabc\\r\\nget key%d\\r\\nget no%d\\r\\n' $i $i $i; done >&3; \
         printf 'quit\\r\\n' >&3; wait"
    );
    let curl = |path: &str| format!("curl -s -o /dev/null http://{SERVER}/{path}");
    let sql = format!(
        "mariadb --no-defaults -h{SERVER} -uapp -psecret shop < {} >/dev/null",
        statements.display()
    );
    let loads = [
        curl("item/[1-400]?page=[1-2]"),
        curl("old/[1-200]"),
        curl("none/[1-200]"),
        format!("timeout 30 wrk -t1 -c8 -d{wrk} http://{SERVER}/item/7 >/dev/null"),
        sql,
        cache.clone(),
        cache,
    ];
    let children: Vec<_> = loads
        .iter()
        .map(|script| {
            within(&net.client, "bash")
                .args(["-c", script])
                .spawn()
                .expect("a client")
        })
        .collect();
    for (mut child, script) in children.into_iter().zip(&loads) {
        assert!(child.wait().expect("it ends").success(), "{script}");
    }
}

fn http_seen(captured: &Captured) -> Asked {
    counted(captured.rows.iter().map(|row| {
        let query = row["url_query"]
            .as_str()
            .map(|query| format!("?{query}"))
            .unwrap_or_default();
        format!(
            "{} {}{query} {}",
            text(&row["method"]),
            text(&row["path"]),
            row["status"]
        )
    }))
}

fn http_logged(log: &[String]) -> Asked {
    counted(log.iter().cloned())
}

fn mysql_seen(captured: &Captured) -> Asked {
    let queries = captured.rows.iter().filter(|row| row["command"] == "query");
    counted(queries.map(|row| text(&row["query"])))
}

fn mysql_logged(log: &[String]) -> Asked {
    counted(
        log.iter()
            .filter_map(|line| Some(line.split_once(" Query\t")?.1.to_owned())),
    )
}

fn memcached_seen(captured: &Captured) -> Asked {
    let commands = captured
        .rows
        .iter()
        .filter(|row| row["command"] == "get" || row["command"] == "set");
    counted(commands.map(|row| format!("{} {}", text(&row["command"]), text(&row["cache_key"]))))
}

/// Log lines: `<28 get key1`, `<28 set key1 0 0 3`; responses start with `>`.
fn memcached_logged(log: &[String]) -> Asked {
    counted(log.iter().filter_map(|line| {
        let mut words = line.strip_prefix('<')?.split(' ').skip(1);
        let command = words
            .next()
            .filter(|command| ["get", "set"].contains(command))?;
        Some(format!("{command} {}", words.next()?))
    }))
}
