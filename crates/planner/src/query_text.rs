//! Predicates, literals, durations, times, and addresses of a plan in the syntax of a query.

use plan::{
    AddressMatch, CaseSensitivity, Column, ComparisonOperator, Dataflow, Literal, Predicate,
};
use tuple::{DataType, Field, Unit};

/// The field of a column.
pub(crate) fn field(dataflow: &Dataflow, column: Column) -> &Field {
    if let Some(place) = column.computed_place() {
        return &dataflow.computed[place].field;
    }
    dataflow.inputs[usize::from(column.input)]
        .schema
        .field(column.field)
}

/// A column's name, with its parser's if there are several; a computed column in the syntax of the query.
pub(crate) fn column(dataflow: &Dataflow, column: Column) -> String {
    if let Some(place) = column.computed_place() {
        return dataflow.computed[place].text.clone();
    }
    let name = &field(dataflow, column).name;
    match dataflow.inputs.as_slice() {
        [_] => name.to_string(),
        inputs => format!("{}.{name}", inputs[usize::from(column.input)].schema.name),
    }
}

/// A predicate in the query language, with minimal parentheses.
pub(crate) fn predicate(dataflow: &Dataflow, predicate: &Predicate) -> String {
    bracketed(dataflow, predicate, 0)
}

/// `binds`: precedence of the context: or 0, and 1, not 2.
fn bracketed(dataflow: &Dataflow, predicate: &Predicate, binds: u8) -> String {
    let name = |c: &Column| column(dataflow, *c);
    let joined = |parts: &[Predicate], word: &str, own: u8| {
        let text = parts
            .iter()
            .map(|p| bracketed(dataflow, p, own + 1))
            .collect::<Vec<_>>()
            .join(word);
        if own < binds {
            format!("({text})")
        } else {
            text
        }
    };
    match predicate {
        Predicate::And(parts) => joined(parts, " and ", 1),
        Predicate::Or(parts) => joined(parts, " or ", 0),
        Predicate::Not(inner) => match inner.as_ref() {
            Predicate::Like {
                column,
                pattern,
                case,
            } => {
                format!("{} not {} {}", name(column), like(*case), quoted(pattern))
            }
            Predicate::Matches { column, regex } => {
                format!(
                    "{} !{} {}",
                    name(column),
                    tilde(regex.case),
                    quoted(&regex.pattern)
                )
            }
            Predicate::In { column, literals } => {
                format!(
                    "{} not in {}",
                    name(column),
                    list(dataflow, *column, literals)
                )
            }
            Predicate::IsNull(column) => format!("{} is not null", name(column)),
            other => format!("not {}", bracketed(dataflow, other, 2)),
        },
        // A complete condition, such as a comparison of two columns.
        Predicate::Compare {
            column,
            op: ComparisonOperator::Eq,
            literal: Literal::Bool(true),
        } if column.computed_place().is_some() => name(column),
        Predicate::Compare {
            column,
            op,
            literal: value,
        } => {
            format!(
                "{} {} {}",
                name(column),
                sign(*op),
                literal(field(dataflow, *column), value)
            )
        }
        Predicate::Like {
            column,
            pattern,
            case,
        } => {
            format!("{} {} {}", name(column), like(*case), quoted(pattern))
        }
        Predicate::Matches { column, regex } => {
            format!(
                "{} {} {}",
                name(column),
                tilde(regex.case),
                quoted(&regex.pattern)
            )
        }
        Predicate::In { column, literals } => {
            format!("{} in {}", name(column), list(dataflow, *column, literals))
        }
        Predicate::IsNull(column) => format!("{} is null", name(column)),
    }
}

fn list(dataflow: &Dataflow, column: Column, literals: &[Literal]) -> String {
    let field = field(dataflow, column);
    format!(
        "({})",
        literals
            .iter()
            .map(|l| literal(field, l))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

fn like(case: CaseSensitivity) -> &'static str {
    match case {
        CaseSensitivity::Sensitive => "like",
        CaseSensitivity::Ignored => "ilike",
    }
}

fn tilde(case: CaseSensitivity) -> &'static str {
    match case {
        CaseSensitivity::Sensitive => "~",
        CaseSensitivity::Ignored => "~*",
    }
}

fn sign(op: ComparisonOperator) -> &'static str {
    match op {
        ComparisonOperator::Eq => "=",
        ComparisonOperator::Ne => "!=",
        ComparisonOperator::Lt => "<",
        ComparisonOperator::Le => "<=",
        ComparisonOperator::Gt => ">",
        ComparisonOperator::Ge => ">=",
    }
}

fn literal(field: &Field, literal: &Literal) -> String {
    let number = match literal {
        Literal::Bool(b) => return b.to_string(),
        Literal::Text(text) => return quoted(text),
        Literal::Net(ip, bits) => return net((*ip, *bits)),
        Literal::F64(x) => return x.to_string(),
        Literal::U64(n) => i128::from(*n),
        Literal::I64(n) => i128::from(*n),
    };
    match (field.unit, i64::try_from(number)) {
        (Unit::Nanoseconds, Ok(nanos)) => duration(nanos),
        (Unit::EpochNanoseconds, Ok(nanos)) => format!("'{}'", time(nanos)),
        (Unit::Id, _) if field.data_type == DataType::U64 => format!("{number:016x}"),
        _ => number.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!(
        "'{}'",
        text.replace('\'', "''")
            .replace(char::is_control, "\u{fffd}")
    )
}

/// A point in time, to the nanosecond: `'2026-11-22T10:00:00Z'`.
pub(crate) fn instant(nanos: i64) -> String {
    format!("'{}'", time(nanos))
}

/// A duration in the largest unit without a fraction: `90s`, `1500ms`.
pub(crate) fn duration(nanos: i64) -> String {
    const UNITS: [(&str, i64); 5] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    match UNITS
        .iter()
        .find(|(_, scale)| nanos != 0 && nanos % scale == 0)
    {
        Some((unit, scale)) => format!("{}{unit}", nanos / scale),
        None if nanos == 0 => "0s".to_owned(),
        None => format!("{nanos}ns"),
    }
}

/// A point in time as RFC 3339 text, UTC.
fn time(nanos: i64) -> String {
    let seconds = nanos.div_euclid(1_000_000_000);
    let fraction = nanos.rem_euclid(1_000_000_000);
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    // Eras of 400 years that begin on March 1: the leap day is the last of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let h = second / 3600;
    let m = second / 60 % 60;
    let s = second % 60;
    let fraction = if fraction == 0 {
        String::new()
    } else {
        format!(".{fraction:09}").trim_end_matches('0').to_owned()
    };
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}{fraction}Z")
}

/// An endpoint in the syntax of FROM and TO.
pub(crate) fn end(end: &AddressMatch) -> String {
    match (end.net, end.port) {
        (None, None) => "*".to_owned(),
        (None, Some(port)) => format!("*:{port}"),
        (Some(of), None) => net(of),
        (Some(of), Some(port)) if of.0.is_ipv6() => format!("[{}]:{port}", net(of)),
        (Some(of), Some(port)) => format!("{}:{port}", net(of)),
    }
}

fn net((ip, bits): (std::net::IpAddr, u8)) -> String {
    let full = if ip.is_ipv4() { 32 } else { 128 };
    if bits == full {
        ip.to_string()
    } else {
        format!("{ip}/{bits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1500ns"),
            (250_000, "250us"),
            (1_000_000, "1ms"),
            (1_500_000_000, "1500ms"),
            (1_000_000_000, "1s"),
            (10_000_000_000, "10s"),
            (90_000_000_000, "90s"),
            (60_000_000_000, "1m"),
            (3_600_000_000_000, "1h"),
            (-2_000_000_000, "-2s"),
        ] {
            assert_eq!(duration(nanos), expected);
        }
    }

    #[test]
    fn times() {
        for (nanos, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (1_769_853_600_500_000_000, "2026-01-31T10:00:00.5Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
        ] {
            assert_eq!(time(nanos), expected);
        }
    }
}
