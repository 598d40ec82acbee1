//! Health of the agent, reported to the server with each lease request, by the names in [`link::HEALTH`].

use std::collections::BTreeMap;
use std::fs;

use link::{HEALTH, Spool};

/// Health counters of the agent; `monitors`: number of running monitors.
pub fn health(spool: &Spool, monitors: usize) -> BTreeMap<String, u64> {
    let (bytes, bytes_max) = spool.fill();
    let lost = spool.counters();
    let records: u64 = spool
        .lanes()
        .iter()
        .map(|lane| lane.newest.saturating_sub(lane.oldest) + 1)
        .sum();
    let values = [
        Some(bytes),
        Some(bytes_max),
        Some(records),
        Some(lost.lost_records),
        Some(lost.lost_tuples),
        Some(monitors as u64),
        fs::read_to_string("/proc/self/stat")
            .ok()
            .and_then(|text| cpu_ns(&text)),
        fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| memory_bytes(&text)),
    ];
    HEALTH
        .iter()
        .zip(values)
        .filter_map(|(word, value)| Some(((*word).to_owned(), value?)))
        .collect()
}

/// User and system CPU time, which the kernel reports in hundredths of a second (`proc(5)`).
fn cpu_ns(stat: &str) -> Option<u64> {
    // The program's name may contain parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields
        .split_ascii_whitespace()
        .skip(11)
        .map(|ticks| ticks.parse::<u64>().ok());
    Some((times.next()?? + times.next()??) * 10_000_000)
}

fn memory_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 900 0 0 0 250 50 0 0 20 0 1 0 100 1000 200";
        assert_eq!(cpu_ns(stat), Some(3_000_000_000));
        assert_eq!(cpu_ns("7 (a"), None);
        assert_eq!(
            memory_bytes("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(memory_bytes(""), None);
    }
}
