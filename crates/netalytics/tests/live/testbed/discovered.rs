//! Network files that `network discover` writes for the bed.

use super::*;

/// Hosts of the bed, probed behind all ports.
pub(super) const EVERYBODY: [&str; 6] = [
    "--addresses",
    "10.60.1.0/29",
    "--addresses",
    "10.60.2.0/29",
    "--addresses",
    "10.60.3.0/29",
];

impl TestBed {
    /// Output of `network discover` on the bed with these flags; it prints nothing, and leaves nothing on the switches.
    pub(super) fn discovered(&self, network: &NetworkSite, more: &[&str]) -> String {
        self.discovered_from(Command::new(BINARY), network, more)
    }

    /// Like `discovered`, with a command that already has the program.
    pub(super) fn discovered_from(
        &self,
        mut program: Command,
        network: &NetworkSite,
        more: &[&str],
    ) -> String {
        program
            .args(["network", "discover", "--link-mbps", "1000"])
            .args(more)
            .stdin(Stdio::null());
        for switch in &network.switches {
            let database = self.path(&format!("run/{}/db.sock", switch.name));
            program.args([
                "--switch",
                &format!("{}=unix:{}", switch.name, database.display()),
            ]);
        }
        let before = LEAVES.map(|leaf| self.rules(leaf));
        let Output {
            status,
            stdout,
            stderr,
        } = program.output().expect("it starts");
        let said = String::from_utf8_lossy(&stderr);
        assert!(status.success() && said.is_empty(), "{said}");
        assert_eq!(LEAVES.map(|leaf| self.rules(leaf)), before);
        String::from_utf8(stdout).expect("text")
    }

    /// All rules of a switch, without counters.
    pub(super) fn rules(&self, switch: &str) -> Vec<String> {
        let bridge = format!(
            "unix:{}",
            self.path(&format!("run/{switch}/br0.mgmt")).display()
        );
        let output = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow13", "--no-stats", "dump-flows", &bridge])
            .output();
        let text = String::from_utf8(output.expect("ovs-ofctl").stdout).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    /// An agent is assigned to the host that replies for its address, with its reported properties. Its server is on
    /// the same host because the connection is not encrypted.
    pub(super) fn agents_are_found(&self, network: &NetworkSite) {
        let on = || within(&format!("{}client2", self.prefix()), BINARY);
        let data = self.path("served");
        let url = "http://127.0.0.1:7979";
        let [admin, own, folder] = ["admin.token", "agent.token", "agent"]
            .map(|name| data.join(name).display().to_string());
        let _server = TestProgram::start(
            on().args(["serve", "--listen", "127.0.0.1:7979", "--data"])
                .arg(&data),
        );
        let asked = |words: &[&str]| {
            let output = on()
                .args(words)
                .args(["--server", url, "--token-file", &admin])
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                Ok(output.stdout)
            } else {
                Err(said)
            }
        };
        let token = wait_for("the server", || {
            asked(&["tokens", "create", "web-2", "--role", "agent"])
        });
        fs::write(&own, token).expect("a file");
        let _agent = TestProgram::start(on().args([
            "agent",
            "--server",
            url,
            "--token-file",
            &own,
            "--name",
            "web-2",
            "--folder",
            &folder,
        ]));
        wait_for("the agent", || {
            let listed = asked(&["agents", "--format", "jsonl"])?;
            let listed = String::from_utf8_lossy(&listed).into_owned();
            if listed.contains("10.60.1.2") {
                Ok(())
            } else {
                Err(listed)
            }
        });
        let flags = [&EVERYBODY[..], &["--server", url, "--token-file", &admin]].concat();
        let found = self.discovered_from(on(), network, &flags);
        let found = NetworkSite::parse(&found).unwrap_or_else(|why| panic!("{why:?}\n{found}"));
        let host = found
            .hosts
            .iter()
            .find(|host| host.name == "web-2")
            .expect("the agent's host");
        let said = (
            host.addresses[0].to_string(),
            host.at.port,
            host.starts.agent.as_deref(),
            host.interface.as_deref(),
        );
        assert_eq!(
            said,
            ("10.60.1.2".to_owned(), 2, Some("web-2"), Some("eth0"))
        );
        assert_eq!(
            (found.hosts.len(), host.has.cores_used),
            (network.hosts.len(), 0.0)
        );
    }

    /// The discovered network equals the bed's own file; with the owner's additions, plans are equal.
    pub(super) fn is_found(&self, network: &str) {
        let site = NetworkSite::parse(network).expect("the bed's file");
        let of = |text: &str| {
            let site = NetworkSite::parse(text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
            let switch = |switch: &planner::topology::SiteSwitch| format!("{switch:?}");
            let host = |host: &planner::topology::SiteHost| {
                format!(
                    "{} {:?} {:?} {}",
                    host.name, host.addresses, host.at, host.has.mbps
                )
            };
            let mut all = [
                site.switches.iter().map(switch).collect::<Vec<_>>(),
                site.hosts.iter().map(host).collect(),
                site.links.iter().map(|link| format!("{link:?}")).collect(),
            ];
            all.iter_mut().for_each(|of| of.sort_unstable());
            all
        };
        assert_eq!(of(&self.discovered(&site, &EVERYBODY)), of(network));
        // The owner's file with wrong ports and missing links.
        let wrong = network
            .replace("\"leaf1:1\"", "\"leaf1:x\"")
            .replace("\"leaf1:4\"", "\"leaf1:1\"");
        let wrong = wrong.replace("\"leaf1:x\"", "\"leaf1:4\"");
        let [owners, asked] = ["owners.toml", "found.toml"].map(|name| self.path(name));
        fs::write(
            &owners,
            wrong.split("\n[[link]]").next().expect("a beginning"),
        )
        .expect("a file");
        let found = self.discovered(&site, &["--into", owners.to_str().expect("text")]);
        assert_eq!(of(&found), of(network));
        fs::write(&asked, found).expect("a file");
        fs::write(&owners, network).expect("a file");
        let plan = |file: &Path| {
            let flags = [
                "explain",
                TIERS,
                "--format",
                "json",
                "--network",
                file.to_str().expect("text"),
            ];
            let output = Command::new(BINARY)
                .args(flags)
                .output()
                .expect("it starts");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).expect("text")
        };
        assert_eq!(plan(&asked), plan(&owners));
        [owners, asked]
            .iter()
            .for_each(|path| fs::remove_file(path).expect("it exists"));
    }
}
