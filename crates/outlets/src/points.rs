//! Rows of results as metric points: group columns become attributes, aggregates numbers with a unit, `hist` a
//! distribution. Additive values are marked, so that they can be accumulated over windows. Shared by Prometheus and
//! OTLP.

use arrow_array::Array;
use sinks::ResultHead;
use sinks::cells::{CellValues, ColumnCells};
use tuple::{Batch, DataType, Field, FieldId, Unit};

use crate::exponential::ExponentialBuckets;
use crate::names::attribute;

/// A value with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPoint {
    /// Metric family; all points of a family have the same type.
    pub family: PointFamily,
    /// Attributes that identify the series, sorted by name.
    pub attributes: Vec<(String, String)>,
    /// Value.
    pub value: PointValue,
}

/// Properties shared by points.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PointFamily {
    /// Name in OpenTelemetry style: `netalytics.http.avg`.
    pub name: String,
    /// Unit.
    pub unit: MetricUnit,
    /// Kind.
    pub kind: PointKind,
    /// Description, one line.
    pub help: String,
}

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricUnit {
    /// Dimensionless or unknown.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Events per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Ratio, 0 to 1.
    Ratio,
}

impl MetricUnit {
    /// UCUM name, as in OTLP.
    pub fn ucum(self) -> &'static str {
        match self {
            MetricUnit::None => "",
            MetricUnit::Seconds => "s",
            MetricUnit::Bytes => "By",
            MetricUnit::PerSecond => "1/s",
            MetricUnit::BytesPerSecond => "By/s",
            MetricUnit::Ratio => "1",
        }
    }

    /// Suffix of Prometheus names.
    pub fn suffix(self) -> &'static str {
        match self {
            MetricUnit::None => "",
            MetricUnit::Seconds => "_seconds",
            MetricUnit::Bytes => "_bytes",
            MetricUnit::PerSecond => "_per_second",
            MetricUnit::BytesPerSecond => "_bytes_per_second",
            MetricUnit::Ratio => "_ratio",
        }
    }
}

/// Kind of a metric over several windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointKind {
    /// Additive: the sum over windows is the value for the whole period.
    Sum,
    /// Valid for its window only.
    Gauge,
    /// An additive distribution.
    Distribution,
}

/// Value of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum PointValue {
    /// A number.
    Number(f64),
    /// A distribution.
    Distribution(ExponentialBuckets),
}

/// Points, and the number of values that have no representation as a point.
#[derive(Debug, Default)]
pub struct MetricPoints {
    /// Points.
    pub points: Vec<MetricPoint>,
    /// Distributions of overlapping windows or of selected groups, which are not additive.
    pub left_out: u64,
}

/// Role of a result column in metrics.
enum MetricRole {
    Attribute(String),
    Number(PointFamily, f64),
    Distribution(PointFamily, f64),
    /// A point only if true.
    Flag(PointFamily),
    Nothing,
    /// No representation.
    LeftOut,
}

/// Converts rows to points.
pub fn points(head: &ResultHead, batch: &Batch, out: &mut MetricPoints) {
    let adds_up = adds_up(head, batch);
    let schema = batch.schema();
    let first_value = usize::from(
        schema
            .fields
            .first()
            .is_some_and(|f| f.name == "window_start"),
    ) * 2
        + head.keys;
    let columns: Vec<(MetricRole, ColumnCells<'_>)> = schema
        .ids()
        .filter_map(|id| {
            Some((
                role(
                    head,
                    schema.field(id),
                    usize::from(id.0),
                    first_value,
                    adds_up,
                ),
                ColumnCells::of(batch, id)?,
            ))
        })
        .collect();
    for row in 0..batch.rows() {
        let mut attributes = vec![(
            "processor".to_owned(),
            head.processor.clone().unwrap_or_default(),
        )];
        for (role, cells) in &columns {
            if let MetricRole::Attribute(name) = role {
                attributes.push((name.clone(), text(cells, row)));
            }
        }
        attributes.sort();
        for (role, cells) in &columns {
            let (family, value) = match role {
                MetricRole::Number(family, unit) => (
                    family,
                    number(cells, row).map(|v| PointValue::Number(v * unit)),
                ),
                MetricRole::Flag(family) => (
                    family,
                    is_true(cells, row).then_some(PointValue::Number(1.0)),
                ),
                MetricRole::Distribution(family, unit) if !cells.is_null(row) => (
                    family,
                    ExponentialBuckets::parse(&text(cells, row), *unit)
                        .map(PointValue::Distribution),
                ),
                MetricRole::LeftOut => {
                    out.left_out += 1;
                    continue;
                }
                _ => continue,
            };
            out.points.extend(value.map(|value| MetricPoint {
                family: family.clone(),
                attributes: attributes.clone(),
                value,
            }));
        }
    }
}

/// Whether windows are consecutive and contain all of their rows.
fn adds_up(head: &ResultHead, batch: &Batch) -> bool {
    let is_ranked = head.columns.iter().any(|name| name == "rank");
    let is_chosen = head.empty == sinks::EmptyReason::NoneChosen;
    let is_windowed = batch
        .schema()
        .fields
        .first()
        .is_some_and(|f| f.name == "window_start")
        && batch.rows() > 0;
    let length = || batch.i64(FieldId(1)).value(0) - batch.i64(FieldId(0)).value(0);
    let overlaps = is_windowed && head.slide_ns.is_some_and(|slide| slide < length());
    !is_ranked && !is_chosen && !overlaps
}

fn role(
    head: &ResultHead,
    field: &Field,
    place: usize,
    first_value: usize,
    adds_up: bool,
) -> MetricRole {
    let name = &*field.name;
    // Missing agents do not become a label: each set of them would be another series.
    if matches!(name, "window_start" | "window_end" | sinks::AGENTS_MISSING) {
        return MetricRole::Nothing;
    }
    if place < first_value
        || matches!(
            field.data_type,
            DataType::Text | DataType::Ip | DataType::Hashes
        )
    {
        return MetricRole::Attribute(attribute(&head.parsers, name).to_owned());
    }
    let (unit, factor) = match field.unit {
        Unit::Nanoseconds => (MetricUnit::Seconds, 1e-9),
        Unit::EpochNanoseconds => (MetricUnit::Seconds, 1e-9),
        Unit::Bytes => (MetricUnit::Bytes, 1.0),
        Unit::PerSecond => (MetricUnit::PerSecond, 1.0),
        Unit::BytesPerSecond => (MetricUnit::BytesPerSecond, 1.0),
        Unit::Fraction => (MetricUnit::Ratio, 1.0),
        Unit::None | Unit::Id => (MetricUnit::None, 1.0),
    };
    let family = |kind| PointFamily {
        name: metric_name(head, name),
        unit,
        kind,
        help: help(field),
    };
    match field.data_type {
        DataType::Bool => MetricRole::Flag(family(PointKind::Gauge)),
        DataType::Json if name.starts_with("cdf") => MetricRole::Nothing,
        DataType::Json if name.ends_with("_low") || name.ends_with("_high") => MetricRole::Nothing,
        DataType::Json if adds_up => {
            MetricRole::Distribution(family(PointKind::Distribution), factor)
        }
        DataType::Json => MetricRole::LeftOut,
        _ if adds_up
            && (name == "count" || name.starts_with("sum"))
            && !name.ends_with("_low")
            && !name.ends_with("_high") =>
        {
            MetricRole::Number(family(PointKind::Sum), factor)
        }
        _ => MetricRole::Number(family(PointKind::Gauge), factor),
    }
}

/// `avg_ns` of http as `netalytics.http.avg`: units are separate.
fn metric_name(head: &ResultHead, column: &str) -> String {
    let (stem, end) = match column.strip_suffix("_low").map(|stem| (stem, "_low")) {
        Some(split) => split,
        None => column
            .strip_suffix("_high")
            .map_or((column, ""), |stem| (stem, "_high")),
    };
    let stem = ["_ns", "_bytes"]
        .iter()
        .find_map(|unit| stem.strip_suffix(unit))
        .unwrap_or(stem);
    format!("netalytics.{}.{stem}{end}", head.parsers.join("_"))
}

fn help(field: &Field) -> String {
    match &*field.doc {
        "" => field.name.to_string(),
        doc => doc.to_owned(),
    }
}

/// Value of a numeric column; `None` for null.
pub(crate) fn number(cells: &ColumnCells<'_>, row: usize) -> Option<f64> {
    if cells.is_null(row) {
        return None;
    }
    match cells.values {
        CellValues::U64(a) => Some(a.value(row) as f64),
        CellValues::I64(a) => Some(a.value(row) as f64),
        CellValues::F64(a) => Some(a.value(row)),
        _ => None,
    }
}

fn is_true(cells: &ColumnCells<'_>, row: usize) -> bool {
    matches!(cells.values, CellValues::Bool(a) if !a.is_null(row) && a.value(row))
}

/// Empty for null: Prometheus treats that as an absent label.
fn text(cells: &ColumnCells<'_>, row: usize) -> String {
    let mut text = Vec::new();
    if !cells.is_null(row) {
        cells.push(row, &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{distribution, head};

    fn check(head: &ResultHead, expected: &[(&str, MetricUnit, PointKind, f64)], left_out: u64) {
        let mut found = MetricPoints::default();
        points(head, &distribution("/a", "[[1000000000,6]]"), &mut found);
        let attributes = [("processor", "group-count"), ("url.template", "/a")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert!(
            found
                .points
                .iter()
                .all(|point| point.attributes == attributes),
            "{found:?}"
        );
        let seen = found.points.iter().map(|point| {
            let value = match &point.value {
                PointValue::Number(value) => *value,
                PointValue::Distribution(all) => all.count() as f64,
            };
            (
                point.family.name.as_str(),
                point.family.unit,
                point.family.kind,
                value,
            )
        });
        assert_eq!(seen.collect::<Vec<_>>(), expected);
        assert_eq!(found.left_out, left_out);
    }

    #[test]
    fn columns_have_their_roles() {
        use MetricUnit::{None, Seconds};
        let low = ("netalytics.http.p99_low", Seconds, PointKind::Gauge, 2.5);
        let flag = ("netalytics.http.approximate", None, PointKind::Gauge, 1.0);
        let hist = (
            "netalytics.http.hist",
            Seconds,
            PointKind::Distribution,
            6.0,
        );
        let count = |kind| ("netalytics.http.count", None, kind, 6.0);
        check(&head(), &[count(PointKind::Sum), hist, low, flag], 0);
        // Overlapping windows and selected groups are not additive.
        let sliding = ResultHead {
            slide_ns: Some(1_000_000_000),
            ..head()
        };
        check(&sliding, &[count(PointKind::Gauge), low, flag], 1);
        let chosen = ResultHead {
            empty: sinks::EmptyReason::NoneChosen,
            ..head()
        };
        check(&chosen, &[count(PointKind::Gauge), low, flag], 1);
    }
}
