//! SAMPLE auto ERROR on an interface: the rate follows the traffic, and the intervals contain the connections that the
//! sender has counted.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::Value;

use crate::capture::{Capture, Captured};
use crate::net::{Net, SERVER, within};

/// Sends SYN segments, each of another connection, at rates by phase, and prints the number of each second.
const CONNECTIONS: &str = r#"
import socket, struct, sys, time
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
to = sys.argv[1]
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
addresses = socket.inet_aton("10.9.0.2") + socket.inet_aton(to)
ip = lambda n: struct.pack("!BBHHHBBH", 0x45, 0, 40, n & 0xffff, 0, 64, 6, 0) + addresses
sent, n = {}, 0
for phase in sys.argv[2:]:
    rate, seconds = (int(part) for part in phase.split("x"))
    began = time.time(); done = 0
    while (now := time.time()) < began + seconds:
        while done < (now - began) * rate:
            n += 1; done += 1
            tcp = struct.pack("!HHIIBBHHH", 1024 + n % 60000, 80 + n // 60000, n, 0, 0x50, 2, 1024, 0, 0)
            sum_ = checksum(addresses + struct.pack("!HH", 6, 20) + tcp)
            raw.sendto(ip(n) + tcp[:16] + struct.pack("!H", sum_) + tcp[18:], (to, 0))
            second = int(time.time()); sent[second] = sent.get(second, 0) + 1
        time.sleep(0.005)
for second, count in sorted(sent.items()): print(second, count)
"#;

/// Runs a query while connections are opened; returns its output, and the number of connections by second.
fn run(net: &Net, query: &str, phases: &[&str]) -> (Captured, BTreeMap<i64, u64>) {
    let capture = Capture::start(&net.server, query, &["-i", "eth0"]);
    let sender = within(&net.client, "python3")
        .args(["-c", CONNECTIONS, SERVER])
        .args(phases)
        .stdout(Stdio::piped())
        .output()
        .expect("python3");
    let errors = String::from_utf8_lossy(&sender.stderr);
    assert!(sender.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&sender.stdout);
    let of_line = |line: &str| {
        let (second, count) = line.split_once(' ')?;
        Some((second.parse().ok()?, count.parse().ok()?))
    };
    let sent = text.lines().filter_map(of_line).collect();
    std::thread::sleep(std::time::Duration::from_secs(2));
    (capture.interrupt(), sent)
}

fn rate(rows: &[&Value]) -> f64 {
    let mut rates: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["sampled_at"].as_f64())
        .collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[test]
fn the_rate_follows_the_traffic_of_an_interface() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE tcp_flow_key TO 10.9.0.1 SAMPLE auto ERROR 12% PROCESS (count: w=1s)";
    let (captured, sent) = run(&net, query, &["2000x14", "4000x12", "2000x12"]);
    assert_eq!(captured.code, Some(0), "{}", captured.err);
    let second = |row: &Value| row["window_start"].as_i64().expect("a time") / 1_000_000_000;
    let first = *sent.keys().next().expect("a second");
    let phase = |from: i64, to: i64| -> Vec<&Value> {
        let is_in = |row: &&Value| (first + from..first + to).contains(&second(row));
        captured.rows.iter().filter(is_in).collect()
    };
    let [before, doubled, halved] =
        [phase(8, 14), phase(19, 26), phase(30, 38)].map(|rows| rate(&rows));
    assert!(before < 0.7, "{before}\n{}", captured.err);
    assert!(doubled < 0.8 * before, "{before} {doubled}");
    assert!(halved > 1.25 * doubled, "{doubled} {halved}");
    // Packets near the end of a second may be captured in the next.
    let whole = |row: &&Value| (first + 1..first + 37).contains(&second(row));
    let rows: Vec<&Value> = captured.rows.iter().filter(whole).collect();
    let is_covered = |row: &&&Value| {
        let truth = sent.get(&second(row)).copied().unwrap_or(0) as f64;
        row["count_low"]
            .as_f64()
            .is_none_or(|low| low <= 1.01 * truth)
            && row["count_high"]
                .as_f64()
                .is_none_or(|high| 0.99 * truth <= high)
    };
    let covered = rows.iter().filter(is_covered).count();
    assert!(
        10 * covered >= 8 * rows.len(),
        "{covered} of {}",
        rows.len()
    );
    let goal = &captured.summary["sampling_goal"];
    let held = goal["held"].as_u64().expect("a number");
    let windows = goal["windows"].as_u64().expect("a number");
    assert!(10 * held >= 7 * windows, "{goal}\n{}", captured.err);
}

#[test]
fn a_small_budget_lowers_the_rate_of_an_interface() {
    let Some(net) = Net::new() else { return };
    let query = "PARSE tcp_flow_key TO 10.9.0.1 SAMPLE auto BUDGET cpu=0.01% PROCESS (count: w=1s)";
    let (captured, _) = run(&net, query, &["2000x10"]);
    assert_eq!(captured.code, Some(0), "{}", captured.err);
    let goal = &captured.summary["sampling_goal"];
    assert!(
        goal["rate_lowest"].as_f64().is_some_and(|rate| rate < 0.1),
        "{goal}"
    );
    assert!(goal["cpu"].as_f64().is_some_and(|cpu| cpu > 0.0), "{goal}");
    assert!(
        goal["over_budget"].as_u64().is_some_and(|n| n > 0),
        "{goal}"
    );
    assert!(captured.err.contains("budget 0.01 %"), "{}", captured.err);
}
