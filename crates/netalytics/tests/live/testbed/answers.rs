//! Queries of the network, compared with captures at the servers.

use super::discovered::EVERYBODY;
use super::*;

/// The two queries of the use case in the network: monitors at switches' ports, and rules and port mirrors that copy to
/// spare hosts, give the results of captures at the servers, and leave nothing behind, also after a kill.
#[test]
fn queries_of_the_network_answer_as_captures_at_the_servers() {
    let Some(bed) = TestBed::new() else { return };
    let sdn = Sdn::start(&bed.sdn, None);
    let controller = sdn.as_ref().map_or(String::new(), |sdn| {
        format!("unix:{}", sdn.socket.display())
    });
    bed.run(
        &["up"],
        &[("MISCONFIGURED", "app1"), ("CONTROLLER", &controller)],
    );
    bed.run(&["load", "--requests", "100"], &[]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    bed.is_found(&network);
    if let Some(sdn) = &sdn {
        let site = NetworkSite::parse(&network).expect("the bed's file");
        let url = format!("http://{}", sdn.listen);
        let token = sdn.token.to_str().expect("text");
        let controller = ["--controller", &url, "--controller-token", token];
        let found = bed.discovered(&site, &[&controller, &EVERYBODY[..]].concat());
        let told = NetworkSite::parse(&sdn.instead_of_databases(&network)).expect("a file");
        assert_eq!(
            NetworkSite::parse(&found).expect("a file").switches,
            told.switches
        );
    }
    let [file, costs] = ["asked.toml", "costs.toml"].map(|name| bed.path(name));
    fs::write(&costs, MIRRORS).expect("a file");
    let [file, costs] = [&file, &costs].map(|path| path.to_str().expect("text"));
    let flags = vec!["--network", file, "--exact"];
    let mirrors = [&flags[..], &["--costs", costs]].concat();
    let without = without_sniffers(&network);
    for (network, asked) in [
        (
            &network,
            Asked {
                flags: &flags,
                of: "",
                said: "no switch copies anything",
                from: None,
            },
        ),
        (
            &without,
            Asked {
                flags: &flags,
                of: "rules",
                said: ", proved for ",
                from: None,
            },
        ),
        (
            &without,
            Asked {
                flags: &mirrors,
                of: "mirrors",
                said: ", proved for ",
                from: None,
            },
        ),
    ] {
        fs::write(file, network).expect("a file");
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &asked);
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(
            numbers(&tiers.0, "count"),
            numbers(&tiers.1, "count"),
            "{network}"
        );
        // Times are measured at the switch; the delay in between is negligible.
        for (seen, own) in tiers.0.iter().map(|row| (row, find(&tiers.1, row))) {
            let [seen, own] = [seen, own].map(|row| row["avg_ns"].as_f64().expect("a time") / 1e6);
            assert!(
                (seen - own).abs() < 3.0 + 0.2 * own,
                "{seen} ms seen, {own} ms at the server"
            );
        }
        let bytes = bed.beside(BYTES, &["db", "cache"], &asked);
        assert!(bytes.0.len() >= 2, "{:?}", bytes.0);
        assert_eq!(
            numbers(&bytes.0, "sum_bytes"),
            numbers(&bytes.1, "sum_bytes"),
            "{network}"
        );
    }
    // Run on the switch's host: copies go to an interface there.
    fs::write(file, bed.with_leaf2_here(&network)).expect("a file");
    let here = [&flags[..], &["--expect", "10.60.2.0/24:9=500Mbps"]].concat();
    let here = Asked {
        flags: &here,
        of: "rules",
        said: "monitors on leaf2; 1 switch copies",
        from: Some("leaf2"),
    };
    let pages = bed.beside(PAGES_OF_APPS, &["app1", "app2"], &here);
    assert_eq!(pages.0.len(), 2, "{:?}", pages.0);
    assert_eq!(numbers(&pages.0, "count"), numbers(&pages.1, "count"));
    fs::write(file, &without).expect("a file");
    // The third leaf has no spare host: through a tunnel to one at the first.
    let tunneled = not_spare(&without, "spare3");
    let said = "monitors on spare2, spare1; 2 switches copy";
    for (ends, of) in [
        ("tunnel = \"gre://", "type: gre"),
        ("tunnel = \"", "type: vxlan"),
    ] {
        fs::write(file, tunneled.replace("tunnel = \"", ends)).expect("a file");
        let through = Asked {
            flags: &flags,
            of,
            said,
            from: None,
        };
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &through);
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(
            numbers(&tiers.0, "count"),
            numbers(&tiers.1, "count"),
            "{of}"
        );
    }
    let through = Asked {
        flags: &flags,
        of: "type: vxlan",
        said,
        from: None,
    };
    let through = Asked {
        said: "monitors on spare",
        ..through
    };
    let bytes = bed.beside(BYTES, &["db", "cache"], &through);
    assert_eq!(
        numbers(&bytes.0, "sum_bytes"),
        numbers(&bytes.1, "sum_bytes")
    );
    fs::write(file, &without).expect("a file");
    bed.says_what_it_lacks(file, costs);
    // Reported by the controller: the owner disables flooding to spare hosts.
    if let Some(sdn) = &sdn {
        for (leaf, port) in [("leaf1", "4"), ("leaf2", "3"), ("leaf3", "3")] {
            bed.keeps_floods_from(leaf, port);
        }
        fs::write(file, sdn.instead_of_databases(&without)).expect("a file");
        let told = Asked {
            flags: &flags,
            of: "rules",
            said: ", proved for ",
            from: None,
        };
        let tiers = bed.beside(TIERS, &["app1", "app2", "db", "cache"], &told);
        assert_eq!(numbers(&tiers.0, "count"), numbers(&tiers.1, "count"));
        fs::write(file, &without).expect("a file");
    }
    // A foreign rule above those that copy is detected at the next renewal.
    let lost = Capture::of(Command::new(BINARY), TIERS, &flags);
    bed.add_foreign_rule("leaf3", 3306);
    let lost = lost.end();
    assert!(
        lost.err
            .contains("switches no longer copy packets: switch leaf3: "),
        "{}",
        lost.err
    );
    assert_eq!(
        (lost.code, bed.copies("leaf2").as_str()),
        (Some(1), ""),
        "{}",
        lost.err
    );
    bed.remove_foreign_rule("leaf3", 3306);
    // After a kill, everything is removed automatically.
    let mut killed = Capture::of(Command::new(BINARY), TIERS, &mirrors);
    assert!(bed.copies("leaf2").contains("mirrors") && bed.copies("leaf2").contains("rules"));
    killed.kill();
    for leaf in LEAVES {
        wait_for("the end of the lease", || match bed.copies(leaf) {
            nothing if nothing.is_empty() => Ok(()),
            left => Err(left),
        });
    }
}

impl TestBed {
    /// A mode that cannot deliver everything: the answer reports it as `explain` does. Of connections that begin and
    /// end meanwhile it lacks nothing, although their bytes are not copied.
    pub(super) fn says_what_it_lacks(&self, file: &str, costs: &str) {
        fs::write(costs, CUTS).expect("a file");
        let flags = ["--network", file, "--costs", costs];
        let selective = Asked {
            flags: &flags,
            of: "rules",
            said: "the result is incomplete: connections opened before",
            from: None,
        };
        let tiers = self.beside(TIERS, &["app1", "app2", "db", "cache"], &selective);
        assert!(tiers.0.len() >= 4, "{:?}", tiers.0);
        assert_eq!(numbers(&tiers.0, "count"), numbers(&tiers.1, "count"));
        let is_whole = |row: &Value| row["lost"].is_null();
        assert!(tiers.0.iter().all(is_whole), "{:?}", tiers.0);
        let explained = Command::new(BINARY)
            .args(["explain", TIERS, "--format", "json"])
            .args(flags)
            .output();
        let explained = explained.expect("it runs");
        let plan: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
        let lacks = plan.get("lacks").cloned().unwrap_or_default();
        assert!(
            lacks.as_array().is_some_and(|lacks| !lacks.is_empty()),
            "{plan:#}"
        );
        let answer = Capture::of(Command::new(BINARY), TIERS, &flags).interrupt();
        assert_eq!(
            (answer.code, &answer.summary["lacks"]),
            (Some(0), &lacks),
            "{}",
            answer.err
        );
        for lack in lacks.as_array().expect("an array") {
            let note = format!("the result is incomplete: {}", text(lack));
            assert!(answer.err.contains(&note), "{note}\n{}", answer.err);
        }
        fs::write(costs, MIRRORS).expect("a file");
    }
}

impl TestBed {
    /// Rows of a query in the network, and those of concurrent captures at the servers, each restricted to its server.
    pub(super) fn beside(
        &self,
        query: &str,
        servers: &[&str],
        asked: &Asked<'_>,
    ) -> (Vec<Value>, Vec<Value>) {
        let addresses = fs::read_to_string(self.path("addresses")).expect("addresses");
        let address = |host: &str| {
            let name = format!("{}=", host.to_uppercase());
            addresses
                .lines()
                .find_map(|line| line.strip_prefix(&name))
                .expect("an address")
                .to_owned()
        };
        let own: Vec<(String, Capture)> = servers
            .iter()
            .map(|host| {
                let namespace = format!("{}{host}", self.prefix());
                (
                    address(host),
                    Capture::start(&namespace, query, &["-i", "eth0"]),
                )
            })
            .collect();
        let Asked {
            flags,
            of,
            said,
            from,
        } = asked;
        let program = from.map(|host| within(&format!("{}{host}", self.prefix()), BINARY));
        let asked = Capture::of(
            program.unwrap_or_else(|| Command::new(BINARY)),
            query,
            flags,
        );
        let copies = LEAVES.map(|leaf| self.copies(leaf)).concat();
        assert_eq!(copies.is_empty(), of.is_empty(), "{copies}");
        assert_eq!(
            (copies.contains("mirrors:"), copies.contains(of)),
            (*of == "mirrors", true),
            "{copies}"
        );
        self.run(&["load", "--requests", "100"], &[]);
        let mut before = 0;
        wait_for("the last packets", || {
            let now = self.bytes_of("db");
            (now == std::mem::replace(&mut before, now))
                .then_some(())
                .ok_or(format!("{now} bytes"))
        });
        let asked = asked.interrupt();
        assert_eq!(asked.code, Some(0), "{}", asked.err);
        assert!(asked.err.contains(*said), "{}", asked.err);
        for leaf in LEAVES {
            assert_eq!(self.copies(leaf), "", "{leaf}");
        }
        let mut rows = Vec::new();
        for (address, capture) in own {
            let captured = capture.interrupt();
            captured.check();
            rows.extend(
                captured
                    .rows
                    .into_iter()
                    .filter(|row| text(&row["server_ip"]) == address),
            );
        }
        (asked.rows, rows)
    }
}
