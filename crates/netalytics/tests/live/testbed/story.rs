//! The shop of which one server is set up wrongly (docs/use-cases.md): two queries find it.

use super::*;

/// Output of examples/multi-tier/run.sh: results of queries, and the servers' logs.
struct Story {
    folder: TempDir,
}

impl Story {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn rows(&self, name: &str) -> Vec<Value> {
        self.text(&format!("{name}.jsonl"))
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Tab-separated fields of a log's lines.
    fn of(&self, log: &str) -> Vec<Vec<String>> {
        self.text(log)
            .lines()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// Connections by both endpoints: each page causes one to its application server, and one to each backend that this
    /// uses.
    fn connections(&self) -> BTreeMap<Pair, u64> {
        let mut found = BTreeMap::new();
        for (app, log) in APPS.into_iter().zip(["app1.requests", "app2.requests"]) {
            let log = self.of(log);
            let asked =
                |column: usize| log.iter().filter(|line| line[column] != "0").count() as u64;
            found.insert(pair(PROXY, app), log.len() as u64);
            found.insert(pair(app, DB), asked(6));
            found.insert(pair(app, CACHE), asked(5));
        }
        found.retain(|_, count| *count > 0);
        found
    }

    /// An application server according to the proxy: number of requests, and average time in milliseconds.
    fn upstream(&self, app: &str) -> (u64, f64) {
        let lines = self.of("proxy.requests");
        let times = lines
            .iter()
            .filter(|line| line[5] == format!("{app}:8000"))
            .map(|line| &line[6]);
        let times: Vec<f64> = times.map(|time| time.parse().expect("seconds")).collect();
        (
            times.len() as u64,
            1e3 * times.iter().sum::<f64>() / times.len() as f64,
        )
    }

    /// Statements by client: the database logs each connection's client under a number.
    fn statements(&self) -> BTreeMap<String, u64> {
        let mut clients = BTreeMap::new();
        let mut found = BTreeMap::new();
        for line in self
            .of("db.queries")
            .into_iter()
            .map(|fields| fields.join(" "))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) = words
                .iter()
                .position(|word| ["Connect", "Query"].contains(word))
                .filter(|at| *at > 0)
            else {
                continue;
            };
            let connection = words[at - 1].to_owned();
            if let Some(client) = words
                .get(at + 1)
                .and_then(|user| user.strip_prefix("shop@"))
            {
                clients.insert(connection, client.to_owned());
            } else if let Some(client) = clients.get(&connection) {
                *found.entry(client.clone()).or_default() += 1;
            }
        }
        found
    }
}

#[test]
fn two_queries_find_the_server_that_is_set_up_wrongly() {
    let Some(bed) = TestBed::new() else { return };
    drop(bed);
    let logs = Story {
        folder: tempfile::Builder::new()
            .prefix("tiers-")
            .tempdir_in("/tmp")
            .expect("a folder"),
    };
    let ran = Command::new(root().join("examples/multi-tier/run.sh"))
        .arg(logs.folder.path())
        .arg(REQUESTS)
        .env("NETALYTICS", BINARY)
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(
        said.contains(&format!("{REQUESTS} answered with 200")),
        "{said}"
    );
    for capture in ["leaf1.json", "leaf2.json"] {
        let summary: Value = serde_json::from_str(&logs.text(capture)).expect("JSON");
        let lost = (
            &summary["source"]["lost_before_us"],
            &summary["packets"]["adds_up"],
        );
        assert_eq!(lost, (&Value::from(0), &Value::from(true)), "{summary:#}");
    }
    let [tiers, bytes, statements, gets, pages] =
        ["tiers", "bytes", "statements", "gets", "pages"].map(|name| logs.rows(name));

    // Exactly the expected connections.
    let expected = logs.connections();
    let counted = by_pair(&tiers, "count")
        .into_iter()
        .map(|(pair, count)| (pair, count as u64));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), expected);
    // The first query shows that one server is much slower, in agreement with the proxy.
    let seen = APPS.map(|app| by_pair(&tiers, "avg_ns")[&pair(PROXY, app)] / 1e6);
    for (app, seen) in APPS.into_iter().zip(seen) {
        let (requests, own) = logs.upstream(app);
        assert_eq!(requests, expected[&pair(PROXY, app)]);
        assert!(
            (seen - own).abs() < 3.0 + 0.2 * own,
            "{app}: {seen} ms seen, {own} ms logged"
        );
    }
    assert!(seen[0] > 1.3 * seen[1], "{seen:?} ms");

    // The second query shows that it uses only the database. Bytes equal the database's interface counters, except for
    // ARP.
    let sums = by_pair(&bytes, "sum_bytes");
    let of = |app: &str, to: &str| sums.get(&pair(app, to)).copied().unwrap_or(0.0);
    let db = of(APPS[0], DB) + of(APPS[1], DB);
    let moved: f64 = logs.text("db.bytes").trim().parse().expect("a number");
    assert!(
        (db..db + 2000.0).contains(&moved),
        "{db} bytes seen, {moved} counted"
    );
    assert!(
        of(APPS[0], DB) > 3.0 * of(APPS[1], DB)
            && of(APPS[0], CACHE) == 0.0
            && of(APPS[1], CACHE) > 0.0,
        "{sums:?}"
    );
    // The map agrees: no edge from that server to the cache.
    let map: Value = serde_json::from_str(&logs.text("map.json")).expect("JSON");
    let edges: Vec<Pair> = map["edges"]
        .as_array()
        .expect("a list")
        .iter()
        .map(ends_of)
        .collect();
    let has = |client: &str, server: &str| edges.contains(&pair(client, server));
    assert!(
        has(APPS[0], DB) && has(APPS[1], DB) && has(APPS[1], CACHE) && !has(APPS[0], CACHE),
        "{edges:?}"
    );

    // And by protocol.
    assert_eq!(counts(&statements, &["client_ip"]), logs.statements());
    let mut gets_logged = BTreeMap::new();
    for line in logs.of("app2.requests") {
        *gets_logged
            .entry(format!("{} {}", APPS[1], line[4] == "cache"))
            .or_default() += 1_u64;
    }
    assert_eq!(counts(&gets, &["client_ip", "hit"]), gets_logged);
    let mut paths = BTreeMap::new();
    logs.of("proxy.requests")
        .iter()
        .for_each(|line| *paths.entry(line[2].clone()).or_default() += 1_u64);
    assert_eq!(counts(&pages, &["path"]), paths);
}
