//! A page of metrics as Prometheus reads it: text (version 0.0.4), or protobuf, which has native histograms. As text a distribution has a
//! bucket for each power of two.

use prost::Message;
use sinks::Vitals;

use crate::exponential::Exponential;
use crate::names::for_prometheus;
use crate::points::{Family, Kind, MetricUnit, Value};
use crate::series::{Attributes, Series};

/// What a scrape gets.
#[derive(Clone, Debug)]
pub struct Page {
    /// Results.
    pub series: Series,
    /// How the run goes.
    pub vitals: Vitals,
    /// What became of rows here and elsewhere, by name.
    pub health: Vec<Health>,
}

/// A count of our own.
#[derive(Clone, Debug)]
pub struct Health {
    /// The family's name.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Which series of it.
    pub labels: Vec<(String, String)>,
    /// The count.
    pub value: u64,
}

/// How distributions look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `text/plain; version=0.0.4`
    Text,
    /// `application/vnd.google.protobuf; …; encoding=delimited`
    Protobuf,
}

/// Bounds of the text's buckets, as powers of two: of seconds from a microsecond to four minutes, of others up to 2^40.
fn exponents(unit: MetricUnit) -> std::ops::RangeInclusive<i32> {
    if unit == MetricUnit::Seconds { -20..=8 } else { 0..=40 }
}

/// The page.
pub fn write(page: &Page, form: Form) -> Vec<u8> {
    let mut out = Vec::new();
    let mut families = own(page);
    for (family, series) in page.series.families() {
        let metrics: Vec<_> =
            series.map(|(attributes, value)| metric(family, attributes, value, form)).collect();
        let (name, r#type) = (name(family), kind(family));
        if let Some(same) = families.iter_mut().find(|family| family.name() == name) {
            // Two results have a column of this name; it means one thing to Prometheus.
            same.metric.extend((same.r#type() == r#type).then_some(metrics).into_iter().flatten());
            continue;
        }
        families.push(proto::MetricFamily {
            name: Some(name),
            help: Some(family.help.clone()),
            r#type: Some(r#type),
            metric: metrics,
        });
    }
    for family in families {
        match form {
            Form::Text => text(&family, &mut out),
            // A Vec grows.
            Form::Protobuf => {
                let _ = family.encode_length_delimited(&mut out);
            }
        }
    }
    out
}

fn name(family: &Family) -> String {
    let name = format!("{}{}", for_prometheus(&family.name), family.unit.suffix());
    // Ends that mean something else than a gauge.
    let misleads = ["_count", "_sum", "_bucket", "_total", "_info"].iter().any(|end| name.ends_with(end));
    match family.kind {
        Kind::Sum => format!("{name}_total"),
        Kind::Gauge if misleads => format!("{name}_in_window"),
        Kind::Gauge | Kind::Distribution => name,
    }
}

fn kind(family: &Family) -> i32 {
    match family.kind {
        Kind::Sum => proto::COUNTER,
        Kind::Gauge => proto::GAUGE,
        Kind::Distribution => proto::HISTOGRAM,
    }
}

/// How the run goes, a family after the other.
fn own(page: &Page) -> Vec<proto::MetricFamily> {
    let Vitals { packets, bytes, lost_packets, unseen_bytes, flows, tuples, rows } = page.vitals;
    let counts = [
        ("netalytics_packets_total", "packets looked at", packets),
        ("netalytics_packet_bytes_total", "their bytes on the wire", bytes),
        ("netalytics_lost_packets_total", "packets lost before they could be read", lost_packets),
        ("netalytics_unseen_bytes_total", "bytes that were acknowledged and not captured", unseen_bytes),
        ("netalytics_tuples_total", "tuples made of the packets", tuples),
        ("netalytics_rows_total", "rows of results", rows),
        ("netalytics_flows", "flows in the table", flows),
        ("netalytics_series", "series of results on this page", page.series.count() as u64),
        ("netalytics_points_left_out_total", "points that are not on this page", page.series.left_out()),
    ];
    let counts = counts.map(|(name, help, value)| Health { name, help, labels: Vec::new(), value });
    let mut families: Vec<proto::MetricFamily> = Vec::new();
    for Health { name, help, labels, value } in counts.iter().chain(&page.health) {
        let number = Some(proto::Number { value: Some(*value as f64) });
        let label = labels.iter().map(label).collect();
        let is_counter = name.ends_with("_total");
        let metric = match is_counter {
            true => proto::Metric { label, counter: number, ..proto::Metric::default() },
            false => proto::Metric { label, gauge: number, ..proto::Metric::default() },
        };
        match families.iter_mut().find(|family| family.name() == *name) {
            Some(family) => family.metric.push(metric),
            None => families.push(proto::MetricFamily {
                name: Some((*name).into()),
                help: Some((*help).into()),
                r#type: Some(if is_counter { proto::COUNTER } else { proto::GAUGE }),
                metric: vec![metric],
            }),
        }
    }
    families
}

fn label((name, value): &(String, String)) -> proto::LabelPair {
    proto::LabelPair { name: Some(for_prometheus(name)), value: Some(value.clone()) }
}

fn metric(family: &Family, attributes: &Attributes, value: &Value, form: Form) -> proto::Metric {
    let mut metric =
        proto::Metric { label: attributes.iter().map(label).collect(), ..proto::Metric::default() };
    match (value, family.kind) {
        (Value::Distribution(all), _) if form == Form::Protobuf => metric.histogram = Some(native(all)),
        (Value::Distribution(all), _) => metric.histogram = Some(classic(all, family.unit)),
        (Value::Number(value), Kind::Sum) => metric.counter = Some(proto::Number { value: Some(*value) }),
        (Value::Number(value), _) => metric.gauge = Some(proto::Number { value: Some(*value) }),
    }
    metric
}

fn native(all: &Exponential) -> proto::Histogram {
    let (positive_span, positive_delta) = spans(&all.positive);
    let (negative_span, negative_delta) = spans(&all.negative);
    proto::Histogram {
        sample_count: Some(all.count()),
        sample_sum: Some(all.sum),
        bucket: Vec::new(),
        schema: Some(all.scale),
        // Says, where there are no buckets, that it is a native one.
        zero_threshold: Some(f64::MIN_POSITIVE),
        zero_count: Some(all.zero),
        negative_span,
        negative_delta,
        positive_span,
        positive_delta,
    }
}

/// Runs of buckets, and each bucket's count less the one before.
fn spans(buckets: &std::collections::BTreeMap<i32, u64>) -> (Vec<proto::BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<proto::BucketSpan>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (index, count) in buckets {
        match spans.last_mut() {
            Some(span) if *index == next => span.length = span.length.map(|length| length + 1),
            _ => spans.push(proto::BucketSpan { offset: Some(index - next), length: Some(1) }),
        }
        deltas.push(*count as i64 - before);
        (next, before) = (index + 1, *count as i64);
    }
    (spans, deltas)
}

fn classic(all: &Exponential, unit: MetricUnit) -> proto::Histogram {
    let bucket = |exponent| proto::Bucket {
        cumulative_count: Some(all.up_to(exponent)),
        upper_bound: Some(f64::from(exponent).exp2()),
    };
    proto::Histogram {
        sample_count: Some(all.count()),
        sample_sum: Some(all.sum),
        bucket: exponents(unit).map(bucket).collect(),
        ..proto::Histogram::default()
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
            line(format!("{name}_bucket{} {}", labels(Some(("le", "+Inf".into()))), all.sample_count()));
            line(format!("{name}_sum{} {}", labels(None), all.sample_sum()));
            line(format!("{name}_count{} {}", labels(None), all.sample_count()));
        }
    }
}

fn labels(labels: &[proto::LabelPair], more: Option<(&str, String)>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let own = labels.iter().map(|label| format!("{}=\"{}\"", label.name(), escaped(label.value())));
    let all: Vec<String> = own.chain(more.map(|(name, value)| format!("{name}=\"{value}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// The messages of Prometheus's client data model (`io.prometheus.client`), as far as they are used here.
#[allow(missing_docs)]
mod proto {
    pub const COUNTER: i32 = 0;
    pub const GAUGE: i32 = 1;
    pub const HISTOGRAM: i32 = 4;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MetricFamily {
        #[prost(string, optional, tag = "1")]
        pub name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub help: Option<String>,
        #[prost(int32, optional, tag = "3")]
        pub r#type: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub metric: Vec<Metric>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub gauge: Option<Number>,
        #[prost(message, optional, tag = "3")]
        pub counter: Option<Number>,
        #[prost(message, optional, tag = "7")]
        pub histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct LabelPair {
        #[prost(string, optional, tag = "1")]
        pub name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub value: Option<String>,
    }

    /// Counter and Gauge have the same form.
    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Number {
        #[prost(double, optional, tag = "1")]
        pub value: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Histogram {
        #[prost(uint64, optional, tag = "1")]
        pub sample_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub sample_sum: Option<f64>,
        #[prost(message, repeated, tag = "3")]
        pub bucket: Vec<Bucket>,
        #[prost(sint32, optional, tag = "5")]
        pub schema: Option<i32>,
        #[prost(double, optional, tag = "6")]
        pub zero_threshold: Option<f64>,
        #[prost(uint64, optional, tag = "7")]
        pub zero_count: Option<u64>,
        #[prost(message, repeated, tag = "9")]
        pub negative_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, packed = "false", tag = "10")]
        pub negative_delta: Vec<i64>,
        #[prost(message, repeated, tag = "12")]
        pub positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, packed = "false", tag = "13")]
        pub positive_delta: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Bucket {
        #[prost(uint64, optional, tag = "1")]
        pub cumulative_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub upper_bound: Option<f64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct BucketSpan {
        #[prost(sint32, optional, tag = "1")]
        pub offset: Option<i32>,
        #[prost(uint32, optional, tag = "2")]
        pub length: Option<u32>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{Points, points};
    use crate::tests::{distribution, head};

    fn page() -> Page {
        let mut series = Series::new(10);
        let mut found = Points::default();
        points(&head(), &distribution("/a\"b", "[[1000000000,3],[1010000000,1],[4000000000,2]]"), &mut found);
        series.take(0, 0, found.points);
        Page { series, vitals: Vitals { packets: 7, ..Vitals::default() }, health: Vec::new() }
    }

    #[test]
    fn text_has_a_bucket_for_each_power_of_two() {
        let text = String::from_utf8(write(&page(), Form::Text)).expect("text");
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

    /// A family by its bytes: a length, then the message.
    #[test]
    fn protobuf_has_native_histograms() {
        let bytes = write(&page(), Form::Protobuf);
        let mut rest = bytes.as_slice();
        let mut families = Vec::new();
        while !rest.is_empty() {
            families.push(proto::MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
        }
        let family =
            families.iter().find(|f| f.name() == "netalytics_http_hist_seconds").expect("the distribution");
        let histogram = family.metric[0].histogram.clone().expect("a histogram");
        assert_eq!((histogram.schema(), histogram.sample_count(), histogram.bucket.len()), (5, 6, 0));
        let spans: Vec<_> = histogram.positive_span.iter().map(|s| (s.offset(), s.length())).collect();
        // 1 s, 1.01 s, 4 s: buckets 0, 1 and 64.
        assert_eq!((spans, histogram.positive_delta), (vec![(0, 2), (62, 1)], vec![3, -2, 1]));
    }
}
