//! Memory bandwidth of one core: reading, filling, and copying 1 GiB; random loads of cache lines, dependent and
//! independent.

use crate::capture::memory;
use crate::median;

const SIZE: usize = 1 << 30;

pub fn measure(runs: usize) {
    let mut from = memory(SIZE);
    let mut to = memory(SIZE);
    from.fill(1);
    to.fill(2);
    let bandwidth = |what: &str, (seconds, check): (f64, u64)| {
        println!(
            r#"{{"memory":"{what}","gb_per_s":{:.2},"check":{check}}}"#,
            SIZE as f64 / seconds / 1e9
        );
    };
    bandwidth("read", median(runs, || sum(&from)));
    bandwidth(
        "fill",
        median(runs, || {
            to.fill(3);
            u64::from(to[SIZE / 2])
        }),
    );
    bandwidth(
        "copy",
        median(runs, || {
            to.copy_from_slice(&from);
            u64::from(to[SIZE / 2])
        }),
    );
    for mebibytes in [1, 16, 64, 256, 1024] {
        random(
            bytemuck::cast_slice_mut(&mut to),
            (mebibytes << 20) / 64,
            runs,
        );
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let words: &[[u64; 8]] = bytemuck::cast_slice(bytes);
    let lanes = words.iter().fold([0u64; 8], |sums, line| {
        std::array::from_fn(|k| sums[k].wrapping_add(line[k]))
    });
    lanes.iter().fold(0, |a, b| a.wrapping_add(*b))
}

fn step(x: u64) -> u64 {
    x.wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407)
}

/// One cycle through all lines (Sattolo), followed; then random lines.
fn random(lines: &mut [[u64; 8]], n: usize, runs: usize) {
    const LOADS: u64 = 1 << 21;
    let mut order: Vec<u32> = (0..n as u32).collect();
    let mut dice = 1;
    for i in (1..n).rev() {
        dice = step(dice);
        order.swap(i, (dice >> 33) as usize % i);
    }
    for (k, &line) in order.iter().enumerate() {
        lines[line as usize][0] = u64::from(order[(k + 1) % n]);
    }
    let (dependent, check) = median(runs.min(3), || {
        (0..LOADS).fold(0, |at, _| lines[at as usize][0])
    });
    let (independent, other) = median(runs.min(3), || {
        let mut dice = 1;
        (0..LOADS).fold(0u64, |sum, _| {
            dice = step(dice);
            sum.wrapping_add(lines[(dice >> 33) as usize & (n - 1)][0])
        })
    });
    println!(
        r#"{{"memory":"random line of {} MiB","dependent_ns":{:.1},"independent_ns":{:.2},"check":{}}}"#,
        n * 64 >> 20,
        dependent * 1e9 / LOADS as f64,
        independent * 1e9 / LOADS as f64,
        check.wrapping_add(other)
    );
}
