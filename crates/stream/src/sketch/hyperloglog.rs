//! HyperLogLog (Flajolet et al. 2007) over 64-bit hashes with the estimator of Ertl, "New cardinality estimation
//! algorithms for HyperLogLog sketches" (2017), section 4, which needs no bias correction tables and no switch of
//! method.
//!
//! With 2^p registers the standard error is 1.04 / √2^p: 0.81 % for p = 14. Merging two sketches gives the sketch of
//! the union. A sketch can be folded to a smaller p, with the same result as building it with that p.

use crate::partial::bytes::{MalformedPartial, PartialReader, put_len};

/// Registers of 2^p classes of hashes.
///
/// ```
/// let mut sketch = stream::sketch::HyperLogLog::new(14);
/// (0..50_000u64).for_each(|v| sketch.add(xxhash_rust::xxh3::xxh3_64(&v.to_le_bytes())));
/// assert!((sketch.estimate() / 50_000.0 - 1.0).abs() < 2.0 * sketch.relative_error());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog {
    precision: u8,
    registers: Vec<u8>,
}

impl HyperLogLog {
    /// Creates an empty sketch.
    ///
    /// # Panics
    /// Unless 4 ≤ p ≤ 18.
    #[must_use]
    pub fn new(precision: u8) -> HyperLogLog {
        assert!((4..=18).contains(&precision), "precision {precision}");
        HyperLogLog {
            precision,
            registers: vec![0; 1 << precision],
        }
    }

    /// The precision p.
    #[must_use]
    pub fn precision(&self) -> u8 {
        self.precision
    }

    /// Adds the hash of a value.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let register = (hash >> (64 - self.precision)) as usize;
        // The guard bit ends the run of zeros, so that the rank is at most 65 − p.
        let rest = (hash << self.precision) | (1 << (self.precision - 1));
        let rank = rest.leading_zeros() as u8 + 1;
        self.registers[register] = self.registers[register].max(rank);
    }

    /// Merges another sketch; the result has the smaller p of the two.
    pub fn merge(&mut self, other: &HyperLogLog) {
        if other.precision > self.precision {
            return self.merge(&other.folded(self.precision));
        }
        self.fold(other.precision);
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Reduces p; no effect if p is already smaller.
    pub fn fold(&mut self, precision: u8) {
        if precision < self.precision {
            *self = self.folded(precision);
        }
    }

    /// The estimated number of distinct hashes.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let m = self.registers.len() as f64;
        let q = 64 - usize::from(self.precision);
        let mut counts = vec![0u32; q + 2];
        self.registers
            .iter()
            .for_each(|r| counts[usize::from(*r)] += 1);
        let mut z = m * tau(1.0 - f64::from(counts[q + 1]) / m);
        for count in counts[1..=q].iter().rev() {
            z = 0.5 * (z + f64::from(*count));
        }
        z += m * sigma(f64::from(counts[0]) / m);
        m * m / (2.0 * std::f64::consts::LN_2 * z)
    }

    /// Relative half-width of the 95 % interval.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        1.96 * 1.04 / (self.registers.len() as f64).sqrt()
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.registers.len()
    }

    /// Encoding: p; then the shorter of 0 and all registers, or 1 and a list of non-zero registers, each as the
    /// distance from the previous one and its value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let used = || {
            self.registers
                .iter()
                .enumerate()
                .filter(|(_, rank)| **rank > 0)
        };
        out.push(self.precision);
        let n = used().count();
        if n > self.registers.len() / 3 {
            out.push(0);
            return out.extend_from_slice(&self.registers);
        }
        out.push(1);
        put_len(out, n);
        let mut next = 0;
        for (register, rank) in used() {
            put_len(out, register - next);
            out.push(*rank);
            next = register + 1;
        }
    }

    /// Decodes a sketch of at most this p.
    pub(crate) fn read(
        precision_max: u8,
        from: &mut PartialReader<'_>,
    ) -> Result<HyperLogLog, MalformedPartial> {
        let precision = from.byte()?;
        if !(4..=precision_max).contains(&precision) {
            return Err(MalformedPartial::Invalid("a sketch"));
        }
        from.spend(1 << precision)?;
        let mut sketch = HyperLogLog::new(precision);
        if from.flag()? {
            let mut next = 0;
            for _ in 0..from.len()? {
                let register = from.len_up_to(sketch.registers.len())? + next;
                let held = sketch
                    .registers
                    .get_mut(register)
                    .ok_or(MalformedPartial::Invalid("a sketch"))?;
                *held = from.byte()?;
                next = register + 1;
            }
        } else {
            sketch.registers.copy_from_slice(from.take(1 << precision)?);
        }
        if sketch.registers.iter().all(|rank| *rank <= 65 - precision) {
            Ok(sketch)
        } else {
            Err(MalformedPartial::Invalid("a sketch"))
        }
    }

    fn folded(&self, precision: u8) -> HyperLogLog {
        let dropped = self.precision - precision;
        let mut folded = HyperLogLog::new(precision);
        for (i, &rank) in self.registers.iter().enumerate().filter(|(_, r)| **r > 0) {
            // The low bits of the register number become the leading bits of the ranked hash.
            let low = i & ((1 << dropped) - 1);
            let rank = match low {
                0 => rank + dropped,
                _ => dropped - low.ilog2() as u8,
            };
            let register = &mut folded.registers[i >> dropped];
            *register = (*register).max(rank);
        }
        folded
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let mut y = 1.0;
    let mut z = x;
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let mut y = 1.0;
    let mut z = 1.0 - x;
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::mix;

    fn of(precision: u8, values: std::ops::Range<u64>) -> HyperLogLog {
        let mut sketch = HyperLogLog::new(precision);
        values.for_each(|v| sketch.add(mix(v)));
        sketch
    }

    #[test]
    fn estimates_stay_within_four_standard_errors() {
        for precision in [6, 10, 14] {
            for n in [0, 1, 10, 100, 1_000, 10_000, 100_000] {
                let sketch = of(precision, 0..n);
                let error = (sketch.estimate() - n as f64).abs();
                assert!(
                    error <= 2.0 * sketch.relative_error() * n as f64,
                    "p={precision} n={n} off by {error}"
                );
            }
        }
    }

    #[test]
    fn standard_error_is_as_stated() {
        let n = 20_000u64;
        let runs = 200;
        let square: f64 = (0..runs)
            .map(|run| (of(8, run * n..(run + 1) * n).estimate() / n as f64 - 1.0).powi(2))
            .sum();
        let measured = (square / runs as f64).sqrt();
        assert!(
            (0.8..1.2).contains(&(measured / (1.04 / 16.0))),
            "{measured}"
        );
    }

    #[test]
    fn merge_and_fold_equal_building_at_once() {
        let mut left = of(12, 0..3000);
        left.merge(&of(12, 2000..9000));
        assert_eq!(left, of(12, 0..9000));
        left.fold(7);
        assert_eq!(left, of(7, 0..9000));
        let mut mixed = of(7, 0..10);
        mixed.merge(&of(12, 10..5000));
        assert_eq!(mixed, of(7, 0..5000));
        let mut mixed = of(12, 10..5000);
        mixed.merge(&of(7, 0..10));
        assert_eq!(mixed, of(7, 0..5000));
    }
}
