//! Cells computed from tuples, as defined in [`crate::cells`].

use tuple::DataType;

use super::lexical::{cell_type, floor_to, name, real, whole};
use super::printer::UnprintablePart;
use super::tuples::TupleView;
use crate::cells::{AccumulatorSpec, CellOrigin, CellTable, MeasuredColumn};

/// Merge interval used by Flink if there are no windows.
const TEN_SECONDS_MS: i64 = 10_000;

/// Bound on values for which 10 billion squares can be summed within 38 digits.
const SQUARED_MAX: i64 = 100_000_000_000_000;

/// Column names and expressions of a select; unlisted columns are null.
type SelectColumns = Vec<(String, String)>;

/// The SQL query for the cells of a pipeline over tuples.
pub fn of_tuples(
    table: &CellTable,
    tuples: &TupleView,
    refused: &mut Vec<UnprintablePart>,
) -> String {
    if table.is_profile {
        refuse(
            refused,
            "profile",
            "its sketches can only be made by monitors",
        );
    }
    let keys = keys(table, tuples);
    let mut base = keys.clone();
    let one = whole(1);
    base.push(("tuples".into(), one.clone()));
    base.push(("first_ns".into(), "`_end_ns`".into()));
    base.push(("last_ns".into(), "`_end_ns`".into()));
    let mut selects = Vec::new();
    let mut too_large = Vec::new();
    for (i, accumulator) in table.accumulators.iter().enumerate() {
        match accumulator {
            AccumulatorSpec::Count => base.push((format!("a{i}_n"), one.clone())),
            AccumulatorSpec::Sum(of) => {
                let x = tuples.column(of.column).0;
                base.push((format!("a{i}_n"), counted(&x)));
                base.push((format!("a{i}_sum"), summand(&x, of.data_type)));
            }
            AccumulatorSpec::Extreme(of, _) => {
                let x = tuples.column(of.column).0;
                base.push((format!("a{i}"), extreme(&x, of.data_type)));
            }
            AccumulatorSpec::Spread(of) if of.data_type == DataType::F64 => {
                let why =
                    "for real numbers it needs sums that cancel out, which only monitors compute";
                refuse(refused, "stddev of a real number", why);
            }
            AccumulatorSpec::Spread(of) => {
                let x = tuples.column(of.column).0;
                base.push((format!("a{i}_n"), counted(&x)));
                base.push((format!("a{i}_sum"), summand(&x, of.data_type)));
                base.push((format!("a{i}_squares"), square(&x, of.data_type)));
                too_large.push(format!(
                    "{x} > {SQUARED_MAX} OR {x} < {}",
                    lowest(of.data_type)
                ));
            }
            AccumulatorSpec::Outcome(predicate) => {
                let p = tuples.printed(refused, |printer| printer.predicate(predicate));
                let known = format!("CASE WHEN ({p}) IS NOT NULL THEN {one} END");
                base.push((format!("a{i}_known"), known));
                let yes = format!(
                    "CASE WHEN {p} THEN {one} WHEN NOT ({p}) THEN {} END",
                    whole(0)
                );
                base.push((format!("a{i}_yes"), yes));
            }
            AccumulatorSpec::Histogram(of, bits) => {
                selects.push(buckets(table, tuples, &keys, i, *of, *bits))
            }
            AccumulatorSpec::Distinct(of) => selects.push(distinct(table, tuples, &keys, i, *of)),
        }
    }
    if !too_large.is_empty() {
        // In separate rows with null sums of squares next to the count, so that lost digits are detected.
        base.push((
            "bits".into(),
            format!("CASE WHEN {} THEN {} END", too_large.join(" OR "), whole(0)),
        ));
    }
    let from = format!("{}{}", name(&tuples.view), required(table, tuples, None));
    selects.insert(0, select(table, &base, &from));
    selects.join("\nUNION ALL\n")
}

fn refuse(refused: &mut Vec<UnprintablePart>, what: &str, why: &str) {
    refused.push(UnprintablePart {
        what: what.into(),
        why: why.into(),
    });
}

/// The columns common to all rows of a tuple.
fn keys(table: &CellTable, tuples: &TupleView) -> SelectColumns {
    let size = pane_ms(table);
    let mut keys: SelectColumns = vec![("et_ms".into(), floor_to("`_ms`", size))];
    keys.push((
        "pane".into(),
        match table.pane_ns {
            Some(_) => format!("({}) / {}", floor_to("`_ms`", size), whole(size)),
            None => whole(0),
        },
    ));
    for (i, key) in table.keys.iter().enumerate() {
        keys.push((
            format!("k{i}"),
            one_zero(&tuples.column(key.column).0, key.data_type),
        ));
    }
    keys.push((
        "rate".into(),
        match table.rates {
            Some(field) => {
                let rate = tuples.column(plan::Column { input: 0, field }).0;
                format!(
                    "CASE WHEN {rate} > 0 AND {rate} <= 1 THEN {rate} ELSE {} END",
                    real(1.0)
                )
            }
            None => real(table.sample),
        },
    ));
    let replicate = if table.replicates > 1 {
        "`_replicate`".to_owned()
    } else {
        whole(0)
    };
    keys.push(("replicate".into(), replicate));
    keys
}

/// The FROM clause conditions: tuples with a non-null required column and a non-null `value`.
fn required(table: &CellTable, tuples: &TupleView, value: Option<&str>) -> String {
    let required = table.required.map(|column| tuples.column(column).0);
    let mut all: Vec<String> = required
        .into_iter()
        .chain(value.map(str::to_owned))
        .collect();
    all.dedup();
    let all: Vec<String> = all
        .iter()
        .map(|column| format!("{column} IS NOT NULL"))
        .collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("\nWHERE {}", all.join(" AND "))
    }
}

/// A SELECT with all columns of the table.
fn select(table: &CellTable, said: &SelectColumns, from: &str) -> String {
    let columns = table
        .columns_of(CellOrigin::OfTuples)
        .filter(|column| column.name != "mark");
    let lines: Vec<String> = columns
        .map(
            |column| match said.iter().find(|(name, _)| *name == column.name) {
                Some((_, sql)) => format!("  {sql} AS {}", name(&column.name)),
                None => format!(
                    "  CAST(NULL AS {}) AS {}",
                    cell_type(column.data),
                    name(&column.name)
                ),
            },
        )
        .collect();
    format!("SELECT\n  `_et`,\n{}\nFROM {from}", lines.join(",\n"))
}

fn distinct(
    table: &CellTable,
    tuples: &TupleView,
    keys: &SelectColumns,
    slot: usize,
    of: MeasuredColumn,
) -> String {
    let x = tuples.column(of.column).0;
    let mut said = entry(keys, slot);
    said.push((format!("d{slot}"), one_zero(&x, of.data_type)));
    select(
        table,
        &said,
        &format!(
            "{}{}",
            name(&tuples.view),
            required(table, tuples, Some(&x))
        ),
    )
}

/// Entry rows of a histogram. The integer logarithm is computed from the number of binary digits, because Flink's
/// logarithms are rounded. `_m` is the magnitude, `_e` its integer logarithm, `_b` the bucket.
fn buckets(
    table: &CellTable,
    tuples: &TupleView,
    keys: &SelectColumns,
    slot: usize,
    of: MeasuredColumn,
    bits: u8,
) -> String {
    let x = tuples.column(of.column).0;
    let from = format!(
        "{}{}",
        name(&tuples.view),
        required(table, tuples, Some(&x))
    );
    let magnitude = if of.data_type == DataType::U64 {
        x.clone()
    } else {
        format!("ABS({x})")
    };
    let (logarithm, bucket) = match of.data_type {
        DataType::F64 => real_bucket(bits),
        _ => integer_bucket(bits),
    };
    let from = format!(
        "(\n  SELECT *, {magnitude} AS `_m` FROM {}\n)",
        from.replace('\n', " ")
    );
    let from = format!(
        "(\n  SELECT *, {logarithm} AS `_e` FROM {}\n)",
        from.replace('\n', "\n  ")
    );
    let mut said = entry(keys, slot);
    let sign = match of.data_type {
        DataType::U64 => bucket,
        _ => format!("CASE WHEN {x} < 0 THEN -1 ELSE 1 END * ({bucket})"),
    };
    said.push(("at".into(), sign));
    said.push(("bits".into(), whole(bits.into())));
    let value = match of.data_type {
        DataType::F64 => x,
        DataType::U64 => format!("CAST({} AS DOUBLE)", summand(&x, of.data_type)),
        _ => format!("CAST({x} AS DOUBLE)"),
    };
    said.push((format!("a{slot}_min"), value.clone()));
    said.push((format!("a{slot}_max"), value));
    select(table, &said, &from)
}

/// Expressions for the logarithm and bucket of 64-bit magnitudes; those of at least 2^63 are negative.
fn integer_bucket(bits: u8) -> (String, String) {
    let power = format!("CAST(POWER(2, `_e` - {bits}) AS BIGINT)");
    // Subtracting 2^63 avoids overflow; its bucket offset is added afterward.
    let top = 63 - u32::from(bits);
    let large = format!(
        "{} + (`_m` - ({})) / {} + {}",
        whole(i64::from(top) << bits),
        super::lexical::LEAST,
        whole(1 << top),
        whole(1 << bits)
    );
    let ordinary = format!("(`_e` - {bits}) * {} + `_m` / {power}", whole(1 << bits));
    let bucket = format!(
        "CASE WHEN `_m` < 0 THEN {large} WHEN `_m` < {} THEN `_m` ELSE {ordinary} END",
        whole(2 << bits)
    );
    ("CHAR_LENGTH(BIN(`_m`)) - 1".into(), bucket)
}

fn real_bucket(bits: u8) -> (String, String) {
    let scale = f64::powi(2.0, 32);
    let low = f64::powi(2.0, -32);
    let digits = |of: String| format!("CHAR_LENGTH(BIN(CAST({of} AS BIGINT))) - 1");
    let logarithm = format!(
        "CASE WHEN `_m` < CAST(1 AS DOUBLE) THEN {} - 32 WHEN `_m` < {} THEN {} ELSE 63 END",
        digits(format!("`_m` * {}", real(scale))),
        real(f64::powi(2.0, 63)),
        digits("`_m`".into()),
    );
    let power = format!("POWER(CAST(2 AS DOUBLE), `_e` - {bits})");
    let bucket = format!(
        "CASE WHEN `_m` < {} THEN {} WHEN `_m` >= {} THEN {} ELSE (`_e` + 32) * {} + CAST(`_m` / {power} AS BIGINT) - {} END",
        real(low),
        whole(0),
        real(f64::powi(2.0, 64)),
        whole(96 << bits),
        whole(1 << bits),
        whole((1 << bits) - 1),
    );
    (logarithm, bucket)
}

fn entry(keys: &SelectColumns, slot: usize) -> SelectColumns {
    let mut said = keys.clone();
    said.push(("slot".into(), whole(slot as i64)));
    said.push(("n".into(), whole(1)));
    said
}

fn counted(x: &str) -> String {
    format!("CASE WHEN {x} IS NOT NULL THEN {} END", whole(1))
}

/// The value to sum. Unsigned integers are stored as signed integers with the same bits.
fn summand(x: &str, data_type: DataType) -> String {
    match data_type {
        DataType::F64 => x.into(),
        DataType::U64 => format!(
            "CASE WHEN {x} < 0 THEN CAST({x} AS DECIMAL(38, 0)) + CAST('18446744073709551616' AS DECIMAL(20, 0)) \
             ELSE CAST({x} AS DECIMAL(38, 0)) END"
        ),
        _ => format!("CAST({x} AS DECIMAL(38, 0))"),
    }
}

/// The square; null if the value is too large.
fn square(x: &str, data_type: DataType) -> String {
    let decimal = format!("CAST({x} AS DECIMAL(19, 0))");
    format!(
        "CASE WHEN {x} BETWEEN {} AND {SQUARED_MAX} THEN CAST({decimal} * {decimal} AS DECIMAL(38, 0)) END",
        lowest(data_type)
    )
}

/// The smallest value that can be squared.
fn lowest(data_type: DataType) -> i64 {
    if data_type == DataType::U64 {
        0
    } else {
        -SQUARED_MAX
    }
}

fn extreme(x: &str, data_type: DataType) -> String {
    match data_type {
        DataType::U64 => format!("{x} + ({})", super::lexical::LEAST),
        _ => x.into(),
    }
}

/// A value compared by its bits, with −0.0 replaced by 0.0.
fn one_zero(x: &str, data_type: DataType) -> String {
    match data_type {
        DataType::F64 => format!("CASE WHEN {x} = 0 THEN {} ELSE {x} END", real(0.0)),
        _ => x.into(),
    }
}

/// Length of Flink's merge windows.
pub fn pane_ms(table: &CellTable) -> i64 {
    table.pane_ns.map_or(TEN_SECONDS_MS, |ns| ns / 1_000_000)
}
