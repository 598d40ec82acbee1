//! Collects rows for a report up to a limit and counts the rest. Texts are stored unchanged and escaped on output.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;

use serde_json::Value;
use sinks::cells::{CellValues, ColumnCells, ip};
use sinks::{ResultHead, Sink};
use tuple::{Batch, DataType, FieldId, Schema, Unit};

/// Maximum rows per result, for tables and pictures.
const ROWS_MAX: usize = 50_000;
/// Maximum bytes of all rows.
const BYTES_MAX: usize = 64 << 20;
/// Columns with the distribution of a result, by name.
const DISTRIBUTIONS: [&str; 2] = ["hist", "cdf"];
/// Columns with frequencies or success rates.
const HOW_OFTEN: [&str; 4] = ["count", "rate", "success", "ratio"];
/// Auxiliary numbers that are no measures.
const BESIDE: [&str; 4] = ["rank", "error_bound", "lost", "approximate"];

/// Rows of all results.
#[derive(Default)]
pub struct ReportRows {
    /// Results by their index in the query.
    pub results: Vec<ReportResult>,
    /// Host names, if shown.
    pub names: Option<HashMap<IpAddr, String>>,
    /// Number of tuples by quality.
    pub qualities: BTreeMap<String, u64>,
    bytes: usize,
}

/// Rows of a result.
#[derive(Default)]
pub struct ReportResult {
    /// Description.
    pub head: ResultHead,
    batches: Vec<Batch>,
    /// Number of stored rows.
    pub kept: usize,
    /// Total number of rows.
    pub all: u64,
}

/// A row.
#[derive(Clone, Copy)]
pub struct ReportRow<'a> {
    batch: &'a Batch,
    row: usize,
}

impl ReportRows {
    /// Without rows; an additional result counts tuples by `quality`.
    pub fn new(heads: Vec<ResultHead>, names: Option<HashMap<IpAddr, String>>) -> ReportRows {
        let results = heads.into_iter().map(|head| ReportResult {
            head,
            ..ReportResult::default()
        });
        ReportRows {
            results: results.collect(),
            names,
            ..ReportRows::default()
        }
    }

    /// Adds tuples, or rows with numbers of tuples.
    fn count_qualities(&mut self, batch: &Batch) {
        let find = |name: &str| {
            batch
                .present()
                .find(|id| batch.schema().field(*id).name == name)
        };
        let Some(quality) = find("quality") else {
            return;
        };
        let count = find("count");
        for line in (0..batch.rows()).map(|row| ReportRow { batch, row }) {
            let Some(name) = line.exact(quality) else {
                continue;
            };
            let number = count
                .map_or(Some(1.0), |count| line.number(count))
                .unwrap_or_default();
            *self.qualities.entry(name).or_default() += number.round() as u64;
        }
    }
}

impl Sink for ReportRows {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        if self
            .results
            .get(result)
            .is_none_or(|of| of.head.processor.is_none())
        {
            self.count_qualities(batch);
        }
        let room = BYTES_MAX.saturating_sub(self.bytes);
        let Some(of) = self.results.get_mut(result) else {
            return Ok(());
        };
        // Only a prefix is stored: after the first dropped row, no further rows are added.
        let has_all = of.kept as u64 == of.all;
        of.all += batch.rows() as u64;
        let rows = batch.rows().min(ROWS_MAX - of.kept);
        if rows > 0 && has_all && batch.bytes() <= room {
            self.bytes += batch.bytes();
            of.kept += rows;
            of.batches.push(batch.slice(0, rows));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn learn_name(&mut self, ip: IpAddr, name: &str) {
        if let Some(names) = &mut self.names {
            names.entry(ip).or_insert_with(|| name.to_owned());
        }
    }
}

impl ReportResult {
    /// Stored rows in order.
    pub fn lines(&self) -> impl Iterator<Item = ReportRow<'_>> {
        self.batches
            .iter()
            .flat_map(|batch| (0..batch.rows()).map(move |row| ReportRow { batch, row }))
    }

    /// Schema; `None` without rows.
    pub fn schema(&self) -> Option<&Schema> {
        self.batches.first().map(|batch| batch.schema().as_ref())
    }

    /// Columns present in any batch.
    pub fn columns(&self) -> Vec<FieldId> {
        let mut ids: Vec<FieldId> = self.batches.iter().flat_map(Batch::present).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Column with that name, or with that name and a unit suffix.
    pub fn find(&self, name: &str) -> Option<FieldId> {
        let schema = self.schema()?;
        let is_it = |id: &FieldId| {
            let own = schema.field(*id).name.as_ref();
            own == name
                || own.strip_suffix("_ns") == Some(name)
                || own.strip_suffix("_bytes") == Some(name)
        };
        self.columns().into_iter().find(is_it)
    }

    /// Group columns, which follow the window bounds.
    pub fn keys(&self) -> Vec<FieldId> {
        let skipped = if self.find("window_start").is_some() {
            2
        } else {
            0
        };
        match self.head.processor {
            Some(_) => self
                .columns()
                .into_iter()
                .skip(skipped)
                .take(self.head.keys)
                .collect(),
            None => Vec::new(),
        }
    }

    /// Columns with the interval bounds of a column.
    pub fn interval(&self, id: FieldId) -> Option<[FieldId; 2]> {
        let name = self.schema()?.field(id).name.clone();
        Some([
            self.find(&format!("{name}_low"))?,
            self.find(&format!("{name}_high"))?,
        ])
    }

    /// Whether it is an interval bound of another column.
    pub fn is_end(&self, id: FieldId) -> bool {
        let name = self
            .schema()
            .map(|schema| schema.field(id).name.clone())
            .unwrap_or_default();
        let of = name
            .strip_suffix("_low")
            .or_else(|| name.strip_suffix("_high"));
        of.is_some_and(|name| self.find(name).is_some())
    }

    /// Column with a histogram or CDF.
    pub fn distribution(&self) -> Option<FieldId> {
        let schema = self.schema()?;
        let is_one = |id: &FieldId| {
            let field = schema.field(*id);
            field.data_type == DataType::Json
                && DISTRIBUTIONS
                    .iter()
                    .any(|name| field.name.starts_with(name))
        };
        self.columns().into_iter().find(is_one)
    }

    /// Columns to draw, most informative first: a high quantile, otherwise a time, otherwise a number; then frequency
    /// and success.
    pub fn measures(&self) -> Vec<FieldId> {
        let (Some(schema), Some(_)) = (self.schema(), &self.head.processor) else {
            return Vec::new();
        };
        let keys = self.keys();
        let is_measure = |id: &FieldId| {
            let field = schema.field(*id);
            matches!(
                field.data_type,
                DataType::U64 | DataType::I64 | DataType::F64
            ) && !matches!(field.unit, Unit::EpochNanoseconds | Unit::Id)
                && !BESIDE.contains(&field.name.as_ref())
                && !keys.contains(id)
                && !self.is_end(*id)
        };
        let all: Vec<FieldId> = self.columns().into_iter().filter(is_measure).collect();
        let says = |id: &FieldId| {
            let field = schema.field(*id);
            let named = ["p99", "p9", "avg"]
                .iter()
                .position(|begin| field.name.starts_with(begin));
            named.unwrap_or(if field.unit == Unit::Nanoseconds {
                3
            } else {
                4
            })
        };
        let first = all.iter().copied().min_by_key(says);
        let (often, mut others): (Vec<FieldId>, Vec<FieldId>) = all
            .into_iter()
            .filter(|id| Some(*id) != first)
            .partition(|id| HOW_OFTEN.contains(&schema.field(*id).name.as_ref()));
        others.sort_by_key(says);
        first.into_iter().chain(often).chain(others).collect()
    }
}

impl ReportRow<'_> {
    /// Value as a number, unless null.
    pub fn number(&self, id: FieldId) -> Option<f64> {
        let cells = ColumnCells::of(self.batch, id).filter(|cells| !cells.is_null(self.row))?;
        match cells.values {
            CellValues::U64(all) => Some(all.value(self.row) as f64),
            CellValues::I64(all) => Some(all.value(self.row) as f64),
            CellValues::F64(all) => Some(all.value(self.row)),
            _ => None,
        }
    }

    /// Value as a time.
    pub fn time(&self, id: FieldId) -> Option<i64> {
        let cells = ColumnCells::of(self.batch, id).filter(|cells| !cells.is_null(self.row))?;
        match cells.values {
            CellValues::I64(all) => Some(all.value(self.row)),
            _ => None,
        }
    }

    /// Value for people.
    pub fn shown(&self, id: FieldId, names: Option<&HashMap<IpAddr, String>>) -> Option<String> {
        let cells = ColumnCells::of(self.batch, id).filter(|cells| !cells.is_null(self.row))?;
        if let (CellValues::Ip(all), Some(names)) = (cells.values, names)
            && let Some(name) = names.get(&ip(all.value(self.row)))
        {
            return Some(name.clone());
        }
        Some(cells.shown(self.row))
    }

    /// Value for programs.
    pub fn exact(&self, id: FieldId) -> Option<String> {
        let cells = ColumnCells::of(self.batch, id).filter(|cells| !cells.is_null(self.row))?;
        let mut text = Vec::new();
        cells.push(self.row, &mut text);
        String::from_utf8(text).ok()
    }

    /// Buckets of a histogram: upper bound and count, or share for a CDF.
    pub fn buckets(&self, id: FieldId) -> Vec<(f64, f64)> {
        let Some(Value::Array(all)) = self
            .exact(id)
            .and_then(|text| serde_json::from_str(&text).ok())
        else {
            return Vec::new();
        };
        let mut all: Vec<(f64, f64)> = all
            .iter()
            .filter_map(|one| Some((one.get(0)?.as_f64()?, one.get(1)?.as_f64()?)))
            .collect();
        if self.batch.schema().field(id).name.starts_with("cdf") {
            let below: Vec<f64> = [0.0]
                .into_iter()
                .chain(all.iter().map(|(_, share)| *share))
                .collect();
            all.iter_mut()
                .zip(below)
                .for_each(|((_, share), below)| *share -= below);
        }
        all
    }

    /// Name of the row's group; the processor's name without group columns.
    pub fn key(&self, keys: &[FieldId], names: Option<&HashMap<IpAddr, String>>) -> String {
        let parts = keys
            .iter()
            .map(|id| self.shown(*id, names).unwrap_or_else(|| "–".into()));
        parts.collect::<Vec<_>>().join(" · ")
    }
}
