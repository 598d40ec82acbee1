//! Results as OpenTelemetry metrics, over HTTP with protobuf bodies. A window is a time range: sums and exponential
//! histograms are deltas, everything else is a gauge at the window's end.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message as _;

use crate::address::OutletAddress;
use crate::exponential::ExponentialBuckets;
use crate::otlp::proto::metric::OtlpData;
use crate::points::{MetricPoints, PointFamily, PointKind, PointValue, points};
use crate::post::{HttpPoster, authorization};
use crate::queue::OutletItem;
use crate::series::{Attributes, SeriesTable};
use crate::windows::{OpenWindows, RowWindow};
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport, RowMapping};

/// Converts a window to requests.
pub struct OtlpMapping {
    windows: OpenWindows,
    series_max: usize,
    now_ns: fn() -> u64,
    left_out: u64,
    number: u64,
}

impl OtlpMapping {
    /// Requests with at most `series_max` series; `now_ns`: time of results without windows.
    pub fn new(series_max: usize, now_ns: fn() -> u64) -> OtlpMapping {
        OtlpMapping {
            windows: OpenWindows::default(),
            series_max,
            now_ns,
            left_out: 0,
            number: 0,
        }
    }

    fn make(&mut self, windows: Vec<RowWindow>, out: &mut Vec<OutletMessage>) {
        for window in windows {
            let Some(head) = self.windows.head(window.result) else {
                continue;
            };
            let mut found = MetricPoints::default();
            window
                .batches
                .iter()
                .for_each(|batch| points(head, batch, &mut found));
            // Groups that became equal by redaction are merged.
            let mut series = SeriesTable::new(self.series_max);
            series.take(0, 0, found.points);
            self.left_out += found.left_out + series.left_out();
            let nanoseconds = |ns: i64| u64::try_from(ns).unwrap_or(0);
            let time = match window.bounds {
                Some((start, end)) => PointTime {
                    start: nanoseconds(start),
                    end: nanoseconds(end),
                },
                None => PointTime {
                    start: 0,
                    end: (self.now_ns)(),
                },
            };
            self.number += 1;
            let body = MessageBody::Bytes(request(&series, time).encode_to_vec());
            out.push(OutletMessage {
                body,
                rows: window.rows(),
                number: self.number,
            });
        }
    }
}

impl RowMapping for OtlpMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.take(item);
        self.make(windows, out);
    }

    fn finish(&mut self, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.finish();
        self.make(windows, out);
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Time range of a point, in nanoseconds since 1970; a start of 0 is unknown.
#[derive(Clone, Copy, Debug)]
struct PointTime {
    start: u64,
    end: u64,
}

fn request(series: &SeriesTable, time: PointTime) -> proto::OtlpRequest {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", "netalytics"), ("service.version", version)];
    let resource = resource.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metrics = series.families().map(|(family, series)| proto::OtlpMetric {
        name: family.name.clone(),
        description: family.help.clone(),
        unit: family.unit.ucum().into(),
        data: Some(data(family, series, time)),
    });
    let scope = proto::OtlpScope {
        name: "netalytics".into(),
        version: version.into(),
    };
    let scoped = proto::ScopeMetrics {
        scope: Some(scope),
        metrics: metrics.collect(),
    };
    let resource = proto::OtlpResource {
        attributes: attributes(&resource),
    };
    proto::OtlpRequest {
        resource_metrics: vec![proto::ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![scoped],
        }],
    }
}

fn data<'a>(
    family: &PointFamily,
    series: impl Iterator<Item = (&'a Attributes, &'a PointValue)>,
    time: PointTime,
) -> OtlpData {
    let mut numbers = Vec::new();
    let mut distributions = Vec::new();
    for (labels, value) in series {
        match value {
            PointValue::Number(value) => numbers.push(proto::NumberPoint {
                attributes: attributes(labels),
                start_time_unix_nano: time.start,
                time_unix_nano: time.end,
                as_double: Some(*value),
            }),
            PointValue::Distribution(all) => distributions.push(distribution(all, labels, time)),
        }
    }
    match family.kind {
        PointKind::Sum => OtlpData::Sum(proto::OtlpSum {
            data_points: numbers,
            aggregation_temporality: proto::DELTA,
            is_monotonic: true,
        }),
        PointKind::Gauge => OtlpData::Gauge(proto::OtlpGauge {
            data_points: numbers,
        }),
        PointKind::Distribution => OtlpData::ExponentialHistogram(proto::ExponentialHistogram {
            data_points: distributions,
            aggregation_temporality: proto::DELTA,
        }),
    }
}

fn distribution(
    all: &ExponentialBuckets,
    labels: &Attributes,
    time: PointTime,
) -> proto::DistributionPoint {
    proto::DistributionPoint {
        attributes: attributes(labels),
        start_time_unix_nano: time.start,
        time_unix_nano: time.end,
        count: all.count(),
        // Only without negative values.
        sum: all.negative.is_empty().then_some(all.sum),
        scale: all.scale,
        zero_count: all.zero,
        positive: buckets(&all.positive),
        negative: buckets(&all.negative),
    }
}

/// All counts from the first bucket on. Bucket `i` is above base^i here, and up to base^i in [`ExponentialBuckets`].
fn buckets(counts: &BTreeMap<i32, u64>) -> Option<proto::OtlpBuckets> {
    let first = *counts.first_key_value()?.0;
    let last = *counts.last_key_value()?.0;
    let bucket_counts = (first..=last)
        .map(|index| counts.get(&index).copied().unwrap_or(0))
        .collect();
    Some(proto::OtlpBuckets {
        offset: first - 1,
        bucket_counts,
    })
}

fn attributes(labels: &[(String, String)]) -> Vec<proto::KeyValue> {
    let any = |value: &String| proto::AnyValue {
        string_value: Some(value.clone()),
    };
    labels
        .iter()
        .map(|(key, value)| proto::KeyValue {
            key: key.clone(),
            value: Some(any(value)),
        })
        .collect()
}

/// An OTLP collector.
pub struct OtlpCollector {
    poster: HttpPoster,
    authorization: Option<String>,
}

impl OtlpCollector {
    /// The collector at this address, with a user's password or a token.
    ///
    /// # Errors
    /// A message.
    pub fn new(address: &OutletAddress) -> Result<OtlpCollector, String> {
        let authorization = authorization(address);
        Ok(OtlpCollector {
            poster: HttpPoster::new(address, "/v1/metrics")?,
            authorization,
        })
    }
}

impl OutletTransport for OtlpCollector {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        let mut headers = vec![("content-type", "application/x-protobuf".to_owned())];
        headers.extend(
            self.authorization
                .clone()
                .map(|value| ("authorization", value)),
        );
        let answer = self.poster.post(&headers, message.body.bytes(), patience)?;
        let answer = proto::OtlpResponse::decode(answer.as_slice()).unwrap_or_default();
        match answer.partial_success {
            Some(some) if some.rejected_data_points > 0 => {
                let n = some.rejected_data_points;
                Err(DeliveryFault::Final(format!(
                    "{n} points were rejected: {}",
                    some.error_message
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Messages of opentelemetry-proto (`metrics/v1`, `common/v1`, `resource/v1`), restricted to the fields used.
#[allow(missing_docs)]
mod proto {
    pub const DELTA: i32 = 1;

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpRequest {
        #[prost(message, repeated, tag = "1")]
        pub resource_metrics: Vec<ResourceMetrics>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpResponse {
        #[prost(message, optional, tag = "1")]
        pub partial_success: Option<PartialSuccess>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct PartialSuccess {
        #[prost(int64, tag = "1")]
        pub rejected_data_points: i64,
        #[prost(string, tag = "2")]
        pub error_message: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ResourceMetrics {
        #[prost(message, optional, tag = "1")]
        pub resource: Option<OtlpResource>,
        #[prost(message, repeated, tag = "2")]
        pub scope_metrics: Vec<ScopeMetrics>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpResource {
        #[prost(message, repeated, tag = "1")]
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ScopeMetrics {
        #[prost(message, optional, tag = "1")]
        pub scope: Option<OtlpScope>,
        #[prost(message, repeated, tag = "2")]
        pub metrics: Vec<OtlpMetric>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpScope {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub version: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpMetric {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub description: String,
        #[prost(string, tag = "3")]
        pub unit: String,
        #[prost(oneof = "metric::OtlpData", tags = "5, 7, 10")]
        pub data: Option<metric::OtlpData>,
    }

    pub mod metric {
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum OtlpData {
            #[prost(message, tag = "5")]
            Gauge(super::OtlpGauge),
            #[prost(message, tag = "7")]
            Sum(super::OtlpSum),
            #[prost(message, tag = "10")]
            ExponentialHistogram(super::ExponentialHistogram),
        }
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpGauge {
        #[prost(message, repeated, tag = "1")]
        pub data_points: Vec<NumberPoint>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpSum {
        #[prost(message, repeated, tag = "1")]
        pub data_points: Vec<NumberPoint>,
        #[prost(int32, tag = "2")]
        pub aggregation_temporality: i32,
        #[prost(bool, tag = "3")]
        pub is_monotonic: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ExponentialHistogram {
        #[prost(message, repeated, tag = "1")]
        pub data_points: Vec<DistributionPoint>,
        #[prost(int32, tag = "2")]
        pub aggregation_temporality: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct NumberPoint {
        #[prost(message, repeated, tag = "7")]
        pub attributes: Vec<KeyValue>,
        #[prost(fixed64, tag = "2")]
        pub start_time_unix_nano: u64,
        #[prost(fixed64, tag = "3")]
        pub time_unix_nano: u64,
        #[prost(double, optional, tag = "4")]
        pub as_double: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DistributionPoint {
        #[prost(message, repeated, tag = "1")]
        pub attributes: Vec<KeyValue>,
        #[prost(fixed64, tag = "2")]
        pub start_time_unix_nano: u64,
        #[prost(fixed64, tag = "3")]
        pub time_unix_nano: u64,
        #[prost(fixed64, tag = "4")]
        pub count: u64,
        #[prost(double, optional, tag = "5")]
        pub sum: Option<f64>,
        #[prost(sint32, tag = "6")]
        pub scale: i32,
        #[prost(fixed64, tag = "7")]
        pub zero_count: u64,
        #[prost(message, optional, tag = "8")]
        pub positive: Option<OtlpBuckets>,
        #[prost(message, optional, tag = "9")]
        pub negative: Option<OtlpBuckets>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct OtlpBuckets {
        #[prost(sint32, tag = "1")]
        pub offset: i32,
        #[prost(uint64, repeated, tag = "2")]
        pub bucket_counts: Vec<u64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct KeyValue {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(message, optional, tag = "2")]
        pub value: Option<AnyValue>,
    }

    /// Strings only.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AnyValue {
        #[prost(string, optional, tag = "1")]
        pub string_value: Option<String>,
    }
}
