//! The arithmetic compared with a graph; contents and errors of network files.

use super::graph::TreeGraph;
use super::*;

const HOST: HostResources = HostResources {
    cores: 8.0,
    cores_used: 0.5,
    memory_gb: 16.0,
    memory_used: 0.25,
    mbps: 1000.0,
};

fn fat_tree(k: usize) -> TreeNetwork {
    FatTree {
        k,
        link_mbps: 1000.0,
    }
    .network(|| HOST)
    .expect("a fat tree")
}

#[test]
fn ways_are_those_of_the_graph() {
    for k in [2, 4, 6] {
        let network = fat_tree(k);
        let graph = TreeGraph::fat_tree(k);
        let hosts = network.all_hosts();
        assert_eq!(hosts.len(), k * k * k / 4);
        for from in hosts.clone() {
            for to in hosts.clone() {
                let distance = network.distance(from, to);
                let way = graph.way(from as usize, to as usize);
                assert_eq!(distance.hops() as usize, way.len(), "k={k}: {from} to {to}");
                for class in LINK_CLASSES {
                    let crossed = way.iter().filter(|other| **other == class).count();
                    assert_eq!(
                        distance.crossed(class) as usize,
                        crossed,
                        "k={k}: {from} to {to}"
                    );
                }
            }
        }
    }
}

#[test]
fn shapes_have_the_sizes_of_the_papers() {
    let sizes = |network: &TreeNetwork| (network.pods(), network.racks(), network.hosts().len());
    assert_eq!(sizes(&fat_tree(16)), (16, 128, 1024));
    assert_eq!(sizes(&fat_tree(48)), (48, 1152, 27_648));
    assert_eq!(
        (fat_tree(16).rack_up(3), fat_tree(16).pod_up(3)),
        (8_000.0, 64_000.0)
    );
    let leaf_spine = LeafSpine {
        leaves: 3,
        spines: 2,
        hosts: 4,
        link_mbps: 40.0,
    }
    .network(|| HOST)
    .expect("one");
    assert_eq!(
        (sizes(&leaf_spine), leaf_spine.rack_up(2)),
        ((1, 3, 12), 80.0)
    );
    assert_eq!(
        (leaf_spine.distance(0, 3), leaf_spine.distance(0, 4)),
        (HostDistance::SameRack, HostDistance::SamePod)
    );
}

#[test]
fn invalid_networks_are_rejected() {
    let of = |k| FatTree { k, link_mbps: 1.0 }.network(|| HOST).map(|_| ());
    for k in [0, 1, 5, K_MAX + 2] {
        assert_eq!(of(k), Err(TopologyError::K(k)));
    }
    let empty = LeafSpine {
        leaves: 3,
        spines: 2,
        hosts: 0,
        link_mbps: 1.0,
    };
    assert_eq!(
        empty.network(|| HOST).map(|_| ()),
        Err(TopologyError::NoHost)
    );
    let racks = LeafSpine {
        leaves: RACKS_MAX + 1,
        spines: 1,
        hosts: 1,
        link_mbps: 1.0,
    };
    assert_eq!(
        racks.network(|| HOST).map(|_| ()),
        Err(TopologyError::Racks(RACKS_MAX + 1))
    );
}

#[test]
fn links_carry_at_most_their_capacity() {
    let network = fat_tree(4);
    let mut load = NetworkLoad::new(&network);
    // Two hosts per rack, two racks per pod; a rack's upward capacity is 2000, a host's 1000.
    assert!(load.carries(0, 2, 1000.0) && !load.carries(0, 2, 1001.0));
    load.carry(0, 2, 900.0);
    assert!(load.carries(1, 3, 1000.0), "others of the rack");
    assert!(
        !load.carries(0, 15, 101.0),
        "the first host has sent nearly all it can"
    );
    assert!(load.carries(2, 0, 1000.0), "the other way");
    assert!(load.carries(0, 0, 1e9), "what stays on the host");
    let need = ProcessNeed {
        cores: 3.0,
        memory_gb: 4.0,
        mirrored_mbps: 600.0,
    };
    assert!(
        load.bears(
            2,
            &ProcessNeed {
                mirrored_mbps: 100.0,
                ..need
            }
        ) && !load.bears(2, &need),
        "its link is nearly full"
    );
    assert_eq!(
        load.least_used(0..2, |host| load.bears(host, &need)),
        Some(0)
    );
    load.place(0, &need);
    assert_eq!(
        load.least_used(0..2, |host| load.bears(host, &need)),
        Some(1)
    );
    load.place(1, &need);
    assert_eq!(load.least_used(0..2, |host| load.bears(host, &need)), None);
    load.remove(0, &need);
    assert_eq!(load.used(0), 0.5);
}

/// Two pods with two racks and one rack; spines.
const FILE: &str = r#"
[[switch]]
name = "leaf1"
tier = "edge"
bridge = "br0"
ovsdb = "unix:/run/leaf1/db.sock"

[[switch]]
name = "spine1"
tier = "aggregation"
controller = "http://127.0.0.1:8081"
controller_token = "/run/sdn.token"
datapath = "0000000000000002"
forwarding = "controller"

[[switch]]
name = "leaf2"
tier = "edge"

[[switch]]
name = "far"
tier = "edge"

[[switch]]
name = "spine2"
tier = "aggregation"

[[switch]]
name = "top"
tier = "core"

[[host]]
name = "db1"
addresses = ["10.0.2.2", "fd00::2"]
at = "leaf2:1"
cores = 8
memory = "16GiB"
used = 0.5
mbps = 1000

[[host]]
name = "web1"
addresses = ["10.0.1.2"]
at = "leaf1:3"
cores = 4.5
memory = "64GB"
agent = "web1"
mbps = 10000

[[link]]
ends = ["spine1:1", "leaf1:49"]
mbps = 40000
[[link]]
ends = ["leaf2:49", "spine1:2"]
mbps = 40000
[[link]]
ends = ["far:49", "spine2:1"]
mbps = 10000
[[link]]
ends = ["spine1:9", "top:1"]
mbps = 100
[[link]]
ends = ["spine2:9", "top:2"]
mbps = 200
"#;

#[test]
fn files_describe_the_network() {
    let site = NetworkSite::parse(FILE).expect("a file");
    let network = site.network().expect("a network");
    // Hosts are ordered by rack, not as in the file.
    let names: Vec<&str> = site.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["web1", "db1"]);
    assert_eq!((network.pods(), network.racks()), (2, 3));
    assert_eq!(
        (network.rack_up(0), network.pod_up(0), network.pod_up(1)),
        (40_000.0, 100.0, 200.0)
    );
    assert_eq!(network.hosts_of(2), 2..2, "a rack without hosts");
    assert_eq!(network.distance(0, 1), HostDistance::SamePod);
    assert_eq!(
        site.host_at("fd00::2".parse().expect("an address")),
        Some(1)
    );
    assert_eq!(
        (
            site.switch_of(0).name.as_str(),
            site.switch_of(2).name.as_str()
        ),
        ("leaf1", "far")
    );
    let has = network.hosts()[1];
    assert_eq!(
        (has.cores, has.cores_used, has.memory_used, has.mbps),
        (8.0, 0.5, 0.5, 1000.0)
    );
    assert!((has.memory_gb - 17.18).abs() < 0.01, "{}", has.memory_gb);
    assert_eq!(network.hosts()[0].cores_used, 0.0);
    let url = "http://127.0.0.1:8081".into();
    let datapath = "0000000000000002".into();
    let reached = SwitchAccess::Controller {
        url,
        datapath,
        token_file: Some("/run/sdn.token".into()),
    };
    assert_eq!(
        (&site.switches[1].reached, site.switches[1].forwarding),
        (&reached, ForwardingMode::Controller)
    );
    assert_eq!(
        (&site.switches[2].reached, site.switches[2].forwarding),
        (&SwitchAccess::Not, ForwardingMode::Normal)
    );
    assert_eq!(site.hosts[0].starts.agent.as_deref(), Some("web1"));
}

#[test]
fn spines_may_be_called_core() {
    let text = FILE
        .replace("aggregation", "core")
        .replace("\"core\"\n\n[[host]]", "\"edge\"\n\n[[host]]");
    let text = text
        .split("[[link]]\nends = [\"spine1:9\"")
        .next()
        .expect("a beginning");
    let network = NetworkSite::parse(text)
        .expect("a file")
        .network()
        .expect("a network");
    assert_eq!(network.distance(0, 1), HostDistance::SamePod);
}

/// The file with `from` replaced, and the line of the replacement.
fn changed(from: &str, to: &str) -> (String, usize) {
    let at = FILE.find(from).expect(from);
    (
        FILE.replacen(from, to, 1),
        FILE[..at].matches('\n').count() + 1,
    )
}

#[test]
fn file_errors_are_reported_with_their_line() {
    let check = |from: &str, to: &str, expected: &str| {
        let (text, line) = changed(from, to);
        let errors = NetworkSite::parse(&text).expect_err(to);
        assert_eq!(errors[0].to_string(), format!("line {line}: {expected}"));
        assert_eq!(errors.len(), 1, "{errors:?}");
    };
    let known = "leaf1, spine1, leaf2, far, spine2, top";
    check(
        "at = \"leaf2:1\"",
        "at = \"leaf9:1\"",
        &format!("unknown switch \"leaf9\"; known switches: {known}"),
    );
    check(
        "at = \"leaf2:1\"",
        "at = \"leaf2\"",
        "\"leaf2\" is not a port such as leaf1:3: a switch and an OpenFlow port number",
    );
    check(
        "at = \"leaf2:1\"",
        "at = \"spine1:7\"",
        "hosts must be on edge switches, which \"spine1\" is not",
    );
    check(
        "\"leaf2:49\"",
        "\"leaf1:3\"",
        "port leaf1:3 is already used by host \"web1\"",
    );
    check(
        "\"spine1:2\"",
        "\"leaf1:48\"",
        "a link must connect two tiers: edge, aggregation, core",
    );
    check(
        "\"16GiB\"",
        "\"lots\"",
        "\"lots\" is not a memory size such as 16GiB or 64GB",
    );
    check(
        "used = 0.5",
        "used = 50",
        "used must be a share from 0 to 1, not 50",
    );
    check(
        "cores = 8",
        "cores = 0",
        "cores must be a number above 0, not 0",
    );
    check(
        "mbps = 1000\n",
        "mbps = nan\n",
        "mbps must be a number above 0, not NaN",
    );
    check(
        "\"10.0.1.2\"",
        "\"10.0.2.2\"",
        "address 10.0.2.2 is already used by host \"db1\"",
    );
    check("\"10.0.1.2\"", "\"web1\"", "\"web1\" is not an address");
    check(
        "name = \"web1\"",
        "name = \"db1\"",
        "host \"db1\" is defined twice",
    );
    check(
        "name = \"far\"",
        "name = \"far\"\nbridge = \"b\"\ndatapath = \"1\"",
        "switch \"far\" needs both controller and datapath",
    );
    check(
        "name = \"far\"",
        "tunnel = \"far\"\nname = \"far\"",
        "\"far\" is not an address, vxlan://ADDRESS or gre://ADDRESS",
    );
    check(
        "name = \"far\"",
        "tunnel = \"stt://10.0.0.1\"\nname = \"far\"",
        "\"stt://10.0.0.1\" is not an address, vxlan://ADDRESS or gre://ADDRESS",
    );
    check(
        "name = \"far\"",
        "name = \"far\"\novsdb = \"o\"\ncontroller = \"c\"",
        "switch \"far\" has ovsdb and must not have controller or datapath",
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = FILE
        .replace("name = \"leaf2\"", "name = \"leaf1\"")
        .replace("used = 0.5", "used = -1");
    let errors = NetworkSite::parse(&text).expect_err("two mistakes");
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(
        said[0].contains("switch \"leaf1\" is defined twice"),
        "{said:#?}"
    );
    assert_eq!(
        said.iter()
            .filter(|said| said.contains("unknown switch \"leaf2\""))
            .count(),
        2,
        "{said:#?}"
    );
    assert!(
        said.iter().any(|said| said.contains("not -1")) && errors.is_sorted_by_key(|e| e.line),
        "{said:#?}"
    );
}

#[test]
fn toml_errors_are_reported_with_their_line() {
    for (from, to, word) in [
        ("tier = \"core\"", "tier = \"spine\"", "aggregation"),
        ("cores = 8", "core = 8", "core"),
        ("mbps = 100\n", "mbps = = 100\n", "="),
    ] {
        let (text, line) = changed(from, to);
        let said = NetworkSite::parse(&text).expect_err(to)[0].to_string();
        assert!(
            said.starts_with(&format!("line {line}: ")) && said.contains(word),
            "{said}"
        );
    }
    assert!(
        NetworkSite::parse("").expect("a file").network().is_err(),
        "no host"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_panic(text in "(\\[\\[(switch|host|link)\\]\\]\n|(name|tier|at|ends|mbps|cores|memory) = [\"a:1\\]\\[0-9]{0,8}\n){0,12}") {
        if let Ok(site) = NetworkSite::parse(&text) {
            let _ = site.network();
        }
    }
}
