//! Lexical elements of Flink SQL: names, literals, and types.

use std::fmt::Write;
use std::net::Ipv6Addr;

use tuple::DataType;

use crate::cells::CellType;

/// The smallest BIGINT.
pub const LEAST: &str = "-9223372036854775808";

/// A quoted name; any text is valid.
pub fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text literal.
pub fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text literal of type STRING: an uncast literal has a type with its own length.
pub fn text_value(of: &str) -> String {
    format!("CAST({} AS STRING)", text(of))
}

/// A BIGINT literal: an uncast one is INT if it fits.
pub fn whole(value: i64) -> String {
    format!("CAST({value} AS BIGINT)")
}

/// A finite DOUBLE literal.
pub fn real(value: f64) -> String {
    format!("CAST('{value:e}' AS DOUBLE)")
}

/// An address literal, IPv4 mapped into IPv6.
pub fn address(bits: u128) -> String {
    Ipv6Addr::from_bits(bits)
        .octets()
        .iter()
        .fold("x'".to_owned(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
        + "'"
}

/// An interval literal of `ms` milliseconds. In additions Flink allows at most two digits of days, in windows more.
pub fn interval(ms: i64) -> String {
    let seconds = ms / 1000;
    let rest = ms % 1000;
    let days = seconds / 86_400;
    let hours = seconds / 3600 % 24;
    let minutes = seconds / 60 % 60;
    let seconds = seconds % 60;
    let digits = if days < 100 { "" } else { "(6)" };
    format!(
        "INTERVAL '{days} {hours:02}:{minutes:02}:{seconds:02}.{rest:03}' DAY{digits} TO SECOND(3)"
    )
}

/// Converts a name to a valid Avro name; `place` keeps names unique.
pub fn avro_name(name: &str, place: usize) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit() || c == '_') {
        name.into()
    } else {
        format!("_{place}_{}", name.replace(|c: char| !is_plain(c), "_"))
    }
}

/// The type of a column of cells.
pub fn cell_type(of: CellType) -> &'static str {
    match of {
        CellType::Bool => "BOOLEAN",
        CellType::Long => "BIGINT",
        CellType::Double => "DOUBLE",
        CellType::Text => "STRING",
        CellType::Bytes => "BYTES",
        CellType::Decimal => "DECIMAL(38, 0)",
    }
}

/// The type of a column of tuples.
pub fn column_type(of: DataType) -> &'static str {
    cell_type(CellType::of(of))
}

/// Converts nanoseconds to milliseconds, rounded down; Flink's division rounds toward zero.
pub fn floor_ms(ns: &str) -> String {
    format!("CASE WHEN {ns} < 0 THEN ({ns} + 1) / 1000000 - 1 ELSE {ns} / 1000000 END")
}

/// The largest multiple of `step` not greater than `of`, which should be a short expression because it is repeated.
pub fn floor_to(of: &str, step: i64) -> String {
    let step = whole(step);
    format!("{of} - MOD({of}, {step}) - CASE WHEN MOD({of}, {step}) < 0 THEN {step} ELSE 0 END")
}
