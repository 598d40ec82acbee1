//! Concurrent jobs of a server, with switches behind a controller simulated by the test.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

/// Two leaves, each with a server: the first with an agent on its own host, the second with a spare host.
const SITE: &str = r#"
[[switch]]
name = "leaf1"
tier = "edge"
forwarding = "normal"
controller = "URL"
datapath = "1"
agent = "on-leaf1"
cores = 4
memory = "8GiB"

[[switch]]
name = "leaf2"
tier = "edge"
forwarding = "normal"
controller = "URL"
datapath = "2"

[[switch]]
name = "spine1"
tier = "core"
forwarding = "normal"
controller = "URL"
datapath = "3"

[[host]]
name = "web"
addresses = ["10.0.0.1"]
at = "leaf1:1"
cores = 4
memory = "8GiB"
mbps = 1000

[[host]]
name = "db"
addresses = ["10.0.0.2"]
at = "leaf2:1"
cores = 4
memory = "8GiB"
mbps = 1000

[[host]]
name = "spare"
at = "leaf2:2"
agent = "on-spare"
interface = "eth1"
spare = true
quiet = true
cores = 4
memory = "8GiB"
mbps = 1000

[[link]]
ends = ["leaf1:3", "spine1:1"]
mbps = 10000

[[link]]
ends = ["leaf2:3", "spine1:2"]
mbps = 10000
"#;

const AT_THE_SPARE_HOST: &str = "PARSE tcp_conn_time TO 10.0.0.2:80";

/// A network with a controller on this port.
fn network(folder: &TempDir, port: u16, site: &str) -> JobNetwork {
    let site = site.replace("URL", &format!("http://127.0.0.1:{port}"));
    let site = NetworkSite::parse(&site).unwrap_or_else(|why| panic!("{why:?}"));
    JobNetwork::new(site, PlanCosts::default(), folder.path())
}

fn plan(network: &JobNetwork, job: u64, query: &str) -> Result<server::PlannedJob, String> {
    let query = crate::cli::query_text::CommandQuery::new(query);
    let checked = query
        .check(&mut crate::render::hosts::HostNames::default(), &[])
        .expect("a query");
    network.plan(
        JobId(job),
        &planner::lower(&checked),
        NetworkBudget::default(),
    )
}

/// A controller of switches with three ports and no rules.
fn controller() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    thread::spawn(move || {
        for mut asked in listener.incoming().map_while(Result::ok) {
            let mut question = [0; 4096];
            let read = asked.read(&mut question).expect("a question");
            let port = |number| format!(r#"{{"number": {number}, "name": "v{number}"}}"#);
            let said = if String::from_utf8_lossy(&question[..read]).contains("/rules ") {
                "[]".to_owned()
            } else {
                format!(r#"{{"ports": [{}]}}"#, [1, 2, 3].map(port).join(","))
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                said.len()
            );
            asked
                .write_all((head + &said).as_bytes())
                .expect("it is heard");
        }
    });
    port
}

/// A slow operation of one job delays no other: another job is rejected and the network is listed meanwhile.
#[test]
fn slow_switches_delay_no_other_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let network = network(
        &folder,
        silent.local_addr().expect("it has one").port(),
        SITE,
    );
    let mut one = plan(&network, 1, AT_THE_SPARE_HOST).expect("a plan");
    let two = plan(&network, 2, AT_THE_SPARE_HOST).expect("a plan");
    assert_eq!(one.parts[0].interfaces, ["eth1"]);
    let begins = thread::spawn(move || one.copies.begin());
    let (asked, _) = silent.accept().expect("it asks");
    assert_eq!(network.view().jobs.len(), 2);
    drop(two);
    let three = plan(&network, 3, AT_THE_SPARE_HOST).expect("a plan");
    assert!(!begins.is_finished());
    drop((asked, silent, three));
    begins
        .join()
        .expect("no panic")
        .expect_err("the controller is gone");
    assert!(network.view().jobs.is_empty());
}

/// Two concurrent jobs connect to the switches once.
#[test]
fn switches_are_connected_once_and_released_with_the_last_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let network = network(&folder, controller(), SITE);
    let at_ports = || plan(&network, 1, "PARSE tcp_conn_time TO 10.0.0.1:80");
    assert_eq!(at_ports().expect("a plan").parts[0].interfaces, ["v1"]);
    assert!(
        lock(&network.shared.wires).is_none(),
        "its copies were dropped"
    );
    let job = plan(&network, 2, AT_THE_SPARE_HOST).expect("a plan");
    let (tell, told) = mpsc::channel();
    for _ in 0..2 {
        let tell = tell.clone();
        let shared = network.shared.clone();
        thread::spawn(move || {
            tell.send(shared.wires().expect("they answer"))
                .expect("it is heard")
        });
    }
    let [one, other] = [(); 2].map(|()| told.recv_timeout(Duration::from_secs(10)).expect("both"));
    assert!(Arc::ptr_eq(&one, &other));
    drop(job);
    assert!(lock(&network.shared.wires).is_none());
}

#[test]
fn a_refused_plan_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = SITE.replace("interface = \"eth1\"\n", "");
    let network = network(&folder, controller(), &site);
    // The first monitor captures at ports, whose names are known; the interface of the second is unknown.
    let why = plan(
        &network,
        1,
        "PARSE tcp_conn_time TO 10.0.0.1:80, 10.0.0.2:80",
    )
    .map(drop);
    assert_eq!(
        why,
        Err("the network file has no interface name for spare".to_owned())
    );
    assert!(folder.path().join(NUMBER).exists(), "switches were reached");
    assert!(lock(&network.shared.wires).is_none());
    assert!(network.view().jobs.is_empty());
}

/// A server uses a number that transient processes do not choose.
#[test]
fn persisted_rule_numbers_are_reused() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = network(&folder, 1, SITE).shared;
    let number = |free| shared.number(free).map_err(|why| why.to_string());
    assert_eq!((number(3000), number(3001)), (Ok(3000), Ok(3000)));
    fs::write(&shared.number, "7\n").expect("a file");
    assert_eq!((number(3001), number(3002)), (Ok(3001), Ok(3001)));
    fs::write(&shared.number, "seven\n").expect("a file");
    assert!(number(3001).is_err_and(|why| why.ends_with("does not contain a number")));
}
