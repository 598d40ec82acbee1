//! Golden plans of a small network, and differences between them: texts in `tests/`, rewritten by `BLESS=1 cargo test
//! -p planner physical`.

use std::fs;
use std::path::PathBuf;

use mirror::MirrorMode;
use plan::NetworkBudget;

use super::*;
use crate::lower;
use crate::topology::{ExpectedTraffic, NetworkSite, SitePort};

mod exports;

const SITE: &str = include_str!("tests/network.toml");

/// The same network without programs on switches.
fn without_sniffers() -> String {
    SITE.lines()
        .filter(|line| !line.ends_with("# of the switch"))
        .map(|line| format!("{line}\n"))
        .collect()
}

struct PlanTestCase {
    site: String,
    expected: Vec<ExpectedTraffic>,
    costs: PlanCosts,
    exact: bool,
    aggregate: AggregatorMode,
    budget: NetworkBudget,
    mode: NetworkMode,
    sampling: Option<u32>,
    occupied: Vec<OccupiedSlot>,
}

impl PlanTestCase {
    fn new(site: &str) -> PlanTestCase {
        PlanTestCase {
            site: site.to_owned(),
            expected: Vec::new(),
            costs: PlanCosts::default(),
            exact: false,
            aggregate: AggregatorMode::Auto,
            budget: NetworkBudget::default(),
            mode: NetworkMode::Auto,
            sampling: None,
            occupied: Vec::new(),
        }
    }

    fn plan(&self, query: &str) -> Result<PhysicalPlan, PlanningError> {
        let checked = query::check(query, &parsers::registry::schemas(), &())
            .unwrap_or_else(|e| panic!("{}", query::render(&e, query)));
        let plan = lower(&checked);
        let site = NetworkSite::parse(&self.site).unwrap_or_else(|e| panic!("{e:?}"));
        let ask = PlanRequest {
            plan: &plan,
            site: &site,
            expected: &self.expected,
            costs: &self.costs,
            exact: self.exact,
            aggregate: self.aggregate,
            budget: self.budget,
            mode: self.mode,
            sampling: self.sampling,
            occupied: &self.occupied,
            seed: 1,
        };
        physical(&ask)
    }
}

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/physical/tests")
        .join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).expect("a golden file");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text,
        kept,
        "{} differs; BLESS=1 writes it anew",
        path.display()
    );
}

const CONNECTIONS: &str = "PARSE tcp_conn_time TO 10.60.2.0/24:8000, 10.60.3.1:3306 PROCESS (diff-group: group=srcIP, destIP)";
const PAGES: &str = "PARSE http TO 10.60.1.3:80 PROCESS (group-count: group=path)";
const STATEMENTS: &str = "PARSE mysql_query PROCESS (group-count: group=client_ip)";

#[test]
fn plans_are_these() {
    let with = PlanTestCase::new(SITE);
    let without = PlanTestCase::new(&without_sniffers());
    let of = |case: &PlanTestCase, query| {
        to_text(&case.plan(query).unwrap_or_else(|why| panic!("{why}")))
    };
    let much = vec![ExpectedTraffic::parse("10.60.2.0/24:8000=600Mbps").expect("traffic")];
    let busy = PlanTestCase {
        expected: much.clone(),
        ..PlanTestCase::new(&without_sniffers())
    };
    golden("sniffers", &of(&with, CONNECTIONS));
    golden("selective", &of(&busy, CONNECTIONS));
    golden("pages", &of(&without, PAGES));
    golden("any", &of(&without, STATEMENTS));
    let exact = PlanTestCase {
        exact: true,
        expected: much,
        ..PlanTestCase::new(&without_sniffers())
    };
    golden(
        "exact-difference",
        &difference(&of(&busy, CONNECTIONS), &of(&exact, CONNECTIONS)),
    );
    golden(
        "sniffers-difference",
        &difference(&of(&without, PAGES), &of(&with, PAGES)),
    );
    let json = to_json(&without.plan(PAGES).expect("a plan"));
    golden(
        "pages-json",
        &format!("{}\n", serde_json::to_string_pretty(&json).expect("json")),
    );
}

/// The same network with the second and third leaf in one pod, and the first in another.
fn with_pods(text: &str) -> String {
    let (hosts, _) = text.split_once("[[link]]").expect("links");
    let switches = ["aggregation1", "aggregation2"]
        .map(|name| format!("[[switch]]\nname = \"{name}\"\ntier = \"aggregation\"\n\n"))
        .concat();
    let links = [
        ("leaf1:49", "aggregation1:1"),
        ("leaf2:49", "aggregation2:1"),
        ("leaf3:49", "aggregation2:2"),
        ("aggregation1:49", "spine1:1"),
        ("aggregation2:49", "spine1:2"),
    ];
    let links = links
        .map(|(a, b)| format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nmbps = 10000\n\n"))
        .concat();
    let (_, traffic) = text.split_once("[[traffic]]").expect("traffic");
    format!("{switches}{hosts}{links}[[traffic]]{traffic}")
}

/// Two monitors of a pod have an aggregator on a spare host of the pod if links above carry less, or on request.
#[test]
fn monitors_of_a_pod_have_an_aggregator() {
    let pods = with_pods(SITE);
    let plan = |site: &str, aggregate, query: &str| {
        PlanTestCase {
            aggregate,
            ..PlanTestCase::new(site)
        }
        .plan(query)
        .unwrap_or_else(|why| panic!("{why}"))
    };
    let with = plan(&pods, AggregatorMode::Auto, CONNECTIONS);
    let [part] = with.aggregators.as_slice() else {
        panic!("{:?}", with.aggregators)
    };
    assert_eq!(
        (
            part.name.as_str(),
            &part.monitors,
            with.members(part).as_str()
        ),
        ("spare2", &vec![0, 1], "leaf2, leaf3")
    );
    assert!(
        (part.in_mbps - 2.0 * part.out_mbps).abs() < 1e-12 && part.saved_mbps() > 0.0,
        "{part:?}"
    );
    let without = plan(&pods, AggregatorMode::Never, CONNECTIONS);
    assert_eq!(
        (without.aggregators.as_slice(), &without.unaggregated),
        (&[][..], &None)
    );
    golden(
        "aggregated-difference",
        &difference(&to_text(&without), &to_text(&with)),
    );
    let json = to_json(&with);
    assert_eq!(json["aggregators"][0]["host"], "spare2");
    assert_eq!(to_json(&without).get("aggregators"), None);
    let svg = to_svg(&with, &NetworkSite::parse(&pods).expect("a site"));
    for word in ["aggregator</text>", "aggregated</text>", "on spare2"] {
        assert!(svg.contains(word), "{word}");
    }
    // If all monitors are on hosts, the aggregator is on one of them.
    let copied = plan(
        &with_pods(&without_sniffers()),
        AggregatorMode::Auto,
        CONNECTIONS,
    );
    assert_eq!(
        (
            copied.aggregators[0].name.as_str(),
            copied.members(&copied.aggregators[0]).as_str()
        ),
        ("spare2", "spare2, spare3")
    );
    // A leaf-spine network is one pod without links above it.
    assert_eq!(
        plan(SITE, AggregatorMode::Auto, CONNECTIONS).aggregators,
        []
    );
    assert_eq!(
        plan(SITE, AggregatorMode::Always, CONNECTIONS)
            .aggregators
            .len(),
        1
    );
    let none = |site: &str, aggregate, query: &str, why: &str| {
        let plan = plan(site, aggregate, query);
        assert_eq!(plan.aggregators, []);
        assert!(
            plan.unaggregated
                .as_ref()
                .is_some_and(|told| told.contains(why)),
            "{:?}",
            plan.unaggregated
        );
        assert!(to_text(&plan).contains(why) && to_json(&plan)["not_aggregated"].is_string());
    };
    none(
        &pods,
        AggregatorMode::Always,
        PAGES,
        "no pod has two monitors",
    );
    none(
        &pods,
        AggregatorMode::Auto,
        "PARSE tcp_conn_time TO 10.60.2.0/24:8000, 10.60.3.1:3306",
        "the result is tuples",
    );
    let sampled = CONNECTIONS.replace(" PROCESS", " SAMPLE auto PROCESS");
    none(&pods, AggregatorMode::Auto, &sampled, "with SAMPLE auto");
    none(
        &pods.replace("via = [\"ssh\", \"spare", "agent = \"a\" # "),
        AggregatorMode::Auto,
        CONNECTIONS,
        "no spare host",
    );
}

#[test]
fn a_switch_with_a_free_table_copies_in_it() {
    let text = without_sniffers().replace(
        "forwarding = \"normal\"",
        "forwarding = \"controller\"\nfirst_table = \"free\"",
    );
    let plan = PlanTestCase::new(&text).plan(CONNECTIONS).expect("a plan");
    let rules: Vec<String> = plan.switches[0]
        .rules
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        rules.iter().any(|rule| rule.ends_with("resubmit(,10)")),
        "{rules:#?}"
    );
    assert!(matches!(plan.proof, CopyProof::Holds(1..)));
}

/// Any number of hosts per leaf: rules next to a controller's name each host.
#[test]
fn networks_of_a_controller_are_proved_with_any_number_of_hosts() {
    let controlled =
        without_sniffers().replace("forwarding = \"normal\"", "forwarding = \"controller\"");
    for more in [0, 1, 3, 12] {
        let host = |n: u32| {
            format!(
                "\n[[host]]\nname = \"more{n}\"\naddresses = [\"10.60.1.{n}\"]\nat = \"leaf1:{n}\"\ncores = 1\nmemory = \"1GiB\"\nused = 1.0\nmbps = 100\n"
            )
        };
        let text = controlled.clone() + &(20..20 + more).map(host).collect::<String>();
        for query in [CONNECTIONS, PAGES] {
            let plan = PlanTestCase {
                exact: true,
                ..PlanTestCase::new(&text)
            }
            .plan(query)
            .unwrap_or_else(|why| panic!("{why}"));
            assert!(
                matches!(plan.proof, CopyProof::Holds(1..)),
                "{more}: {:?}",
                plan.proof
            );
        }
    }
}

/// A monitor needs CPU time at low packet rates: 1,500 packets/s took 0.007 cores; 0.0013 were predicted.
#[test]
fn a_monitor_takes_something_while_nothing_comes() {
    let case = PlanTestCase {
        expected: vec![ExpectedTraffic::parse("10.60.1.3:80=7.2Mbps").expect("traffic")],
        ..PlanTestCase::new(SITE)
    };
    let cores = case.plan(PAGES).expect("a plan").monitors[0].cores;
    assert!((0.0035..0.014).contains(&cores), "{cores}");
}

/// With a switch on this machine, requested traffic is copied to an interface if far more passes the ports.
#[test]
fn copies_go_to_an_interface_of_this_machine() {
    let check = |via: &str, way| {
        let traffic = ["10.60.1.3:80=8Mbps", "10.60.1.3:81=500Mbps"];
        let expected = traffic
            .map(|text| ExpectedTraffic::parse(text).expect("traffic"))
            .to_vec();
        let site = SITE.replace("via = [\"ssh\", \"leaf1\"]", via);
        let plan = PlanTestCase {
            expected,
            ..PlanTestCase::new(&site)
        }
        .plan(PAGES)
        .expect("a plan");
        assert_eq!(
            (
                plan.switches[0].way,
                plan.monitors[0].place == MonitorPlace::Switch(0)
            ),
            way
        );
        plan
    };
    check(
        "via = [\"ssh\", \"leaf1\"]",
        (PacketPath::Rules { port: 4 }, false),
    );
    let plan = check("via = []", (PacketPath::Interface, true));
    assert_eq!(
        plan.taken.copied.0.iter().sum::<f64>(),
        0.0,
        "no link has them"
    );
    assert!(matches!(plan.proof, CopyProof::Holds(1..)));
    let text = to_text(&plan);
    assert!(
        text.contains("3 rules, copies to a new interface (65279 here)"),
        "{text}"
    );
}

/// The network with tunnels between leaves, and without one spare host.
fn with_tunnels(text: &str, without: &str) -> String {
    let text = (1..=3).fold(text.to_owned(), |text, leaf| {
        let database = format!("ovsdb = \"unix:/run/leaf{leaf}/db.sock\"\n");
        text.replace(
            &database,
            &format!("{database}tunnel = \"10.60.{leaf}.200\"\n"),
        )
    });
    unspared(&text, without)
}

/// The network with this host not spare.
fn unspared(text: &str, host: &str) -> String {
    let (before, after) = text
        .split_once(&format!("name = \"{host}\""))
        .expect("a host");
    format!(
        "{before}name = \"{host}\"{}",
        after.replacen("spare = true\n", "", 1)
    )
}

/// A switch without a spare host copies through a tunnel to one behind another switch that no other needs; links and both switches' time count.
#[test]
fn copies_go_through_a_tunnel_where_a_switch_has_no_spare_host() {
    let text = with_tunnels(&without_sniffers(), "spare3");
    let case = PlanTestCase {
        exact: true,
        ..PlanTestCase::new(&text)
    };
    let plan = case.plan(CONNECTIONS).unwrap_or_else(|why| panic!("{why}"));
    golden("tunnel", &to_text(&plan));
    let end = SitePort { switch: 0, port: 4 };
    assert_eq!(
        (plan.switches[1].way, plan.monitors[1].host.as_str()),
        (PacketPath::Tunnel { end }, "spare1")
    );
    assert!(matches!(plan.proof, CopyProof::Holds(1..)));
    let json = to_json(&plan);
    assert_eq!(
        (
            &json["switches"][1]["way"],
            &json["switches"][1]["to_switch"]
        ),
        (&"tunnel".into(), &"leaf1".into())
    );
    assert!(
        to_svg(&plan, &NetworkSite::parse(&text).expect("a site")).contains(" rules, a tunnel")
    );
    // Each of two links between switches carries wrapped packets, each monitor's link unwrapped ones.
    let [access, aggregation, core] = plan.taken.copied.0;
    let packets = plan.covered[1].rates.packets;
    let expected = 2.0 * (plan.monitors[1].mbps + packets * 50.0 * 8.0 / 1e6);
    assert!(
        (aggregation - expected).abs() < 1e-9 && core == 0.0,
        "{aggregation} {expected}"
    );
    assert!((access - plan.monitors[0].mbps - plan.monitors[1].mbps).abs() < 1e-9);
    // A monitor at the ports is more expensive if much other traffic passes them.
    let expected = ["10.60.3.1:3306=8Mbps", "10.60.3.1:81=800Mbps"];
    let expected = expected
        .map(|text| ExpectedTraffic::parse(text).expect("traffic"))
        .to_vec();
    let query = "PARSE mysql_query TO 10.60.3.1:3306";
    let plan = PlanTestCase {
        expected,
        ..PlanTestCase::new(&with_tunnels(SITE, "spare3"))
    }
    .plan(query)
    .expect("a plan");
    assert!(
        matches!(plan.switches[0].way, PacketPath::Tunnel { .. }),
        "{}",
        to_text(&plan)
    );
}

/// Tunnels share the capacity of links.
#[test]
fn tunnels_share_links() {
    let text = unspared(&with_tunnels(&without_sniffers(), "spare3"), "spare2");
    let another = "\n[[host]]\nname = \"spare4\"\nat = \"leaf1:9\"\ncores = 64\nmemory = \"64GiB\"\nmbps = 10000\nspare = true\nvia = [\"ssh\", \"spare4\"]\n";
    let expected = ["10.60.2.0/24:8000=600Mbps", "10.60.3.1:3306=600Mbps"];
    let expected: Vec<_> = expected
        .map(|text| ExpectedTraffic::parse(text).expect("traffic"))
        .to_vec();
    let of = |mbps: u32| {
        let links = text.replace("mbps = 10000", &format!("mbps = {mbps}")) + another;
        PlanTestCase {
            expected: expected.clone(),
            exact: true,
            ..PlanTestCase::new(&links)
        }
        .plan(CONNECTIONS)
    };
    let plan = of(2000).expect("both have room");
    assert!(
        plan.switches
            .iter()
            .all(|part| matches!(part.way, PacketPath::Tunnel { .. })),
        "{}",
        to_text(&plan)
    );
    let why = of(1000)
        .expect_err("both are too much for the link down to the first leaf")
        .to_string();
    assert!(why.contains("none at another switch"), "{why}");
}

#[test]
fn impossible_tunnels_are_reported() {
    let check = |text: &str, expected: &str| {
        let why = PlanTestCase {
            exact: true,
            ..PlanTestCase::new(text)
        }
        .plan(CONNECTIONS)
        .expect_err(expected)
        .to_string();
        assert!(
            why.contains("leaf3: no spare host") && why.contains(expected),
            "{why}"
        );
    };
    let text = with_tunnels(&without_sniffers(), "spare3");
    check(
        &text.replace("tunnel = ", "# "),
        "tunnels cannot start there",
    );
    check(
        &text.replace("tunnel = \"10.60.1.200\"", ""),
        "none at another switch reachable by a tunnel",
    );
    check(
        &text.replace("mbps = 10000", "mbps = 1"),
        "none at another switch",
    );
    let controlled = "controller = \"http://x\"\ndatapath = \"1\"";
    check(
        &text.replace("ovsdb = \"unix:/run/leaf3/db.sock\"", controlled),
        "tunnels cannot start there",
    );
}

/// Text and JSON state whether a proof was needed and whether it exists.
#[test]
fn proofs_are_reported() {
    let query = "PARSE tcp_conn_time TO 10.61.0.0/24 PROCESS (diff-group: group=srcIP)";
    let with = |hosts: u32| {
        let host = |n| {
            let port = n + 100;
            format!(
                "[[host]]\nname = \"h{n}\"\naddresses = [\"10.61.0.{n}\"]\nat = \"leaf1:{port}\"\ncores = 1\nmemory = \"1GiB\"\nmbps = 100\n"
            )
        };
        without_sniffers() + &(1..=hosts).map(host).collect::<String>()
    };
    let check = |site: &str, query: &str, state: &str, words: &str| {
        let plan = PlanTestCase::new(site)
            .plan(query)
            .unwrap_or_else(|why| panic!("{why}"));
        let json = to_json(&plan);
        assert_eq!(
            (&json["proof"]["state"], json["proof"]["classes"].is_u64()),
            (&state.into(), state == "holds")
        );
        assert!(to_text(&plan).contains(words), "{}", to_text(&plan));
    };
    check(
        &with(3),
        query,
        "holds",
        "no others do, forwarding is unchanged (",
    );
    check(
        &with(25),
        query,
        "too many hosts",
        "deferred, because many hosts are covered",
    );
    check(
        SITE,
        CONNECTIONS,
        "not needed",
        "nothing is copied, so no proof is needed",
    );
}

#[test]
fn cut_copies_are_taken_where_they_were_measured_to_be_cheap() {
    let mut case = PlanTestCase::new(&without_sniffers());
    const HANDSHAKES: &str =
        "PARSE tcp_conn_time TO 10.60.1.3:80 PROCESS (avg: value=handshake_ns)";
    let before = case.plan(HANDSHAKES).expect("a plan");
    assert!(
        before
            .choice
            .passed_over
            .iter()
            .any(|other| other.why.contains("cut_ns"))
    );
    assert_eq!(before.choice.mode, Some(MirrorMode::FLOW));
    case.costs.switch.cut_ns = Some(case.costs.switch.copy_ns);
    assert_eq!(
        case.plan(HANDSHAKES).expect("a plan").choice.mode,
        Some(MirrorMode::HEADERS)
    );
    // Truncation takes fifty times as long as copying, as measured for a software switch.
    case.costs.switch.cut_ns = Some(50.0 * case.costs.switch.copy_ns);
    assert_eq!(
        case.plan(HANDSHAKES).expect("a plan").choice.mode,
        Some(MirrorMode::FLOW)
    );
}

/// Regardless of the savings, and of the value of exact results.
#[test]
fn a_mode_that_loses_exchanges_is_not_chosen() {
    let mut case = PlanTestCase::new(&without_sniffers());
    case.costs.exact_worth_cores = 0.0;
    case.costs.switch.cut_ns = Some(1.0);
    for rate in ["1Mbps", "100Mbps", "400Mbps"] {
        case.expected =
            vec![ExpectedTraffic::parse(&format!("10.60.1.3:80={rate}")).expect("traffic")];
        for (query, mode) in [
            (PAGES, MirrorMode::HEADS),
            (
                "PARSE http TO 10.60.1.3:80 PROCESS (avg: value=response_time_ns)",
                MirrorMode::PUSHED,
            ),
        ] {
            let plan = case.plan(query).expect("a plan");
            assert_eq!(
                (plan.choice.mode, plan.lacks.as_slice()),
                (Some(MirrorMode::FLOW), [].as_slice()),
                "{query}"
            );
            let named = |other: &RejectedMode| {
                other.what == format!("copies of {mode}")
                    && other.why.starts_with("exchanges may be missing")
            };
            assert!(
                plan.choice.passed_over.iter().any(named),
                "{:?}",
                plan.choice.passed_over
            );
        }
    }
}

/// The image is self-contained, and is limited for a network with more hosts than fit.
#[test]
fn a_picture_is_drawn() {
    let case = PlanTestCase::new(&without_sniffers());
    let plan = case.plan(CONNECTIONS).expect("a plan");
    let svg = to_svg(&plan, &NetworkSite::parse(&case.site).expect("a site"));
    golden("picture", &svg);
    for word in ["spare2", "10.60.3.1", "5 rules", "diff-group"] {
        assert!(svg.contains(word), "{word}");
    }
    let mut large = without_sniffers();
    for host in 0..300 {
        large += &format!(
            "[[host]]\nname = \"<&{host}\"\naddresses = [\"10.61.{}.{}\"]\nat = \"leaf1:{}\"\ncores = 1\nmemory = \"1GiB\"\nmbps = 100\n",
            host / 200,
            host % 200,
            host + 100
        );
    }
    let case = PlanTestCase::new(&large);
    let plan = case.plan(CONNECTIONS).expect("a plan");
    let svg = to_svg(&plan, &NetworkSite::parse(&case.site).expect("a site"));
    assert!(
        svg.contains("286 hosts are not drawn") && svg.contains("&lt;&amp;") && !svg.contains("<&")
    );
}

#[test]
fn a_budget_bounds_the_choice_or_refuses_with_the_figure() {
    let mut case = PlanTestCase {
        exact: true,
        ..PlanTestCase::new(&without_sniffers())
    };
    let all = case.plan(CONNECTIONS).expect("a plan");
    let copied: f64 = all.taken.copied.0.iter().sum();
    case.budget.bandwidth_mbps = Some(copied / 2.0);
    let why = case.plan(CONNECTIONS).expect_err("too much").to_string();
    assert!(why.contains("Mb/s; BUDGET allows"), "{why}");
    // The incomplete mode is within the limits.
    case.exact = false;
    assert_eq!(
        case.plan(CONNECTIONS).expect("a plan").choice.mode,
        Some(MirrorMode::ENDS)
    );
    let mut case = PlanTestCase {
        exact: true,
        ..PlanTestCase::new(&without_sniffers())
    };
    case.budget.cpu = Some(1e-6);
    let why = case.plan(CONNECTIONS).expect_err("too much").to_string();
    assert!(
        why.starts_with("the monitor on ") && why.ends_with("BUDGET allows 0.0001 %"),
        "{why}"
    );
}

#[test]
fn expected_traffic_replaces_the_assumed() {
    let mut case = PlanTestCase::new(&without_sniffers());
    case.expected = vec![ExpectedTraffic::parse("10.60.1.3:80=2Gbps").expect("traffic")];
    let why = case
        .plan(PAGES)
        .expect_err("more than the link of a host")
        .to_string();
    assert!(why.contains("leaf1: no spare host"), "{why}");
    case.expected = vec![ExpectedTraffic::parse("10.60.1.3:80=8Mbps").expect("traffic")];
    let plan = case.plan(PAGES).expect("a plan");
    assert!(!plan.covered[0].rates.supposed);
    assert_eq!(plan.covered[0].rates.mbps, 8.0);
    // Nothing is known about another port.
    case.expected = vec![ExpectedTraffic::parse("10.60.1.3:81=8Mbps").expect("traffic")];
    assert!(case.plan(PAGES).expect("a plan").covered[0].rates.supposed);
}

#[test]
fn impossible_plans_are_reported() {
    let check = |text: &str, query: &str, expected: &str| {
        let why = PlanTestCase {
            exact: true,
            ..PlanTestCase::new(text)
        }
        .plan(query)
        .expect_err(expected)
        .to_string();
        assert!(why.contains(expected), "{why}");
    };
    let text = without_sniffers();
    check(
        &text,
        "PARSE http FROM 9.9.9.8 TO 9.9.9.9:80",
        "neither such servers nor their clients",
    );
    check(
        &text.replace("spare = true", ""),
        PAGES,
        "leaf1: no spare host",
    );
    check(
        &text.replace("ovsdb", "#"),
        PAGES,
        "leaf1 cannot be reached",
    );
    check(
        &text,
        "PARSE packet PROCESS (count)",
        "the server side is unknown",
    );
    check("", PAGES, "no host");
}

/// Flows to a server outside the network are covered at their clients.
#[test]
fn clients_of_servers_elsewhere_are_covered_at_their_own_switch() {
    let plan = PlanTestCase::new(&without_sniffers())
        .plan("PARSE dns FROM 10.60.2.0/24 TO 9.9.9.9:53")
        .expect("a plan");
    let names: Vec<&str> = plan
        .covered
        .iter()
        .map(|covering| covering.name.as_str())
        .collect();
    assert_eq!(names, ["leaf2"]);
    assert_eq!(plan.uncovered, Vec::<String>::new());
}

/// BUDGET includes aggregators and their savings.
#[test]
fn a_budget_knows_aggregators() {
    let of = |aggregate, budget| {
        PlanTestCase {
            aggregate,
            budget,
            ..PlanTestCase::new(&with_pods(SITE))
        }
        .plan(CONNECTIONS)
    };
    let cpu = |most| NetworkBudget {
        cpu: Some(most),
        ..NetworkBudget::default()
    };
    let without = of(AggregatorMode::Never, cpu(0.02));
    let with = of(AggregatorMode::Auto, cpu(0.02));
    let without = without.expect("a plan");
    let with = with.expect("room for one");
    assert_eq!(with.aggregators.len(), 1);
    let cores = with.aggregators[0].cores;
    assert!((with.taken.monitor_cores - without.taken.monitor_cores - cores).abs() < 1e-12);
    // The monitor uses 0.05 of four cores.
    let none = of(AggregatorMode::Auto, cpu(0.012)).expect("a plan without one");
    assert_eq!(none.aggregators, []);
    assert!(
        none.unaggregated
            .as_ref()
            .is_some_and(|why| why.contains("has capacity for one"))
    );
    let most = (without.taken.results_mbps + with.taken.results_mbps) / 2.0;
    let bandwidth = NetworkBudget {
        bandwidth_mbps: Some(most),
        ..NetworkBudget::default()
    };
    of(AggregatorMode::Auto, bandwidth).expect("the merged rate is within the budget");
    assert!(matches!(
        of(AggregatorMode::Never, bandwidth),
        Err(PlanningError::OverBudget(_))
    ));
}
