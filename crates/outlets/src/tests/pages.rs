//! Metrics pages, read by a parser of Prometheus's text format and decoded from protobuf.

use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message;

use super::{distribution, head};
use crate::exponential::ExponentialBuckets;
use crate::exposition::{ExpositionFormat, MetricsPage};
use crate::points::{MetricPoints, points};
use crate::proto;
use crate::series::SeriesTable;

/// A sample of a page: name, labels, value.
type TextSample = (String, Vec<(String, String)>, f64);

/// Reads one line by the format's description: `NAME{LABEL="ESCAPED",…} VALUE`.
fn sample(line: &str) -> TextSample {
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ').expect("a value");
        return (name.into(), vec![], value.parse().expect("a number"));
    };
    let mut labels = Vec::new();
    let mut chars = rest.chars();
    loop {
        let label: String = chars.by_ref().take_while(|c| *c != '=').collect();
        assert_eq!(chars.next(), Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match chars.next().expect("a quote") {
                '"' => break,
                '\\' => value.push(match chars.next().expect("an escape") {
                    'n' => '\n',
                    c @ ('"' | '\\') => c,
                    c => panic!("an unknown escape: {c:?}"),
                }),
                c => value.push(c),
            }
        }
        labels.push((label, value));
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            other => panic!("{other:?} in {line}"),
        }
    }
    let value = chars.as_str().trim_start().parse().expect("a number");
    (name.into(), labels, value)
}

fn samples(page: &MetricsPage) -> Vec<TextSample> {
    let text = String::from_utf8(page.write()).expect("UTF-8");
    let lines = text.split('\n').filter(|line| !line.is_empty());
    lines
        .filter(|line| !line.starts_with('#'))
        .map(sample)
        .collect()
}

fn families(page: &MetricsPage) -> Vec<proto::MetricFamily> {
    let bytes = page.write();
    let mut rest = bytes.as_slice();
    let mut families = Vec::new();
    while !rest.is_empty() {
        let family = proto::MetricFamily::decode_length_delimited(&mut rest);
        families.push(family.expect("a family"));
    }
    families
}

/// A page with a histogram of these values.
fn of_values(form: ExpositionFormat, values: &[f64]) -> MetricsPage {
    let mut all = ExponentialBuckets::new();
    values.iter().for_each(|value| all.record(*value));
    let mut page = MetricsPage::new(form);
    page.seconds("t_seconds", "times", &[("of", "x")], &all);
    page
}

/// Buckets of a native histogram, from its spans.
fn unfolded(spans: &[proto::BucketSpan], deltas: &[i64]) -> BTreeMap<i32, u64> {
    let mut buckets = BTreeMap::new();
    let mut deltas = deltas.iter();
    let (mut index, mut count) = (0, 0);
    for span in spans {
        index += span.offset();
        for _ in 0..span.length() {
            count += deltas.next().expect("a delta for each bucket");
            buckets.insert(index, u64::try_from(count).expect("not negative"));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    buckets
}

proptest! {
    #[test]
    fn labels_and_help_survive_any_text(value in any::<String>(), help in any::<String>()) {
        // A carriage return is not escaped, and readers divide lines at line feeds only.
        let mut page = MetricsPage::new(ExpositionFormat::Text);
        page.counter("a_total", &help, &[("url.template", value.as_str()), ("b", "")], 1e21);
        let expected = [("url_template".to_owned(), value), ("b".to_owned(), String::new())];
        prop_assert_eq!(samples(&page), [("a_total".to_owned(), expected.to_vec(), 1e21)]);
    }

    #[test]
    fn text_buckets_count_the_values_up_to_their_bounds(values in prop::collection::vec(1e-7f64..1e3, 0..60)) {
        let page = of_values(ExpositionFormat::Text, &values);
        let mut bounds = 0;
        for (name, labels, count) in samples(&page) {
            let le = labels.iter().find(|(label, _)| label == "le").map(|(_, le)| le.as_str());
            let expected = match (name.as_str(), le) {
                ("t_seconds_bucket", Some("+Inf")) | ("t_seconds_count", None) => values.len(),
                ("t_seconds_bucket", Some(le)) => {
                    bounds += 1;
                    let le: f64 = le.parse().expect("a number");
                    values.iter().filter(|value| **value <= le).count()
                }
                ("t_seconds_sum", None) => {
                    prop_assert!((count - values.iter().sum::<f64>()).abs() <= 1e-9 * count.abs());
                    continue;
                }
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(count, expected as f64, "{} {:?}", name, le);
        }
        prop_assert_eq!(bounds, 29);
    }

    #[test]
    fn native_buckets_are_those_of_the_distribution(values in prop::collection::vec(-1e3f64..1e3, 0..60)) {
        let page = of_values(ExpositionFormat::Protobuf, &values);
        let family = &families(&page)[0];
        let histogram = family.metric[0].histogram.clone().expect("a histogram");
        let mut all = ExponentialBuckets::new();
        values.iter().for_each(|value| all.record(*value));
        prop_assert_eq!(unfolded(&histogram.positive_span, &histogram.positive_delta), all.positive);
        prop_assert_eq!(unfolded(&histogram.negative_span, &histogram.negative_delta), all.negative);
        prop_assert_eq!(histogram.sample_count(), values.len() as u64);
    }
}

/// Prometheus distinguishes an empty native histogram from a classic one by its zero threshold or a span.
#[test]
fn a_distribution_without_values_is_a_histogram_in_both_formats() {
    let page = of_values(ExpositionFormat::Protobuf, &[]);
    let histogram = families(&page)[0].metric[0].histogram.clone().expect("one");
    assert_eq!(histogram.sample_count(), 0);
    assert!(histogram.zero_threshold() > 0.0);
    let text = samples(&of_values(ExpositionFormat::Text, &[]));
    assert!(text.iter().all(|(_, _, value)| *value == 0.0));
}

#[test]
fn numbers_that_are_not_finite_are_readable() {
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    for (name, value) in [("a", f64::NAN), ("b", f64::INFINITY), ("c", f64::MIN)] {
        page.gauge(name, "", &[], value);
    }
    let values: Vec<f64> = samples(&page)
        .into_iter()
        .map(|(_, _, value)| value)
        .collect();
    assert!(values[0].is_nan());
    assert_eq!(values[1..], [f64::INFINITY, f64::MIN]);
}

/// Two jobs with results of one name share a family, which has one header.
#[test]
fn a_family_of_several_results_is_on_the_page_once() {
    let mut series = SeriesTable::new(10);
    let mut found = MetricPoints::default();
    points(&head(), &distribution("/a", "[[1000000000,6]]"), &mut found);
    series.take(0, 0, found.points);
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    page.results(&series, &[("job_id", "1")]);
    page.results(&series, &[("job_id", "2")]);
    let text = String::from_utf8(page.write()).expect("UTF-8");
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{text}");
    // Each sample differs from all others by its labels.
    let mut keys: Vec<_> = samples(&page)
        .into_iter()
        .map(|(name, labels, _)| (name, labels))
        .collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count, "{text}");
}

#[test]
fn protobuf_is_for_readers_that_ask_for_both_of_its_parameters() {
    let proto = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for (accept, is_protobuf) in [
        (proto.to_owned(), true),
        (
            format!("{proto};q=0.6,text/plain;version=0.0.4;q=0.5"),
            true,
        ),
        (proto.to_uppercase(), true),
        (proto.replace("delimited", "text"), false),
        ("application/openmetrics-text;version=1.0.0".into(), false),
        ("*/*".into(), false),
        (String::new(), false),
    ] {
        let format = ExpositionFormat::wanted(&accept);
        assert_eq!(
            format == ExpositionFormat::Protobuf,
            is_protobuf,
            "{accept}"
        );
    }
}
