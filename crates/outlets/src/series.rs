//! Series for a scrape: the last closed window, and sums over all windows. A series missing in a window is dropped with
//! the next one; a sum is kept for some windows, so that rare groups continue to accumulate. The number of series is
//! limited.

use std::collections::BTreeMap;

use crate::exponential::ExponentialBuckets;
use crate::points::{MetricPoint, PointFamily, PointKind, PointValue};

/// Number of windows for which a sum is kept without additions.
const KEPT: u64 = 30;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct SeriesTable {
    max: usize,
    count: usize,
    families: BTreeMap<PointFamily, BTreeMap<Attributes, ShownSeries>>,
    /// Points left out: of a series beyond the limit, or the second of a series in one window.
    left_out: u64,
}

/// Names and values, sorted by name.
pub type Attributes = Vec<(String, String)>;

/// A series.
#[derive(Clone, Debug)]
pub struct ShownSeries {
    /// Value.
    pub value: PointValue,
    /// Index of its result.
    result: usize,
    /// Number of the window in which the series was last seen.
    window: u64,
}

impl SeriesTable {
    /// Without series; at most `max`.
    pub fn new(max: usize) -> SeriesTable {
        SeriesTable {
            max,
            count: 0,
            families: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Adds the points of a result's window with number `window`.
    pub fn take(&mut self, result: usize, window: u64, points: Vec<MetricPoint>) {
        // First, so that the series of the last window leave room for those of this one.
        self.expire(result, window);
        for point in points {
            self.add(result, window, point);
        }
    }

    /// Drops the series of a result that were last seen too long before `window`.
    fn expire(&mut self, result: usize, window: u64) {
        let mut count = 0;
        for (family, shown) in &mut self.families {
            let kept = if family.kind == PointKind::Gauge {
                0
            } else {
                KEPT
            };
            shown.retain(|_, shown| shown.result != result || shown.window + kept >= window);
            count += shown.len();
        }
        self.families.retain(|_, shown| !shown.is_empty());
        self.count = count;
    }

    fn add(
        &mut self,
        result: usize,
        window: u64,
        MetricPoint {
            family,
            attributes,
            value,
        }: MetricPoint,
    ) {
        let kind = family.kind;
        let is_known = self
            .families
            .get(&family)
            .is_some_and(|family| family.contains_key(&attributes));
        if !is_known {
            if self.count >= self.max {
                self.left_out += 1;
                return;
            }
            self.count += 1;
            self.families.entry(family).or_default().insert(
                attributes,
                ShownSeries {
                    value,
                    result,
                    window,
                },
            );
            return;
        }
        let Some(shown) = self
            .families
            .get_mut(&family)
            .and_then(|family| family.get_mut(&attributes))
        else {
            return;
        };
        match (&mut shown.value, value) {
            (PointValue::Number(sum), PointValue::Number(more)) if kind == PointKind::Sum => {
                *sum += more
            }
            (PointValue::Distribution(all), PointValue::Distribution(more)) => all.merge(&more),
            // Two groups became equal by redaction: of values that are not additive the first is kept.
            (PointValue::Number(_), PointValue::Number(_)) if shown.window == window => {
                self.left_out += 1
            }
            (old, new) => *old = new,
        }
        shown.window = window;
    }

    /// Families with their series.
    pub fn families(
        &self,
    ) -> impl Iterator<
        Item = (
            &PointFamily,
            impl Iterator<Item = (&Attributes, &PointValue)>,
        ),
    > {
        self.families.iter().map(|(family, shown)| {
            (
                family,
                shown
                    .iter()
                    .map(|(attributes, shown)| (attributes, &shown.value)),
            )
        })
    }

    /// Number of series.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Points omitted so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// A distribution without values, as the initial value of a merge.
impl Default for ExponentialBuckets {
    fn default() -> ExponentialBuckets {
        ExponentialBuckets::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::MetricUnit;

    fn point(kind: PointKind, url: &str, value: f64) -> MetricPoint {
        let family = PointFamily {
            name: format!("{kind:?}"),
            unit: MetricUnit::None,
            kind,
            help: String::new(),
        };
        MetricPoint {
            family,
            attributes: vec![("url".into(), url.into())],
            value: PointValue::Number(value),
        }
    }

    fn check(series: &SeriesTable, expected: &[(&str, &str, f64)], left_out: u64) {
        let mut shown = Vec::new();
        for (family, list) in series.families() {
            for (attributes, value) in list {
                let PointValue::Number(value) = value else {
                    panic!("numbers only")
                };
                shown.push((family.name.as_str(), attributes[0].1.as_str(), *value));
            }
        }
        assert_eq!(shown, expected);
        assert_eq!(
            (series.count(), series.left_out()),
            (expected.len(), left_out)
        );
    }

    #[test]
    fn gauges_are_of_the_last_window_and_sums_of_all() {
        let mut series = SeriesTable::new(3);
        series.take(
            0,
            0,
            vec![
                point(PointKind::Gauge, "/a", 1.0),
                point(PointKind::Sum, "/a", 1.0),
            ],
        );
        series.take(
            0,
            1,
            vec![
                point(PointKind::Gauge, "/b", 2.0),
                point(PointKind::Sum, "/a", 5.0),
            ],
        );
        check(&series, &[("Gauge", "/b", 2.0), ("Sum", "/a", 6.0)], 0);
        // Of another result.
        series.take(
            1,
            0,
            vec![
                point(PointKind::Gauge, "/c", 7.0),
                point(PointKind::Gauge, "/d", 8.0),
            ],
        );
        check(
            &series,
            &[
                ("Gauge", "/b", 2.0),
                ("Gauge", "/c", 7.0),
                ("Sum", "/a", 6.0),
            ],
            1,
        );
        // Equal after redaction.
        series.take(
            0,
            2,
            vec![
                point(PointKind::Gauge, "/b", 3.0),
                point(PointKind::Gauge, "/b", 4.0),
                point(PointKind::Sum, "/a", 1.0),
            ],
        );
        check(
            &series,
            &[
                ("Gauge", "/b", 3.0),
                ("Gauge", "/c", 7.0),
                ("Sum", "/a", 7.0),
            ],
            2,
        );
        series.take(0, 2 + KEPT, vec![]);
        check(&series, &[("Gauge", "/c", 7.0), ("Sum", "/a", 7.0)], 2);
        series.take(0, 3 + KEPT, vec![]);
        check(&series, &[("Gauge", "/c", 7.0)], 2);
    }
}
