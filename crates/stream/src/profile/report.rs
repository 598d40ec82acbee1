//! Rows of a profile: section, key, and values. Rows of a section are in descending order of weight, except classes,
//! which have their own order. Empty sections have no rows.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use plan::{Column, Pipeline, ProfileSpec};
use tuple::{Batch, DataType, Field, FieldId, RedactionRule, Schema, TupleWriter, Unit};

use crate::loss_history::SharedLosses;
use crate::ops::distinct::DistinctSet;
use crate::pane::WEIGHT_UNIT;
use crate::profile::heavy_hitters::{HeavyHitters, KeyCounts, RankedKey};
use crate::profile::part::{BLOCK_BYTES, OPERATIONS_MAX, OperationTotal, ProfilePart, largest_of};
use crate::results::OTHER;

/// Maximum operations and errors with their own row.
const OPERATIONS_SHOWN: usize = 32;
/// Quantiles of response times.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Writes windows as rows.
pub struct ProfileReport {
    writer: TupleWriter,
    /// Whether rows begin with the bounds of their window.
    windowed: bool,
    /// Times of limits.
    pub losses: SharedLosses,
    k: usize,
    knows_errors: bool,
    knows_bytes: bool,
    /// Name of the objects.
    object: String,
    client: String,
}

/// A row; `None` is null.
#[derive(Default)]
struct ProfileRow<'a> {
    section: Cow<'a, str>,
    key: Cow<'a, str>,
    count: Option<u64>,
    rate: Option<f64>,
    share: Option<f64>,
    bytes: Option<u64>,
    byte_share: Option<f64>,
    error_share: Option<f64>,
    times_ns: [Option<f64>; 4],
    /// Set if a memory limit was reached, with the maximum error of the row if known.
    approximate: Option<Option<f64>>,
}

/// A window being written.
struct ProfileWindow<'a> {
    part: &'a ProfilePart,
    bounds: Option<(i64, i64)>,
    seconds: f64,
    /// Whether a limit may have affected the window.
    is_limited: bool,
    /// All operations.
    whole: OperationTotal,
}

impl ProfileReport {
    /// A report for a pipeline over tuples of `schema`.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        profile: &ProfileSpec,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> ProfileReport {
        let result = Arc::new(result_schema(pipeline, profile, &|column| {
            schema.field(place(column))
        }));
        let wanted: Vec<FieldId> = result.ids().collect();
        let name = |column| schema.field(place(column)).name.to_string();
        ProfileReport {
            writer: TupleWriter::new(result, &wanted),
            windowed: pipeline.window.is_some(),
            losses: SharedLosses::default(),
            k: profile.k,
            knows_errors: profile.success.is_some(),
            knows_bytes: profile.read_bytes.or(profile.write_bytes).is_some(),
            object: profile.object.map(name).unwrap_or_default(),
            client: name(profile.client),
        }
    }

    /// The result's schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.writer.schema()
    }

    /// The rows of a window.
    #[must_use]
    pub fn write(&mut self, part: &ProfilePart, bounds: Option<(i64, i64)>) -> Batch {
        let (from, to) = bounds.unwrap_or(part.span_ns);
        let mut whole = OperationTotal::default();
        part.mix.iter().for_each(|total| {
            whole.count = whole.count.saturating_add(total.count);
            whole.bytes = whole.bytes.saturating_add(total.bytes);
        });
        let seconds = (i128::from(to) - i128::from(from)) as f64 / 1e9;
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let is_limited = losses.is_limited(bounds);
        drop(losses);
        let window = ProfileWindow {
            part,
            bounds,
            seconds,
            is_limited,
            whole,
        };
        self.operations(&window);
        self.totals(&window, "mix", ["read", "write", "other"], &part.mix, false);
        for (kind, section) in ["read pattern", "write pattern"].into_iter().enumerate() {
            let patterns = &part.patterns[kind];
            let is_doubtful = part.is_doubtful[kind];
            self.totals(
                &window,
                section,
                ["sequential", "random", "first"],
                patterns,
                is_doubtful,
            );
        }
        for (section, sizes) in ["read size", "write size"].into_iter().zip(&part.sizes) {
            let keys: Vec<String> = (0..sizes.len())
                .map(|class| largest_of(class).to_string())
                .collect();
            self.totals(&window, section, &keys, sizes, false);
        }
        self.aligned(&window);
        self.working_set(&window);
        self.duplicates(&window);
        self.errors(&window);
        let object = std::mem::take(&mut self.object);
        let client = std::mem::take(&mut self.client);
        for (name, lists) in [(&object, &part.objects), (&client, &part.clients)] {
            let [by_operations, by_bytes] = hottest(name);
            self.hottest(&window, &by_operations, &lists.by_operations, false);
            self.hottest(&window, &by_bytes, &lists.by_bytes, true);
        }
        self.object = object;
        self.client = client;
        self.writer.finish()
    }

    fn operations(&mut self, window: &ProfileWindow<'_>) {
        let operations = &window.part.operations;
        let ranking = operations.ranking();
        for ranked in ranking.iter().take(OPERATIONS_SHOWN) {
            let total = OperationTotal {
                count: ranked.weight,
                bytes: ranked.counted.bytes,
            };
            let failed = share(
                ranked.counted.failed,
                ranked.weight.saturating_sub(ranked.error),
            );
            let times = &ranked.counted.times;
            self.line(
                window,
                ProfileRow {
                    section: "operations".into(),
                    key: ranked.name.into(),
                    error_share: failed.filter(|_| self.knows_errors),
                    times_ns: QUANTILES.map(|q| times.quantile(q)),
                    approximate: approximate(operations, ranked),
                    ..self.total(window, &total, &window.whole)
                },
            );
        }
        self.others(window, "operations", operations);
    }

    /// Writes the row of all operations without their own row.
    fn others<T: KeyCounts>(
        &mut self,
        window: &ProfileWindow<'_>,
        section: &str,
        list: &HeavyHitters<T>,
    ) {
        let rest = list
            .ranking()
            .iter()
            .skip(OPERATIONS_SHOWN)
            .map(|r| r.weight)
            .fold(0, u128::saturating_add);
        if rest > 0 {
            self.line(
                window,
                ProfileRow {
                    section: section.into(),
                    key: OTHER.into(),
                    count: Some(whole(rest)),
                    rate: window.rate(rest),
                    approximate: list.is_overflowed().then_some(None),
                    ..ProfileRow::default()
                },
            );
        }
    }

    /// Writes the rows of classes in order.
    fn totals(
        &mut self,
        window: &ProfileWindow<'_>,
        section: &str,
        keys: impl IntoIterator<Item = impl AsRef<str>>,
        totals: &[OperationTotal],
        is_approximate: bool,
    ) {
        let sum =
            |of: fn(&OperationTotal) -> u128| totals.iter().map(of).fold(0, u128::saturating_add);
        let all = OperationTotal {
            count: sum(|t| t.count),
            bytes: sum(|t| t.bytes),
        };
        for (key, total) in keys
            .into_iter()
            .zip(totals)
            .filter(|(_, total)| total.count > 0)
        {
            let section = section.into();
            let key = key.as_ref().into();
            let approximate = is_approximate.then_some(None);
            let line = self.total(window, total, &all);
            self.line(
                window,
                ProfileRow {
                    section,
                    key,
                    approximate,
                    ..line
                },
            );
        }
    }

    fn aligned(&mut self, window: &ProfileWindow<'_>) {
        for (key, [misaligned, aligned]) in ["read", "write"].into_iter().zip(window.part.aligned) {
            let all = misaligned.saturating_add(aligned);
            if all > 0 {
                self.line(
                    window,
                    ProfileRow {
                        section: "misaligned".into(),
                        key: key.into(),
                        count: Some(whole(misaligned)),
                        share: share(misaligned, all),
                        ..ProfileRow::default()
                    },
                );
            }
        }
    }

    fn working_set(&mut self, window: &ProfileWindow<'_>) {
        let (blocks, error) = window.part.working_set.estimate();
        if blocks > 0 {
            self.line(
                window,
                ProfileRow {
                    section: "working set".into(),
                    key: "random reads".into(),
                    count: Some(blocks),
                    bytes: Some(blocks.saturating_mul(BLOCK_BYTES)),
                    // Reads without a known previous operation are not classified.
                    approximate: if window.part.is_doubtful[0] {
                        Some(None)
                    } else {
                        (error > 0.0).then_some(Some(error))
                    },
                    ..ProfileRow::default()
                },
            );
        }
    }

    fn duplicates(&mut self, window: &ProfileWindow<'_>) {
        let seen = window.part.checksums.iter().zip(&window.part.contents);
        for (key, (&all, set)) in ["read", "write", "both"]
            .into_iter()
            .zip(seen)
            .filter(|(_, (n, _))| **n > 0)
        {
            let (different, error) = DistinctSet::estimate(set);
            let again = all.saturating_sub(different);
            self.line(
                window,
                ProfileRow {
                    section: "duplicate blocks".into(),
                    key: key.into(),
                    count: Some(again),
                    share: Some(again as f64 / all as f64),
                    approximate: (error > 0.0)
                        .then_some(Some(error * different as f64 / all as f64)),
                    ..ProfileRow::default()
                },
            );
        }
    }

    fn errors(&mut self, window: &ProfileWindow<'_>) {
        let errors = &window.part.errors;
        for ranked in errors.ranking().iter().take(OPERATIONS_SHOWN) {
            let all = window.part.operations.weight_of(ranked.counted.0);
            self.line(
                window,
                ProfileRow {
                    section: "errors".into(),
                    key: ranked.name.into(),
                    count: Some(whole(ranked.weight)),
                    rate: window.rate(ranked.weight),
                    share: all.and_then(|all| share(ranked.weight, all)),
                    approximate: approximate(errors, ranked),
                    ..ProfileRow::default()
                },
            );
        }
        self.others(window, "errors", errors);
    }

    fn hottest(
        &mut self,
        window: &ProfileWindow<'_>,
        section: &str,
        list: &HeavyHitters<u128>,
        is_by_bytes: bool,
    ) {
        for ranked in list.ranking().iter().take(self.k) {
            let (count, bytes) = if is_by_bytes {
                (*ranked.counted, ranked.weight)
            } else {
                (ranked.weight, *ranked.counted)
            };
            let line = self.total(window, &OperationTotal { count, bytes }, &window.whole);
            let approximate = approximate(list, ranked);
            self.line(
                window,
                ProfileRow {
                    section: section.into(),
                    key: ranked.name.into(),
                    approximate,
                    ..line
                },
            );
        }
    }

    fn total<'l>(
        &self,
        window: &ProfileWindow<'_>,
        total: &OperationTotal,
        all: &OperationTotal,
    ) -> ProfileRow<'l> {
        ProfileRow {
            count: Some(whole(total.count)),
            rate: window.rate(total.count),
            share: share(total.count, all.count),
            bytes: Some(whole(total.bytes)).filter(|_| self.knows_bytes),
            byte_share: share(total.bytes, all.bytes).filter(|_| self.knows_bytes),
            ..ProfileRow::default()
        }
    }

    fn line(&mut self, window: &ProfileWindow<'_>, line: ProfileRow<'_>) {
        let mut id = 0u16;
        let mut next = || {
            id += 1;
            FieldId(id - 1)
        };
        let w = &mut self.writer;
        if let Some((start, end)) = window.bounds.filter(|_| self.windowed) {
            w.i64(next(), start);
            w.i64(next(), end);
        }
        w.text(next(), line.section.as_bytes());
        w.text(next(), line.key.as_bytes());
        let mut integer = |id, value: Option<u64>| value.into_iter().for_each(|v| w.u64(id, v));
        integer(next(), line.count);
        let rate = next();
        let share = next();
        integer(next(), line.bytes);
        let reals = [line.rate, line.share, line.byte_share, line.error_share]
            .into_iter()
            .chain(line.times_ns);
        let places = [rate, share, next(), next(), next(), next(), next(), next()];
        for (value, id) in reals.zip(places) {
            value.into_iter().for_each(|v| w.f64(id, v));
        }
        w.bool(next(), line.approximate.is_some() || window.is_limited);
        let bound = next();
        let error = line.approximate.flatten().filter(|_| !window.is_limited);
        error.into_iter().for_each(|error| w.f64(bound, error));
        w.end_row();
    }
}

impl ProfileWindow<'_> {
    /// Per second; `None` for a run of zero length.
    fn rate(&self, weight: u128) -> Option<f64> {
        (self.seconds > 0.0).then(|| weight as f64 / WEIGHT_UNIT / self.seconds)
    }
}

/// Converts weights to a rounded number of operations.
fn whole(weight: u128) -> u64 {
    let unit = WEIGHT_UNIT as u128;
    u64::try_from(weight.saturating_add(unit / 2) / unit).unwrap_or(u64::MAX)
}

fn share(part: u128, all: u128) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// The section names of the rankings by operations and by bytes.
fn hottest(name: &str) -> [String; 2] {
    ["operations", "bytes"].map(|what| format!("{name} by {what}"))
}

/// Whether the limit of a list affects the row, and the maximum overestimate of its weight.
fn approximate<T: KeyCounts>(
    list: &HeavyHitters<T>,
    ranked: &RankedKey<'_, T>,
) -> Option<Option<f64>> {
    list.is_overflowed()
        .then(|| Some(ranked.error as f64 / WEIGHT_UNIT))
}

fn result_schema<'s>(
    pipeline: &Pipeline,
    profile: &ProfileSpec,
    input: &dyn Fn(Column) -> &'s Field,
) -> Schema {
    use DataType::{Bool, F64, I64, Text, U64};
    let section = FieldId(if pipeline.window.is_some() { 2 } else { 0 });
    let redact = match profile.object.map(input) {
        Some(Field {
            name,
            redact: RedactionRule::Fold(fold),
            ..
        }) => RedactionRule::Where(
            section,
            hottest(name).map(|section| (section, *fold)).to_vec(),
        ),
        _ => RedactionRule::Keep,
    };
    let time = |name, doc| Field::new(name, I64, Unit::EpochNanoseconds, doc);
    let mut fields = Vec::new();
    if pipeline.window.is_some() {
        fields.push(time("window_start", "first nanosecond of the window"));
        fields.push(time("window_end", "first nanosecond after the window"));
    }
    let response = "quantile of the response times, within 1 %";
    fields.extend([
        Field::new("section", Text, Unit::None, "part of the report"),
        Field {
            redact,
            ..Field::new("key", Text, Unit::None, "item of the section")
        },
        Field::new(
            "count",
            U64,
            Unit::None,
            "operations; blocks of the working set and of duplicates",
        ),
        Field::new("rate", F64, Unit::PerSecond, "operations per second"),
        Field::new(
            "share",
            F64,
            Unit::Fraction,
            "share of the operations or blocks; of errors, of the operations of that name",
        ),
        Field::new("bytes", U64, Unit::Bytes, "bytes read or written"),
        Field::new("byte_share", F64, Unit::Fraction, "share of the bytes"),
        Field::new("error_share", F64, Unit::Fraction, "share that failed"),
        Field::new("p50_ns", F64, Unit::Nanoseconds, response),
        Field::new("p90_ns", F64, Unit::Nanoseconds, response),
        Field::new("p99_ns", F64, Unit::Nanoseconds, response),
        Field::new("p99_9_ns", F64, Unit::Nanoseconds, response),
        Field::new(
            "approximate",
            Bool,
            Unit::None,
            "whether a memory bound was reached",
        ),
        Field::new("error_bound", F64, Unit::None, "maximum error, if known"),
    ]);
    let name = pipeline.name.clone().into();
    let doc = Cow::Borrowed("profile of a workload");
    Schema {
        name,
        version: 1,
        doc,
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    }
}

const _: () = assert!(OPERATIONS_SHOWN <= OPERATIONS_MAX);
