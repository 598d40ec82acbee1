//! Conditions. Null is neither true nor false, both in SQL and in the engine; comparisons with null are null.

use std::net::IpAddr;

use plan::{CaseSensitivity, Column, ComparisonOperator, Literal, Predicate};
use tuple::DataType;

use super::lexical::{LEAST, address, real, text};
use super::printer::SqlPrinter;
use super::text::{like, lowered};
use super::value::{bytes_of, sign};
use crate::ops;

/// The range of IPv4-mapped addresses.
const V4: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

impl SqlPrinter<'_> {
    /// Prints a condition, with parentheses only where AND, OR, and NOT need them.
    pub fn predicate(&mut self, predicate: &Predicate) -> String {
        match predicate {
            Predicate::And(parts) => self.all(parts, "AND", "TRUE"),
            Predicate::Or(parts) => self.all(parts, "OR", "FALSE"),
            Predicate::Not(inner) => format!("NOT ({})", self.predicate(inner)),
            Predicate::IsNull(column) => format!("{} IS NULL", self.column(*column).0),
            Predicate::Compare {
                column,
                op,
                literal,
            } => self.compare_literal(*column, *op, literal),
            Predicate::In { column, literals } => {
                if literals.is_empty() {
                    // False, but null for null.
                    return format!("{0} <> {0}", self.column(*column).0);
                }
                let equal = |literal| Predicate::Compare {
                    column: *column,
                    op: ComparisonOperator::Eq,
                    literal,
                };
                let list: Vec<Predicate> = literals.iter().cloned().map(equal).collect();
                self.all(&list, "OR", "FALSE")
            }
            Predicate::Like {
                column,
                pattern,
                case,
            } => {
                let (of, data_type) = self.column(*column);
                if data_type == DataType::Hashes {
                    self.refuse(
                        &format!("like '{pattern}'"),
                        "checksums are not text in Flink",
                    );
                }
                match case {
                    CaseSensitivity::Sensitive => like(&of, pattern),
                    CaseSensitivity::Ignored => like(&lowered(&of), &ops::text::lowered(pattern)),
                }
            }
            Predicate::Matches { regex, .. } => {
                let what = format!("the regular expression '{}'", regex.pattern);
                self.refuse(
                    &what,
                    "Flink's regular expressions have a different syntax, and may backtrack without bound",
                );
                "FALSE".into()
            }
        }
    }

    fn all(&mut self, parts: &[Predicate], with: &str, of_none: &str) -> String {
        let printed: Vec<String> = parts.iter().map(|part| self.predicate(part)).collect();
        match &printed[..] {
            [] => of_none.into(),
            [only] => only.clone(),
            _ => format!("({})", printed.join(&format!(" {with} "))),
        }
    }

    fn compare_literal(
        &mut self,
        column: Column,
        op: ComparisonOperator,
        literal: &Literal,
    ) -> String {
        let (of, _) = self.column(column);
        let sign = sign(op);
        match literal {
            Literal::Bool(value) => booleans(&of, op, *value),
            Literal::U64(value) => unsigned(&of, op, *value),
            Literal::I64(value) => format!("{of} {sign} {value}"),
            Literal::F64(value) if value.is_finite() => format!("{of} {sign} {}", real(*value)),
            Literal::F64(value) => {
                self.refuse(&value.to_string(), "the number cannot be written in SQL");
                "FALSE".into()
            }
            Literal::Text(value)
                if matches!(op, ComparisonOperator::Eq | ComparisonOperator::Ne) =>
            {
                format!("{of} {sign} {}", text(value))
            }
            Literal::Text(value) => format!("{} {sign} {}", bytes_of(&of), bytes_of(&text(value))),
            Literal::Net(ip, prefix) if op == ComparisonOperator::Eq => network(&of, *ip, *prefix),
            Literal::Net(ip, prefix) => format!("NOT ({})", network(&of, *ip, *prefix)),
        }
    }
}

fn booleans(of: &str, op: ComparisonOperator, value: bool) -> String {
    match op {
        ComparisonOperator::Eq | ComparisonOperator::Ne => {
            format!("{of} {} {}", sign(op), if value { "TRUE" } else { "FALSE" })
        }
        _ => format!("CAST({of} AS INT) {} {}", sign(op), i8::from(value)),
    }
}

/// Compares an unsigned integer stored by its bits: the upper half of the range is negative.
fn unsigned(of: &str, op: ComparisonOperator, value: u64) -> String {
    let bits = value as i64;
    let is_low = bits >= 0;
    let literal = if bits == i64::MIN {
        LEAST.to_owned()
    } else {
        bits.to_string()
    };
    match (op, is_low) {
        (ComparisonOperator::Eq | ComparisonOperator::Ne, _) => {
            format!("{of} {} {literal}", sign(op))
        }
        (ComparisonOperator::Lt | ComparisonOperator::Le, true) => {
            format!("({of} >= 0 AND {of} {} {literal})", sign(op))
        }
        (ComparisonOperator::Lt | ComparisonOperator::Le, false) => {
            format!("({of} >= 0 OR {of} {} {literal})", sign(op))
        }
        (ComparisonOperator::Gt | ComparisonOperator::Ge, true) => {
            format!("({of} < 0 OR {of} {} {literal})", sign(op))
        }
        (ComparisonOperator::Gt | ComparisonOperator::Ge, false) => {
            format!("({of} < 0 AND {of} {} {literal})", sign(op))
        }
    }
}

/// Tests for an address in a network by its first and last address. IPv6 networks exclude IPv4-mapped addresses.
fn network(of: &str, ip: IpAddr, prefix: u8) -> String {
    let (ip, prefix, v4) = match ip {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 96 + prefix.min(32), true),
        IpAddr::V6(ip) => (
            ip,
            prefix.min(128),
            prefix >= 96 && ip.to_ipv4_mapped().is_some(),
        ),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    let first = ip.to_bits() & mask;
    let last = ip.to_bits() | !mask;
    if first == last {
        return format!("{of} = {}", address(first));
    }
    let inside = format!("{of} >= {} AND {of} <= {}", address(first), address(last));
    let holds_v4 = first <= V4.0 && V4.1 <= last;
    if holds_v4 && !v4 {
        format!(
            "({inside} AND ({of} < {} OR {of} > {}))",
            address(V4.0),
            address(V4.1)
        )
    } else {
        format!("({inside})")
    }
}
