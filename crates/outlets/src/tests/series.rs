//! Series for scrapes, compared with a recomputation from all windows.

use proptest::prelude::*;

use super::{head, result};
use crate::exponential::ExponentialBuckets;
use crate::points::{MetricPoint, MetricUnit, PointFamily, PointKind, PointValue};
use crate::results::ScrapedResults;
use crate::series::SeriesTable;

/// Windows for which a sum is kept without additions.
const KEPT: usize = 30;

fn point(kind: PointKind, url: u8, value: u32) -> MetricPoint {
    MetricPoint {
        family: PointFamily {
            name: format!("{kind:?}"),
            unit: MetricUnit::None,
            kind,
            help: String::new(),
        },
        attributes: vec![("url".into(), url.to_string())],
        value: PointValue::Number(value.into()),
    }
}

/// Family, URL, and value of each series.
fn shown(series: &SeriesTable) -> Vec<(String, String, f64)> {
    let mut shown = Vec::new();
    for (family, list) in series.families() {
        for (attributes, value) in list {
            let value = match value {
                PointValue::Number(value) => *value,
                PointValue::Distribution(all) => all.count() as f64,
            };
            let url = attributes
                .last()
                .map_or(String::new(), |(_, url)| url.clone());
            shown.push((family.name.clone(), url, value));
        }
    }
    shown
}

/// Recomputes the series after the last of these windows.
fn recomputed(windows: &[Vec<(PointKind, u8, u32)>]) -> Vec<(String, String, f64)> {
    let mut expected = Vec::new();
    let last = windows.len() - 1;
    for kind in [PointKind::Gauge, PointKind::Sum] {
        for url in 0..12 {
            let in_window = |n: usize| {
                let of_series = windows[n].iter().filter(move |p| (p.0, p.1) == (kind, url));
                of_series.map(|p| f64::from(p.2)).collect::<Vec<_>>()
            };
            let value = match kind {
                PointKind::Gauge => in_window(last).first().copied(),
                _ => {
                    // Backwards until a gap that is too long.
                    let mut total = None;
                    let mut reach = last;
                    for n in (0..=last).rev() {
                        if reach - n > KEPT {
                            break;
                        }
                        if !in_window(n).is_empty() {
                            reach = n;
                            total = Some(total.unwrap_or(0.0) + in_window(n).iter().sum::<f64>());
                        }
                    }
                    total
                }
            };
            expected.extend(value.map(|value| (format!("{kind:?}"), url.to_string(), value)));
        }
    }
    expected.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn series_are_those_of_a_recomputation(
        windows in prop::collection::vec(
            // Windows with a rare series, so that gaps are longer and shorter than the limit.
            prop::collection::vec((any::<bool>(), prop_oneof![9 => 0u8..3, 1 => 3u8..12], 0u32..9), 0..4), 1..90),
    ) {
        let kind = |is_sum| if is_sum { PointKind::Sum } else { PointKind::Gauge };
        let windows: Vec<Vec<_>> = windows
            .into_iter()
            .map(|window| window.into_iter().map(|(is_sum, url, n)| (kind(is_sum), url, n)).collect())
            .collect();
        let mut series = SeriesTable::new(usize::MAX);
        for (n, window) in windows.iter().enumerate() {
            let points = window.iter().map(|(kind, url, value)| point(*kind, *url, *value));
            series.take(0, n as u64, points.collect());
            prop_assert_eq!(shown(&series), recomputed(&windows[..=n]));
            prop_assert_eq!(series.count(), shown(&series).len());
        }
    }
}

/// The groups of a window need no room next to those of the window before.
#[test]
fn groups_that_change_in_every_window_are_all_shown() {
    let mut series = SeriesTable::new(3);
    for window in 0..10 {
        let urls = (0..3).map(|n| window * 3 + n);
        let points = urls
            .clone()
            .map(|url| point(PointKind::Gauge, url, url.into()));
        series.take(0, window.into(), points.collect());
        let mut values: Vec<f64> = shown(&series)
            .into_iter()
            .map(|(_, _, value)| value)
            .collect();
        values.sort_by(f64::total_cmp);
        assert_eq!(values, urls.map(f64::from).collect::<Vec<_>>());
    }
    assert_eq!(series.left_out(), 0);
}

#[test]
fn results_do_not_expire_series_of_each_other() {
    let mut series = SeriesTable::new(10);
    series.take(0, 1, vec![point(PointKind::Gauge, 1, 1)]);
    series.take(1, 500, vec![point(PointKind::Gauge, 2, 2)]);
    assert_eq!(series.count(), 2);
    series.take(0, 2, vec![]);
    let left = ("Gauge".to_owned(), "2".to_owned(), 2.0);
    assert_eq!(shown(&series), [left]);
}

#[test]
fn no_series_are_shown_with_a_limit_of_zero() {
    let mut series = SeriesTable::new(0);
    series.take(
        0,
        1,
        vec![point(PointKind::Sum, 1, 1), point(PointKind::Gauge, 1, 1)],
    );
    assert_eq!((series.count(), series.left_out()), (0, 2));
    assert!(shown(&series).is_empty());
}

#[test]
fn sums_add_up_over_windows_that_complete_together() {
    let mut results = ScrapedResults::new(10);
    results.announce(&[head()]);
    results.add(0, &result(&[(0, "/a", 2), (10, "/a", 3), (10, "/b", 5)]));
    results.add(0, &result(&[(0, "/b", 1)]));
    assert!(shown(results.series()).is_empty(), "the windows are open");
    assert_eq!(results.complete(), 4);
    let counts: Vec<_> = shown(results.series())
        .into_iter()
        .map(|(_, url, value)| (url, value))
        .collect();
    assert_eq!(counts, [("/a".to_owned(), 5.0), ("/b".to_owned(), 6.0)]);
    // Without rows nothing changes.
    assert_eq!(results.complete(), 0);
    assert_eq!(results.series().count(), 2);
}

#[test]
fn rows_of_an_unknown_result_are_counted_but_not_shown() {
    let mut results = ScrapedResults::new(10);
    results.announce(&[head()]);
    results.add(7, &result(&[(0, "/a", 2)]));
    assert_eq!(results.complete(), 1);
    assert_eq!((results.series().count(), results.left_out()), (0, 0));
}

/// Index of the bucket above which `value` is not, at a scale.
fn bucket(value: f64, scale: i32) -> i32 {
    let width = 2f64.powi(-scale);
    (-70_000..70_000)
        .find(|index| (f64::from(*index) * width).exp2() >= value * (1.0 - 1e-9))
        .expect("a bucket")
}

#[test]
fn values_recorded_one_by_one_are_in_a_limited_number_of_buckets() {
    let mut all = ExponentialBuckets::new();
    let values: Vec<f64> = (-30..=30).map(|n| 10f64.powi(n) * 1.3).collect();
    for value in &values {
        all.record(*value);
    }
    let first = *all.positive.keys().next().expect("a bucket");
    let last = *all.positive.keys().last().expect("a bucket");
    assert!(last - first < 320, "{first} to {last}");
    // After the scale has changed, too.
    all.record(1.0);
    all.record(100.0);
    let mut expected = std::collections::BTreeMap::new();
    for value in values.iter().chain(&[1.0, 100.0]) {
        *expected.entry(bucket(*value, all.scale)).or_insert(0) += 1;
    }
    assert_eq!(all.positive, expected, "scale {}", all.scale);
}

#[test]
fn the_smallest_and_the_largest_numbers_have_buckets() {
    let text = format!("[[{:e},1],[{:e},2],[{:e},3]]", 5e-324, 1e300, -1e300);
    let all = ExponentialBuckets::parse(&text, 1.0).expect("buckets");
    assert_eq!(
        (all.count(), all.positive.len(), all.negative.len()),
        (6, 2, 1)
    );
    assert_eq!(all.up_to(2000), 6);
    assert_eq!(all.up_to(0), 4);
    let odd = ExponentialBuckets::parse("[[1,0.4],[1,-3],[0,1]]", 1.0).expect("buckets");
    assert_eq!((odd.count(), odd.zero), (1, 1));
    let none = ExponentialBuckets::parse("[]", 1.0).expect("buckets");
    assert_eq!((none.count(), none.sum, none.up_to(0)), (0, 0.0, 0));
}

proptest! {
    #[test]
    fn merges_are_independent_of_their_order(
        lists in prop::collection::vec(prop::collection::vec((-1e12f64..1e12, 1u64..5), 0..20), 1..6),
    ) {
        let parsed: Vec<ExponentialBuckets> = lists
            .iter()
            .map(|list| serde_json::to_string(list).expect("JSON"))
            .map(|text| ExponentialBuckets::parse(&text, 1.0).expect("buckets"))
            .collect();
        let merged = |order: &mut dyn Iterator<Item = &ExponentialBuckets>| {
            let mut all = ExponentialBuckets::new();
            order.for_each(|one| all.merge(one));
            all
        };
        let forward = merged(&mut parsed.iter());
        let backward = merged(&mut parsed.iter().rev());
        prop_assert_eq!(forward.count(), lists.iter().flatten().map(|value| value.1).sum::<u64>());
        prop_assert_eq!((forward.scale, forward.zero), (backward.scale, backward.zero));
        prop_assert_eq!(forward.positive, backward.positive);
        prop_assert_eq!(forward.negative, backward.negative);
    }
}
