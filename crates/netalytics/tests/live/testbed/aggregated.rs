//! Aggregators on the bed: results equal those without, less data reaches the query, and nothing remains, also after a
//! kill of the aggregator.

use super::upheaval::{MARK, child, kill_child, processes};
use super::*;

/// Both leaves see the same groups.
const QUERY: &str = "PARSE http TO 10.60.2.1:8000, 10.60.3.1:8000 \
    PROCESS (group-count: group=path, w=1s), (diff-group: group=path, w=1s), (diff-group: group=destIP)";
const ASKED: &str = "for n in $(seq 50); do for to in 10.60.2.1 10.60.3.1; do \
    curl -s -o /dev/null --max-time 20 http://$to:8000/page$((n % 5)); done; sleep 0.04; done";
const REQUESTS: u64 = 100;
/// More requests; one server sends half of the responses.
const SIX: &str = "for n in 1 2 3; do for to in 10.60.2.1 10.60.3.1; do curl -s -o /dev/null http://$to:8000/; done; done";

/// Keys and counts of rows, sorted. Times of two captures differ by the kernel's delay.
fn sorted(rows: &[Value]) -> Vec<String> {
    let columns = [
        "processor",
        "window_start",
        "path",
        "server_ip",
        "count",
        "approximate",
        "lost",
    ];
    let words = |row: &Value| columns.map(|name| row[name].to_string()).join(" ");
    let mut rows: Vec<String> = rows.iter().map(words).collect();
    rows.sort_unstable();
    rows
}

/// Sum of requests by window and page.
fn requests(rows: &[Value]) -> u64 {
    let of_pages = rows
        .iter()
        .filter(|row| text(&row["processor"]).starts_with("group-count"));
    of_pages
        .map(|row| row["count"].as_u64().expect("a number"))
        .sum()
}

#[test]
fn aggregators_keep_the_result_and_reduce_traffic() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[("SERVERS", "none")]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let [whole, copied] = ["whole.toml", "copied.toml"].map(|name| bed.path(name));
    fs::write(&whole, &network).expect("a file");
    fs::write(&copied, without_sniffers(&network)).expect("a file");
    let [whole, copied] = [&whole, &copied].map(|path| path.to_str().expect("text"));
    let on = |host: &str| format!("{}{host}", bed.prefix());
    let _servers = ["app1", "db"].map(|host| {
        let mut python = within(&on(host), "python3");
        python
            .args(["-u", "-m", "http.server", "8000", "--directory"])
            .arg(bed.sdn.path());
        TestProgram::start(python.stdout(Stdio::null()).stderr(Stdio::null()))
    });
    wait_for("the servers", || {
        let asked = within(&on("client1"), "bash")
            .args([
                "-c",
                "curl -s -o /dev/null http://10.60.2.1:8000/ && curl -s -o /dev/null http://10.60.3.1:8000/",
            ])
            .status();
        asked
            .is_ok_and(|status| status.success())
            .then_some(())
            .ok_or_else(String::new)
    });
    let mark = bed.prefix();
    let ask = |file: &str, aggregate: &str| {
        let mut command = Command::new(BINARY);
        command.env(MARK, &mark);
        Capture::of(
            command,
            QUERY,
            &["--network", file, "--exact", "--aggregate", aggregate],
        )
    };
    let none_is_left = || {
        wait_for("what was started is gone", || {
            let left = processes(&format!("{MARK}={mark}"));
            left.is_empty().then_some(()).ok_or_else(|| left.join("; "))
        });
        LEAVES
            .iter()
            .for_each(|leaf| assert_eq!(bed.copies(leaf), "", "{leaf}"));
    };

    // Monitors at the switches' ports: both variants concurrently.
    let both = [ask(whole, "never"), ask(whole, "always")];
    shell(&on("client1"), ASKED);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let [direct, merged] = both.map(Capture::interrupt);
    for asked in [&direct, &merged] {
        assert_eq!(asked.code, Some(0), "{}", asked.err);
        assert_eq!(requests(&asked.rows), REQUESTS, "{}", asked.err);
    }
    assert!(
        merged.err.contains("2 of them merged on spare2"),
        "{}",
        merged.err
    );
    assert_eq!(sorted(&merged.rows), sorted(&direct.rows));
    let of =
        |name: &str| [&merged, &direct].map(|asked| asked.count(&format!("/monitored/{name}")));
    let [reports, bytes] = ["reports", "bytes"].map(of);
    eprintln!("to who asks, with an aggregator and without: {reports:?} reports, {bytes:?} bytes");
    assert!(
        reports[0] < reports[1] && bytes[0] < bytes[1],
        "{reports:?} reports, {bytes:?} bytes"
    );
    assert_eq!(of("tuples"), [REQUESTS; 2]);
    none_is_left();

    // Copies to spare hosts, one of which has the aggregator, too.
    let merged = ask(copied, "always");
    shell(&on("client1"), SIX);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let merged = merged.interrupt();
    assert_eq!(
        (merged.code, requests(&merged.rows)),
        (Some(0), 6),
        "{}",
        merged.err
    );
    none_is_left();

    // A monitor is killed, which is reported while the others continue. Then the aggregator is killed, which ends all.
    let merged = ask(copied, "always");
    let aggregator = child(merged.pid(), "aggregator").expect("it runs");
    assert!(kill_child(aggregator, "monitor"));
    std::thread::sleep(std::time::Duration::from_secs(1));
    shell(&on("client1"), SIX);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let merged = merged.interrupt();
    assert_eq!(
        (merged.code, requests(&merged.rows)),
        (Some(1), 3),
        "{}",
        merged.err
    );
    let told = "the aggregator on spare2: the monitor on spare";
    assert!(
        merged.err.contains(told) && merged.err.contains(" ended early"),
        "{}",
        merged.err
    );
    none_is_left();
    let merged = ask(copied, "always");
    assert!(kill_child(merged.pid(), "aggregator"));
    let merged = merged.end();
    assert_eq!(merged.code, Some(1), "{}", merged.err);
    assert!(
        merged.err.contains("the aggregator on spare2 ended early"),
        "{}",
        merged.err
    );
    none_is_left();
}
