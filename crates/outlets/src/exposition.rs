//! A metrics page in Prometheus's formats: text (version 0.0.4), or protobuf, which supports native histograms. In
//! text, a distribution has a bucket per power of two. Internal counters and series of results share the page; each
//! family appears once.

use std::collections::HashMap;

use prost::Message;

use crate::exponential::ExponentialBuckets;
use crate::names::for_prometheus;
use crate::points::{MetricUnit, PointFamily, PointKind, PointValue};
use crate::proto;
use crate::series::SeriesTable;

/// Format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// `text/plain; version=0.0.4`
    Text,
    /// `application/vnd.google.protobuf; …; encoding=delimited`
    Protobuf,
}

impl ExpositionFormat {
    /// Format requested by the header `Accept`.
    #[must_use]
    pub fn wanted(accept: &str) -> ExpositionFormat {
        let accept = accept.to_ascii_lowercase();
        let takes = |word| accept.contains(word);
        let is_protobuf = takes("application/vnd.google.protobuf") && takes("encoding=delimited");
        if is_protobuf {
            ExpositionFormat::Protobuf
        } else {
            ExpositionFormat::Text
        }
    }

    /// Media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            ExpositionFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
            ExpositionFormat::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// Labels of a series: names and values.
pub type Labels<'l> = &'l [(&'l str, &'l str)];

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct MetricsPage {
    form: ExpositionFormat,
    families: Vec<proto::MetricFamily>,
    /// Index of each family by name.
    places: HashMap<String, usize>,
    /// Points of results that conflict with families of the same name.
    pub left_out: u64,
}

impl MetricsPage {
    /// An empty page.
    #[must_use]
    pub fn new(form: ExpositionFormat) -> MetricsPage {
        MetricsPage {
            form,
            families: Vec::new(),
            places: HashMap::new(),
            left_out: 0,
        }
    }

    /// Adds a counter; the name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let counter = Some(proto::PrometheusNumber { value: Some(value) });
        let metric = proto::PrometheusMetric {
            label: own(labels),
            counter,
            ..proto::PrometheusMetric::default()
        };
        self.add(name, help, proto::COUNTER, metric);
    }

    /// Adds a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, labels: Labels<'_>, value: f64) {
        let gauge = Some(proto::PrometheusNumber { value: Some(value) });
        let metric = proto::PrometheusMetric {
            label: own(labels),
            gauge,
            ..proto::PrometheusMetric::default()
        };
        self.add(name, help, proto::GAUGE, metric);
    }

    /// Adds a distribution in seconds.
    pub fn seconds(
        &mut self,
        name: &str,
        help: &str,
        labels: Labels<'_>,
        all: &ExponentialBuckets,
    ) {
        let histogram = Some(histogram(all, MetricUnit::Seconds, self.form));
        let metric = proto::PrometheusMetric {
            label: own(labels),
            histogram,
            ..proto::PrometheusMetric::default()
        };
        self.add(name, help, proto::HISTOGRAM, metric);
    }

    /// Adds series of results, with additional labels.
    pub fn results(&mut self, series: &SeriesTable, more: Labels<'_>) {
        for (family, list) in series.families() {
            let name = name(family);
            let kind = kind(family);
            for (attributes, value) in list {
                let label = attributes
                    .iter()
                    .map(|(name, value)| label(name, value))
                    .chain(own(more));
                let mut metric = proto::PrometheusMetric {
                    label: label.collect(),
                    ..proto::PrometheusMetric::default()
                };
                let number = |value: &f64| {
                    Some(proto::PrometheusNumber {
                        value: Some(*value),
                    })
                };
                match (value, family.kind) {
                    (PointValue::Distribution(all), _) => {
                        metric.histogram = Some(histogram(all, family.unit, self.form));
                    }
                    (PointValue::Number(value), PointKind::Sum) => metric.counter = number(value),
                    (PointValue::Number(value), _) => metric.gauge = number(value),
                }
                self.add(&name, &family.help, kind, metric);
            }
        }
    }

    /// A name has one type in Prometheus: conflicting ones are omitted.
    fn add(&mut self, name: &str, help: &str, kind: i32, metric: proto::PrometheusMetric) {
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.families.push(proto::MetricFamily {
                name: Some(name.to_owned()),
                help: Some(help.to_owned()),
                r#type: Some(kind),
                metric: Vec::new(),
            });
            self.families.len() - 1
        });
        let family = &mut self.families[place];
        if family.r#type() == kind {
            family.metric.push(metric)
        } else {
            self.left_out += 1
        }
    }

    /// The page as bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for family in &self.families {
            match self.form {
                ExpositionFormat::Text => text(family, &mut out),
                // A Vec grows.
                ExpositionFormat::Protobuf => drop(family.encode_length_delimited(&mut out)),
            }
        }
        out
    }
}

/// Exponents of the text buckets' bounds: for seconds from a microsecond to four minutes, for others up to 2^40.
fn exponents(unit: MetricUnit) -> std::ops::RangeInclusive<i32> {
    if unit == MetricUnit::Seconds {
        -20..=8
    } else {
        0..=40
    }
}

fn name(family: &PointFamily) -> String {
    let name = format!("{}{}", for_prometheus(&family.name), family.unit.suffix());
    // Suffixes with a special meaning that a gauge must not have.
    let misleads = ["_count", "_sum", "_bucket", "_total", "_info"]
        .iter()
        .any(|end| name.ends_with(end));
    match family.kind {
        PointKind::Sum => format!("{name}_total"),
        PointKind::Gauge if misleads => format!("{name}_in_window"),
        PointKind::Gauge | PointKind::Distribution => name,
    }
}

fn kind(family: &PointFamily) -> i32 {
    match family.kind {
        PointKind::Sum => proto::COUNTER,
        PointKind::Gauge => proto::GAUGE,
        PointKind::Distribution => proto::HISTOGRAM,
    }
}

fn label(name: &str, value: &str) -> proto::LabelPair {
    proto::LabelPair {
        name: Some(for_prometheus(name)),
        value: Some(value.to_owned()),
    }
}

fn own(labels: Labels<'_>) -> Vec<proto::LabelPair> {
    labels
        .iter()
        .map(|(name, value)| label(name, value))
        .collect()
}

fn histogram(
    all: &ExponentialBuckets,
    unit: MetricUnit,
    form: ExpositionFormat,
) -> proto::NativeHistogram {
    match form {
        ExpositionFormat::Protobuf => native(all),
        ExpositionFormat::Text => classic(all, unit),
    }
}

fn native(all: &ExponentialBuckets) -> proto::NativeHistogram {
    let (positive_span, positive_delta) = spans(&all.positive);
    let (negative_span, negative_delta) = spans(&all.negative);
    proto::NativeHistogram {
        sample_count: Some(all.count()),
        sample_sum: Some(all.sum),
        bucket: Vec::new(),
        schema: Some(all.scale),
        // Marks a native histogram without buckets.
        zero_threshold: Some(f64::MIN_POSITIVE),
        zero_count: Some(all.zero),
        negative_span,
        negative_delta,
        positive_span,
        positive_delta,
    }
}

/// Spans of buckets, and deltas of their counts.
fn spans(buckets: &std::collections::BTreeMap<i32, u64>) -> (Vec<proto::BucketSpan>, Vec<i64>) {
    let mut spans = Vec::<proto::BucketSpan>::new();
    let mut deltas = Vec::new();
    let mut next = 0;
    let mut before = 0;
    for (index, count) in buckets {
        match spans.last_mut() {
            Some(span) if *index == next => span.length = span.length.map(|length| length + 1),
            _ => spans.push(proto::BucketSpan {
                offset: Some(index - next),
                length: Some(1),
            }),
        }
        deltas.push(*count as i64 - before);
        next = index + 1;
        before = *count as i64;
    }
    (spans, deltas)
}

fn classic(all: &ExponentialBuckets, unit: MetricUnit) -> proto::NativeHistogram {
    let bucket = |exponent| proto::HistogramBucket {
        cumulative_count: Some(all.up_to(exponent)),
        upper_bound: Some(f64::from(exponent).exp2()),
    };
    proto::NativeHistogram {
        sample_count: Some(all.count()),
        sample_sum: Some(all.sum),
        bucket: exponents(unit).map(bucket).collect(),
        ..proto::NativeHistogram::default()
    }
}

/// A family as text.
fn text(family: &proto::MetricFamily, out: &mut Vec<u8>) {
    let name = family.name();
    let kind = ["counter", "gauge", "summary", "untyped", "histogram"][family.r#type() as usize];
    let help = family.help().replace('\\', "\\\\").replace('\n', "\\n");
    let mut line = |text: String| {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    };
    line(format!("# HELP {name} {help}"));
    line(format!("# TYPE {name} {kind}"));
    for metric in &family.metric {
        let labels = |more: Option<(&str, String)>| labels(&metric.label, more);
        if let Some(number) = metric.counter.as_ref().or(metric.gauge.as_ref()) {
            line(format!("{name}{} {}", labels(None), number.value()));
        }
        if let Some(all) = &metric.histogram {
            for bucket in &all.bucket {
                let le = labels(Some(("le", bucket.upper_bound().to_string())));
                line(format!("{name}_bucket{le} {}", bucket.cumulative_count()));
            }
            line(format!(
                "{name}_bucket{} {}",
                labels(Some(("le", "+Inf".into()))),
                all.sample_count()
            ));
            line(format!("{name}_sum{} {}", labels(None), all.sample_sum()));
            line(format!(
                "{name}_count{} {}",
                labels(None),
                all.sample_count()
            ));
        }
    }
}

fn labels(labels: &[proto::LabelPair], more: Option<(&str, String)>) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let own = labels
        .iter()
        .map(|label| format!("{}=\"{}\"", label.name(), escaped(label.value())));
    let all: Vec<String> = own
        .chain(more.map(|(name, value)| format!("{name}=\"{value}\"")))
        .collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{MetricPoints, points};
    use crate::tests::{distribution, head};

    fn page(form: ExpositionFormat) -> Vec<u8> {
        let mut series = SeriesTable::new(10);
        let mut found = MetricPoints::default();
        points(
            &head(),
            &distribution("/a\"b", "[[1000000000,3],[1010000000,1],[4000000000,2]]"),
            &mut found,
        );
        series.take(0, 0, found.points);
        let mut page = MetricsPage::new(form);
        page.counter("netalytics_packets_total", "packets", &[], 7.0);
        page.results(&series, &[]);
        // A name of another type.
        page.gauge("netalytics_packets_total", "packets", &[], 8.0);
        assert_eq!(page.left_out, 1);
        page.write()
    }

    #[test]
    fn text_has_a_bucket_for_each_power_of_two() {
        let text = String::from_utf8(page(ExpositionFormat::Text)).expect("text");
        let labels = "processor=\"group-count\",url_template=\"/a\\\"b\"";
        for line in [
            "# TYPE netalytics_packets_total counter",
            "netalytics_packets_total 7",
            "# TYPE netalytics_http_hist_seconds histogram",
            &format!("netalytics_http_hist_seconds_bucket{{{labels},le=\"0.5\"}} 0"),
            &format!("netalytics_http_hist_seconds_bucket{{{labels},le=\"1\"}} 3"),
            &format!("netalytics_http_hist_seconds_bucket{{{labels},le=\"2\"}} 4"),
            &format!("netalytics_http_hist_seconds_bucket{{{labels},le=\"4\"}} 6"),
            &format!("netalytics_http_hist_seconds_bucket{{{labels},le=\"+Inf\"}} 6"),
            &format!("netalytics_http_hist_seconds_count{{{labels}}} 6"),
            &format!("netalytics_http_count_total{{{labels}}} 6"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    /// A family is encoded as a length and the message.
    #[test]
    fn protobuf_has_native_histograms() {
        let bytes = page(ExpositionFormat::Protobuf);
        let mut rest = bytes.as_slice();
        let mut families = Vec::new();
        while !rest.is_empty() {
            families
                .push(proto::MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
        }
        let family = families
            .iter()
            .find(|f| f.name() == "netalytics_http_hist_seconds")
            .expect("the distribution");
        let histogram = family.metric[0].histogram.clone().expect("a histogram");
        assert_eq!(
            (
                histogram.schema(),
                histogram.sample_count(),
                histogram.bucket.len()
            ),
            (5, 6, 0)
        );
        let spans: Vec<_> = histogram
            .positive_span
            .iter()
            .map(|s| (s.offset(), s.length()))
            .collect();
        // 1 s, 1.01 s, 4 s: buckets 0, 1 and 64.
        assert_eq!(
            (spans, histogram.positive_delta),
            (vec![(0, 2), (62, 1)], vec![3, -2, 1])
        );
    }
}
