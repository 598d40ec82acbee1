//! Upper bounds for one core: `limits [--passes N] memory | FILE.pcap…`.
//!
//! Every pass walks the whole capture in huge-page memory and does the least work that a job needs; no program can be
//! faster. Prints a JSON line per pass with the median CPU time of this thread and a check value that proves the work (a
//! known count, or a hash).

mod capture;
mod memory;
mod passes;
mod prefetch;

use capture::Capture;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;

fn main() {
    let mut runs = 7;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--passes" => {
                runs = arguments
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("--passes N")
            }
            "memory" => memory::measure(runs),
            file => of_capture(Path::new(file), runs),
        }
    }
}

fn of_capture(path: &Path, runs: usize) {
    let capture = Capture::load(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let (packets, bits) = capture.records::<false>().fold((0u64, 0u64), |(n, b), r| {
        (n + 1, b + u64::from(r.original) * 8)
    });
    for (limit, mut pass) in passes::all() {
        let (seconds, check) = median(runs, || pass(&capture));
        let mpps = packets as f64 / seconds / 1e6;
        let gbps = bits as f64 / seconds / 1e9;
        let ns = seconds * 1e9 / packets as f64;
        println!(
            r#"{{"limit":"{limit}","capture":"{name}","packets":{packets},"mpps":{mpps:.2},"gbps":{gbps:.2},"ns":{ns:.2},"check":{check}}}"#
        );
    }
}

/// Median CPU seconds of `runs` runs, and the last return value.
pub fn median(runs: usize, mut run: impl FnMut() -> u64) -> (f64, u64) {
    let mut check = 0;
    let mut seconds: Vec<f64> = (0..runs.max(1))
        .map(|_| {
            let begin = cpu_seconds();
            check = std::hint::black_box(run());
            cpu_seconds() - begin
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[seconds.len() / 2], check)
}

fn cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}
