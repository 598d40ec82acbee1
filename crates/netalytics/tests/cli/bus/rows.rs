//! Comparison of rows from two engines: integers exactly, floats up to the order of additions.

use serde_json::{Map, Value};

use crate::Ran;

pub type Row = Map<String, Value>;

/// Rows printed as JSON lines.
pub fn rows(ran: &Ran) -> Vec<Row> {
    ran.out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

/// Tuples in a canonical order: those of one nanosecond arrive in the order of hosts.
pub fn in_one_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_cached_key(|row| Value::Object(row.clone()).to_string());
    rows
}

/// The first difference between the rows of each processor.
pub fn different(expected: &[Row], found: &[Row]) -> Option<String> {
    let mut names: Vec<&Value> = expected
        .iter()
        .chain(found)
        .map(|row| row.get("processor").unwrap_or(&Value::Null))
        .collect();
    names.sort_by_key(|name| name.to_string());
    names.dedup();
    names.into_iter().find_map(|name| {
        let of = |rows: &[Row]| -> Vec<Row> {
            rows.iter()
                .filter(|row| row.get("processor").unwrap_or(&Value::Null) == name)
                .cloned()
                .collect()
        };
        let a = between_silences(of(expected));
        let b = between_silences(of(found));
        let place = a.iter().zip(&b).position(|(a, b)| !are_alike(a, b));
        if place.is_none() && a.len() == b.len() {
            return None;
        }
        let place = place.unwrap_or(a.len().min(b.len()));
        let row = |rows: &[Row]| {
            rows.get(place)
                .map(|row| Value::Object(row.clone()).to_string())
        };
        Some(format!(
            "{name}, row {place} of {} and {}:\n  {:?}\n  {:?}",
            a.len(),
            b.len(),
            row(&a),
            row(&b)
        ))
    })
}

/// Without empty windows before the first and after the last tuple: only queries over packets know that period.
fn between_silences(mut rows: Vec<Row>) -> Vec<Row> {
    const FRAME: [&str; 6] = [
        "processor",
        "window_start",
        "window_end",
        "approximate",
        "error_bound",
        "lost",
    ];
    let is_silent = |row: &Row| {
        let mut values = row
            .iter()
            .filter(|(name, _)| !FRAME.contains(&name.as_str()));
        row.contains_key("window_start")
            && values.all(|(_, value)| value.is_null() || value.as_f64() == Some(0.0))
    };
    let last = rows
        .iter()
        .rposition(|row| !is_silent(row))
        .map_or(0, |last| last + 1);
    rows.truncate(last);
    let first = rows.iter().position(|row| !is_silent(row)).unwrap_or(0);
    rows.split_off(first)
}

/// Capture loss has its own tests.
fn are_alike(a: &Row, b: &Row) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(name, a)| name == "lost" || b.get(name).is_some_and(|b| is_alike(a, b)))
}

fn is_alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() && y.is_f64() => {
            let x = x.as_f64().unwrap_or(0.0);
            let y = y.as_f64().unwrap_or(0.0);
            x == y || (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b))
        }
        _ => a == b,
    }
}
