//! Progress of a job by Flink's metrics. Flink collects them every ten seconds by default
//! (`metrics.fetcher.update-interval`), and only while they are requested; the first answer is empty. After the loss of
//! a TaskManager they may be missing for a long time, so every figure is optional.

use serde_json::Value;

use crate::cluster::FlinkCluster;
use crate::error::FlinkError;

/// Maximum length of a metrics list in a request's URL.
const LIST_MAX: usize = 3000;
/// Maximum vertices examined.
const VERTICES_MAX: usize = 256;

/// See the module documentation. Times are event time in milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlinkProgress {
    /// Records read by sources since their last start.
    pub records_read: Option<u64>,
    /// Records waiting in the topics.
    pub records_pending: Option<u64>,
    /// Watermark of all sources.
    pub source_watermark_ms: Option<i64>,
    /// Watermark of the last operators: earlier results are complete, except for their commit.
    pub result_watermark_ms: Option<i64>,
    /// Late rows dropped since the last start of the job.
    pub rows_late: Option<u64>,
    /// Busy share of the busiest operator.
    pub busy: Option<f64>,
    /// Maximum share of time that an operator is back-pressured.
    pub back_pressure: Option<f64>,
}

pub(crate) fn of(cluster: &FlinkCluster, job: &str) -> Result<FlinkProgress, FlinkError> {
    let mut metrics = Vec::new();
    let Some(found) = cluster.of_job(job, "")? else {
        return Ok(FlinkProgress::default());
    };
    let vertices = found["vertices"].as_array();
    for vertex in vertices.into_iter().flatten().take(VERTICES_MAX) {
        let is_plain = |id: &&str| id.len() <= 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
        let Some(vertex) = vertex["id"].as_str().filter(is_plain) else {
            continue;
        };
        let path = format!("/vertices/{vertex}/metrics");
        let Some(known) = cluster.of_job(job, &path)? else {
            continue;
        };
        let known = known
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|metric| metric["id"].as_str());
        for list in lists(known.filter(|name| is_wanted(name))) {
            let Some(values) = cluster.of_job(job, &format!("{path}?get={list}"))? else {
                continue;
            };
            metrics.extend(values.as_array().into_iter().flatten().filter_map(metric));
        }
    }
    Ok(FlinkProgress::sum(&metrics))
}

/// Last component of a metric's name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn is_wanted(name: &str) -> bool {
    let is_own = |name: &str| name.bytes().filter(|byte| *byte == b'.').count() == 1;
    match last(name) {
        "pendingRecords" | "currentInputWatermark" | "numLateRecordsDropped" => true,
        "currentOutputWatermark" | "numRecordsIn" => name.contains("Source__"),
        "busyTimeMsPerSecond" | "backPressuredTimeMsPerSecond" => is_own(name),
        _ => false,
    }
}

/// Encoded names in lists short enough for a URL.
fn lists<'m>(names: impl Iterator<Item = &'m str>) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for name in names {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let one = |byte: u8| {
            if safe(byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        };
        let name: String = name.bytes().map(one).collect();
        match lists
            .last_mut()
            .filter(|list| list.len() + name.len() < LIST_MAX)
        {
            Some(list) => {
                list.push(',');
                list.push_str(&name);
            }
            None => lists.push(name),
        }
    }
    lists
}

fn metric(of: &Value) -> Option<(String, f64)> {
    let value: f64 = of["value"].as_str()?.parse().ok()?;
    value
        .is_finite()
        .then(|| Some((of["id"].as_str()?.to_owned(), value)))?
}

impl FlinkProgress {
    fn sum(metrics: &[(String, f64)]) -> FlinkProgress {
        let all = |wanted: &'static str, of_source: bool| {
            let is_it =
                move |name: &str| last(name) == wanted && name.contains("Source__") == of_source;
            metrics
                .iter()
                .filter(move |(name, _)| is_it(name))
                .map(|(_, value)| *value)
        };
        let sum = |wanted, of_source| {
            all(wanted, of_source)
                .reduce(|a, b| a + b)
                .map(|sum| sum as u64)
        };
        let total = |wanted| sum(wanted, true);
        // Minimum over operators; those without a watermark report the minimum integer.
        let least = |values: &mut dyn Iterator<Item = f64>| {
            values
                .reduce(f64::min)
                .filter(|value| *value > i64::MIN as f64)
                .map(|value| value as i64)
        };
        let share = |wanted| {
            all(wanted, false)
                .reduce(f64::max)
                .map(|ms| (ms / 1000.0).clamp(0.0, 1.0))
        };
        FlinkProgress {
            records_read: total("numRecordsIn"),
            records_pending: total("pendingRecords"),
            source_watermark_ms: least(&mut all("currentOutputWatermark", true)),
            result_watermark_ms: least(&mut all("currentInputWatermark", false)),
            rows_late: sum("numLateRecordsDropped", false),
            busy: share("busyTimeMsPerSecond"),
            back_pressure: share("backPressuredTimeMsPerSecond"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_all_operators_become_one() {
        let of = |figures: &[(&str, f64)]| {
            let metrics: Vec<_> = figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect();
            FlinkProgress::sum(&metrics)
        };
        assert_eq!(of(&[]), FlinkProgress::default());
        let found = of(&[
            ("0.Source__ks[64].pendingRecords", 5.0),
            ("1.Source__ks[64].pendingRecords", 7.0),
            ("0.Source__ks[64].numRecordsIn", 39_500.0),
            ("0.Source__ks[64].currentOutputWatermark", 38_499.0),
            ("1.Source__ks[64].currentOutputWatermark", 39_000.0),
            ("0.currentInputWatermark", 38_499.0),
            ("0.m[70]__Writer.currentInputWatermark", 38_000.0),
            ("0.GlobalWindowAggregate[72].numLateRecordsDropped", 2.0),
            ("0.GlobalWindowAggregate[76].numLateRecordsDropped", 1.0),
            ("0.busyTimeMsPerSecond", 851.0),
            ("1.busyTimeMsPerSecond", 2_000.0),
            ("0.backPressuredTimeMsPerSecond", 0.0),
        ]);
        let wanted = FlinkProgress {
            records_read: Some(39_500),
            records_pending: Some(12),
            source_watermark_ms: Some(38_499),
            result_watermark_ms: Some(38_000),
            rows_late: Some(3),
            busy: Some(1.0),
            back_pressure: Some(0.0),
        };
        assert_eq!(found, wanted);
        let begun = of(&[
            ("0.currentInputWatermark", i64::MIN as f64),
            ("1.currentInputWatermark", 7.0),
        ]);
        assert_eq!(begun.result_watermark_ms, None);
    }

    #[test]
    fn lists_of_names_fit_into_addresses() {
        let name = "0.Source: a[1] -> b.numRecordsIn";
        let found = lists(std::iter::repeat_n(name, 100));
        assert!(found.len() > 1 && found.iter().all(|list| list.len() <= LIST_MAX));
        assert_eq!(
            found
                .iter()
                .map(|list| list.split(',').count())
                .sum::<usize>(),
            100
        );
        assert!(
            found[0].starts_with("0.Source%3A%20a%5B1%5D%20-%3E%20b.numRecordsIn,"),
            "{}",
            found[0]
        );
    }
}
