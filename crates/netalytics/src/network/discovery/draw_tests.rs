//! Generated files are parsed as networks.

use planner::topology::{ForwardingMode, NetworkSite, SwitchAccess};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A switch with ports of these names, numbered from 1.
fn switch(name: &str, ports: &[&str], rule: &str) -> DiscoveredSwitch {
    let port = |(i, name): (usize, &&str)| {
        let of = steer::PortDescription {
            name: (*name).to_owned(),
            mbps: Some(10_000.0),
            is_up: true,
            ..steer::PortDescription::default()
        };
        (i as u32 + 1, of)
    };
    DiscoveredSwitch {
        name: name.to_owned(),
        told: SwitchControl::Database(format!("unix:/run/{name}/db.sock")),
        bridge: "br0".to_owned(),
        described: SwitchDescription {
            datapath: "0000000000000001".to_owned(),
            ports: ports.iter().enumerate().map(port).collect(),
            ..SwitchDescription::default()
        },
        rules: mirror::openflow::read_dump(rule).expect("rules"),
        via: None,
    }
}

/// Two leaves, each with a host and an empty port, and a spine.
fn world(before: &str) -> DiscoveredNetwork {
    let mut switches = vec![
        switch("leaf1", &["web", "eth9", "up"], "priority=0,actions=NORMAL"),
        switch(
            "leaf2",
            &["db", "eth9", "up"],
            "table=0,priority=0,actions=resubmit(,10)\ntable=10,actions=output:3",
        ),
        switch("spine1", &["a", "b"], "priority=0,actions=NORMAL"),
    ];
    switches[0].described.addresses = vec![ip("10.0.0.200")];
    let answers = |address: &str, mac: &str| {
        [(address.parse().expect("an address"), mac.to_owned())]
            .into_iter()
            .collect::<BTreeMap<_, _>>()
    };
    DiscoveredNetwork {
        switches,
        found: DiscoveredLinks {
            cables: vec![[(0, 3), (2, 1)], [(1, 3), (2, 2)]],
            unclear: BTreeSet::new(),
            answers: [
                ((0, 1), answers("10.0.0.1", "02::1")),
                ((1, 1), answers("10.0.0.2", "02::2")),
            ]
            .into(),
        },
        agents: Vec::new(),
        names: HashMap::new(),
        link_mbps: None,
        via: BTreeMap::new(),
        before: NetworkFileDraft::read(before),
    }
}

fn site(world: &DiscoveredNetwork) -> (NetworkSite, Vec<String>) {
    let (draft, notes) = draw(world);
    let text = draft.print();
    (
        NetworkSite::parse(&text).unwrap_or_else(|why| panic!("{why:?}\n{text}")),
        notes,
    )
}

#[test]
fn networks_are_drawn_as_discovered() {
    let mut world = world("");
    world.switches[0].via = Some(Vec::new());
    let (site, notes) = site(&world);
    let hosts: Vec<(&str, IpAddr, u32)> = site
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.addresses[0], host.at.port))
        .collect();
    assert_eq!(
        hosts,
        [("web", ip("10.0.0.1"), 1), ("db", ip("10.0.0.2"), 1)]
    );
    assert_eq!(
        (site.links.len(), site.links[0].mbps, site.pods.len()),
        (2, 10_000.0, 1)
    );
    let free = site.hosts[0].has;
    assert_eq!(
        free.cores * (1.0 - free.cores_used),
        0.0,
        "what is not known is not taken"
    );
    let [leaf1, leaf2, spine] = &site.switches[..] else {
        panic!("three switches")
    };
    assert_eq!(
        (leaf1.forwarding, leaf2.forwarding),
        (ForwardingMode::Normal, ForwardingMode::Controller)
    );
    assert_eq!(
        (leaf2.first_table, leaf1.tunnel),
        (planner::topology::FirstTable::Free, Some(ip("10.0.0.200")))
    );
    assert_eq!(
        leaf1
            .sniffer
            .as_ref()
            .and_then(|own| own.starts.via.clone()),
        Some(Vec::new())
    );
    assert_eq!(
        (spine.tier, leaf2.tier),
        (
            planner::topology::SwitchTier::Core,
            planner::topology::SwitchTier::Edge
        )
    );
    assert_eq!(
        spine.reached,
        SwitchAccess::Ovsdb("unix:/run/spine1/db.sock".to_owned())
    );
    assert_eq!(
        notes,
        [
            "no known host at ports 2 (eth9) of leaf1",
            "no known host at ports 2 (eth9) of leaf2"
        ]
    );
}

/// Without known hosts, empty ports determine the tiers.
#[test]
fn tiers_are_known_without_hosts() {
    let mut world = world("");
    world.found.answers.clear();
    let (site, notes) = site(&world);
    assert_eq!(
        (site.links.len(), site.switches[2].tier),
        (2, planner::topology::SwitchTier::Core)
    );
    assert_eq!(
        notes[0],
        "no known host at ports 1 (web), 2 (eth9) of leaf1"
    );
}

#[test]
fn agents_are_hosts_or_on_switches() {
    let agent = |name: &str, addresses: &[&str]| DiscoveredAgent {
        name: name.to_owned(),
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        interfaces: vec!["lo".to_owned(), "eth0".to_owned()],
        cores: 8,
        memory: 16 << 30,
    };
    let mut world = world("");
    world.agents = vec![
        agent("web-1", &["10.0.0.1", "fd00::1"]),
        agent("far", &["10.9.9.9"]),
        agent("on-leaf1", &["10.0.0.200"]),
    ];
    let (site, notes) = site(&world);
    let web = &site.hosts[0];
    assert_eq!(
        (
            web.name.as_str(),
            web.addresses.len(),
            web.interface.as_deref()
        ),
        ("web-1", 2, Some("eth0"))
    );
    assert_eq!((web.has.cores, web.has.cores_used), (8.0, 0.0));
    let own = site.switches[0].sniffer.as_ref().expect("an agent there");
    assert_eq!(
        (own.starts.agent.as_deref(), own.has.cores),
        (Some("on-leaf1"), 8.0)
    );
    assert!(
        notes[0].starts_with("agent far is not behind a port"),
        "{notes:?}"
    );
    // Discovered first without, then with its agent.
    let agents = std::mem::take(&mut world.agents);
    world.before = NetworkFileDraft::read(&draw(&world).0.print());
    assert_eq!(self::site(&world).0.hosts[0].has.cores_used, 1.0);
    world.agents = agents;
    let has = self::site(&world).0.hosts[0].has;
    assert_eq!(
        (has.cores, has.cores_used, has.memory_used),
        (8.0, 0.0, 0.0)
    );
    // The owner's value of `used` is kept.
    world.before.hosts[0].set("used", 0.5);
    assert_eq!(self::site(&world).0.hosts[0].has.cores_used, 0.5);
}

#[test]
fn manual_entries_are_preserved() {
    let before = "[[switch]]\nname = \"leaf1\"\ntier = \"edge\"\ncontroller = \"http://x\"\ndatapath = \"1\"\nvia = [\"ssh\", \"leaf1\"]\ntunnel = \"10.9.0.1\"\n\
        [[switch]]\nname = \"spine1\"\ntier = \"aggregation\"\n\
        [[switch]]\nname = \"leaf2\"\ntier = \"edge\"\n[[switch]]\nname = \"old\"\ntier = \"edge\"\n\
        [[host]]\nname = \"shop\"\naddresses = [\"10.0.0.1\", \"fd00::9\"]\nat = \"old:7\"\ncores = 4\nmemory = \"8GiB\"\nspare = true\nmbps = 100\n\
        [[host]]\nname = \"asleep\"\nat = \"leaf1:2\"\ncores = 4\nmemory = \"8GiB\"\nmbps = 100\n\
        [[host]]\nname = \"gone\"\nat = \"leaf2:3\"\ncores = 4\nmemory = \"8GiB\"\nmbps = 100\n\
        [[host]]\nname = \"web\"\nat = \"old:8\"\ncores = 4\nmemory = \"8GiB\"\nmbps = 100\n\
        [[link]]\nends = [\"spine1:1\", \"leaf1:3\"]\nmbps = 40000\n\
        [[link]]\nends = [\"spine1:9\", \"old:3\"]\nmbps = 40\n\
        [[link]]\nends = [\"spine1:7\", \"leaf1:4\"]\nmbps = 40\n\
        [[traffic]]\nto = \"*:80\"\nmbps = 3\n";
    NetworkSite::parse(before).expect("a file");
    let mut world = world(before);
    world.names = [(ip("10.0.0.2"), "web".to_owned())].into();
    let (site, notes) = site(&world);
    let host = |name: &str| {
        site.hosts
            .iter()
            .find(|host| host.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let shop = host("shop");
    assert_eq!(
        (
            shop.at.port,
            shop.spare,
            shop.addresses.len(),
            shop.has.mbps
        ),
        (1, true, 2, 100.0)
    );
    assert_eq!(site.switches[shop.at.switch].name, "leaf1");
    assert_eq!(
        (
            host("asleep").at.port,
            host("web").at.port,
            host("web at leaf2:1").addresses.len()
        ),
        (2, 8, 1)
    );
    assert!(site.hosts.iter().all(|host| host.name != "gone"));
    assert_eq!(
        site.switches[0]
            .sniffer
            .as_ref()
            .and_then(|own| own.starts.via.clone())
            .expect("words"),
        ["ssh", "leaf1"]
    );
    assert!(matches!(site.switches[0].reached, SwitchAccess::Ovsdb(_)));
    assert_eq!(site.switches[0].tunnel, Some(ip("10.9.0.1")));
    let mut mbps: Vec<f64> = site.links.iter().map(|link| link.mbps).collect();
    mbps.sort_by(f64::total_cmp);
    assert_eq!(
        (mbps, site.expected.len()),
        (vec![40.0, 10_000.0, 40_000.0], 1)
    );
    for said in [
        "asleep was not found; it stays at leaf1:2",
        "gone was not found, and leaf2:3 belongs to another host",
        "the link spine1:7 – leaf1:4 no longer exists",
    ] {
        assert!(
            notes.iter().any(|note| note.starts_with(said)),
            "{said}: {notes:#?}"
        );
    }
}

#[test]
fn ambiguous_discoveries_are_reported() {
    let mut world = world("");
    // A link between both leaves, a host at the spine, an address at two ports, two machines at one port.
    world.switches[2].described.ports.insert(
        5,
        steer::PortDescription {
            name: "c".to_owned(),
            is_up: true,
            ..Default::default()
        },
    );
    let answer = |address: &str, mac: &str| (address.parse().expect("an address"), mac.to_owned());
    world
        .found
        .answers
        .insert((2, 5), [answer("10.0.0.5", "02::5")].into());
    world
        .found
        .answers
        .get_mut(&(0, 1))
        .expect("a host")
        .extend([answer("10.0.0.9", "02::9"), answer("10.0.0.2", "02::2")]);
    let (site, notes) = site(&world);
    assert_eq!(
        (site.hosts.len(), site.links.len()),
        (3, 0),
        "the spine is an edge"
    );
    for said in [
        "10.0.0.2 answers at leaf1:1 and leaf2:1",
        "leaf1:3 and spine1:1 are linked, and both switches are of one tier",
        "3 machines are behind leaf1:1",
        "the capacity of the link of c is unknown",
        "db at leaf2:1 has no known address",
    ] {
        assert!(
            notes.iter().any(|note| note.starts_with(said)),
            "{said}: {notes:#?}"
        );
    }
}
