//! Queries whose packets are copied only after the monitors have started.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::traffic::HostTraffic;
use super::{TestBed, without_sniffers};
use crate::capture::BINARY;

/// Counts the datagrams of [`HostTraffic`].
pub const LIMITED: &str =
    "PARSE packet FROM 10.60.1.1 TO 10.60.2.1:7 LIMIT 4s PROCESS (count: w=1s)";

/// LIMIT counts from the start of copying, and the window in which it started is approximate. The datagrams of a full
/// window are the measure.
#[test]
fn a_limit_of_time_counts_from_the_start_of_copying() {
    let Some(bed) = TestBed::new() else { return };
    bed.run(&["up"], &[("SERVERS", "none")]);
    let network = fs::read_to_string(bed.path("network.toml")).expect("a network");
    let file = bed.path("copied.toml");
    fs::write(&file, without_sniffers(&network)).expect("a file");
    let traffic = HostTraffic::start(&bed);
    let output = Command::new(BINARY)
        .args(["query", "--exact", "--network"])
        .arg(&file)
        .arg(LIMITED)
        .output()
        .expect("it starts");
    traffic.end(&bed);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains(", proved for "),
        "{said}"
    );
    let rows: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    covers_limit(rows);
}

/// Checks that the rows of [`LIMITED`] cover its period, and that the windows in which copying started are approximate.
pub fn covers_limit(mut rows: Vec<Value>) {
    rows.retain(|row| row["count"] != 0);
    let counts = || {
        rows.iter()
            .map(|row| row["count"].as_u64().expect("a count"))
    };
    let all = counts().sum::<u64>();
    let full = counts().max().expect("rows");
    assert!(all >= 3 * full, "{all} of {full} a second: {rows:?}");
    let is_approximate = |row: &&Value| row["approximate"] == true;
    // Rules may be installed at the end of one window and the beginning of the next.
    let first = rows.iter().take_while(is_approximate).count();
    assert!(
        (1..=2).contains(&first) && !rows[first..].iter().any(|row| is_approximate(&row)),
        "{rows:?}"
    );
}
