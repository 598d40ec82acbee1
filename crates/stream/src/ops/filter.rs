//! Selects the tuples for which a predicate is true. Predicates are evaluated column by column over a whole batch in
//! SQL's three-valued logic with two bitmaps: rows where it is true, and rows where it is false. In all other rows it
//! is null.
//!
//! An IPv4 network contains only IPv4 addresses, an IPv6 network (including `::/0`) only IPv6 addresses.

use std::net::IpAddr;

use arrow_buffer::BooleanBuffer;
use plan::{Column, Compare, Literal, Predicate};
use regex::Regex;
use tuple::{Batch, DataType, FieldId, Schema, hashes};

use crate::column::{ColumnView, Values};
use crate::ops::expr::compiled;
use crate::ops::like::Like;
use crate::rows::Rows;

/// A predicate resolved to the columns of one schema.
#[derive(Clone, Debug)]
pub struct Filter(Node);

/// The rows where a predicate is true, and where it is false.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Rows where the predicate is true.
    pub yes: BooleanBuffer,
    /// Rows where the predicate is false.
    pub no: BooleanBuffer,
}

#[derive(Clone, Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(FieldId),
    Test(FieldId, Test),
}

#[derive(Clone, Debug)]
enum Test {
    Bool(Compare, bool),
    U64(Compare, u64),
    I64(Compare, i64),
    F64(Compare, f64),
    Text(Compare, String),
    Net(Compare, Net),
    Like(Like),
    Matches(Regex),
    InU64(Vec<u64>),
    InI64(Vec<i64>),
    InText(Vec<String>),
    /// A list of values of another type.
    In(Vec<Test>),
}

/// A prefix of 16-byte addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Net {
    bits: u128,
    mask: u128,
    v4: bool,
}

impl Filter {
    /// Resolves a predicate; `place` maps columns of the dataflow to `schema`.
    ///
    /// # Panics
    /// If the type of a literal differs from its column's; the planner rejects these.
    #[must_use]
    pub fn new(predicate: &Predicate, schema: &Schema, place: &dyn Fn(Column) -> FieldId) -> Filter {
        Filter(Node::new(predicate, schema, place))
    }

    /// Evaluates the predicate for all rows.
    #[must_use]
    pub fn evaluate(&self, batch: &Batch) -> Truth {
        self.0.evaluate(batch)
    }

    /// Selects the rows of `rows` for which the predicate is true; `list` is the buffer.
    pub fn select<'a>(&self, batch: &Batch, rows: Rows<'a>, list: &'a mut Vec<u32>) -> Rows<'a> {
        let yes = self.evaluate(batch).yes;
        rows.filter(list, |row| yes.value(row))
    }
}

impl Node {
    fn new(predicate: &Predicate, schema: &Schema, place: &dyn Fn(Column) -> FieldId) -> Node {
        let all = |list: &[Predicate]| list.iter().map(|p| Node::new(p, schema, place)).collect();
        let typed = |column: &Column| (place(*column), schema.field(place(*column)).data_type);
        match predicate {
            Predicate::And(list) => Node::And(all(list)),
            Predicate::Or(list) => Node::Or(all(list)),
            Predicate::Not(inner) => Node::Not(Box::new(Node::new(inner, schema, place))),
            Predicate::IsNull(column) => Node::IsNull(place(*column)),
            Predicate::Compare { column, op, literal } => {
                let (field, data_type) = typed(column);
                Node::Test(field, Test::compare(data_type, *op, literal))
            }
            Predicate::Like { column, pattern, case } => {
                let (field, data_type) = typed(column);
                let has_text = matches!(data_type, DataType::Text | DataType::Json | DataType::Hashes);
                assert!(has_text, "LIKE is for text");
                Node::Test(field, Test::Like(Like::new(pattern, *case)))
            }
            Predicate::Matches { column, regex } => {
                let (field, data_type) = typed(column);
                let has_text = matches!(data_type, DataType::Text | DataType::Json | DataType::Hashes);
                assert!(has_text, "patterns are for text");
                Node::Test(field, Test::Matches(compiled(regex)))
            }
            Predicate::In { column, literals } => {
                let (field, data_type) = typed(column);
                Node::Test(field, Test::any_of(data_type, literals))
            }
        }
    }

    fn evaluate(&self, batch: &Batch) -> Truth {
        let n = batch.rows();
        match self {
            Node::And(list) => list.iter().fold(Truth::always(n), |all, node| {
                let one = node.evaluate(batch);
                Truth { yes: &all.yes & &one.yes, no: &all.no | &one.no }
            }),
            Node::Or(list) => list.iter().fold(Truth::always(n).not(), |any, node| {
                let one = node.evaluate(batch);
                Truth { yes: &any.yes | &one.yes, no: &any.no & &one.no }
            }),
            Node::Not(inner) => inner.evaluate(batch).not(),
            Node::IsNull(field) => match ColumnView::of(batch, *field).nulls {
                Some(valid) => Truth { yes: !valid.inner(), no: valid.inner().clone() },
                None => Truth::always(n).not(),
            },
            Node::Test(field, test) => {
                let column = ColumnView::of(batch, *field);
                let yes = test.mask(n, column.values);
                match column.nulls {
                    Some(valid) => Truth { no: &!&yes & valid.inner(), yes: &yes & valid.inner() },
                    None => Truth { no: !&yes, yes },
                }
            }
        }
    }
}

impl Truth {
    fn always(n: usize) -> Truth {
        Truth { yes: BooleanBuffer::new_set(n), no: BooleanBuffer::new_unset(n) }
    }

    fn not(self) -> Truth {
        Truth { yes: self.no, no: self.yes }
    }
}

impl Test {
    fn compare(data_type: DataType, op: Compare, literal: &Literal) -> Test {
        match (data_type, literal) {
            (DataType::Bool, Literal::Bool(v)) => Test::Bool(op, *v),
            (DataType::U64, Literal::U64(v)) => Test::U64(op, *v),
            (DataType::I64, Literal::I64(v)) => Test::I64(op, *v),
            (DataType::F64, Literal::F64(v)) => Test::F64(op, *v),
            (DataType::Text | DataType::Json, Literal::Text(v)) => Test::Text(op, v.clone()),
            (DataType::Ip, Literal::Net(ip, prefix)) => {
                assert!(matches!(op, Compare::Eq | Compare::Ne), "a network is equal or not");
                Test::Net(op, Net::new(*ip, *prefix))
            }
            _ => panic!("{literal:?} is no literal for a {data_type:?} column"),
        }
    }

    fn any_of(data_type: DataType, literals: &[Literal]) -> Test {
        let tests: Vec<Test> = literals.iter().map(|l| Test::compare(data_type, Compare::Eq, l)).collect();
        match data_type {
            DataType::U64 => {
                Test::InU64(sorted(tests, |t| if let Test::U64(_, v) = t { Some(v) } else { None }))
            }
            DataType::I64 => {
                Test::InI64(sorted(tests, |t| if let Test::I64(_, v) = t { Some(v) } else { None }))
            }
            DataType::Text | DataType::Json => {
                Test::InText(sorted(tests, |t| if let Test::Text(_, v) = t { Some(v) } else { None }))
            }
            _ => Test::In(tests),
        }
    }

    /// Rows in which the test is true; undefined for null rows.
    fn mask(&self, n: usize, values: Values<'_>) -> BooleanBuffer {
        match (self, values) {
            (Test::Bool(op, literal), Values::Bool(v)) => compare(n, *op, |row| v.value(row), *literal),
            (Test::U64(op, literal), Values::U64(v)) => compare(n, *op, |row| v[row], *literal),
            (Test::I64(op, literal), Values::I64(v)) => compare(n, *op, |row| v[row], *literal),
            (Test::F64(op, literal), Values::F64(v)) => compare(n, *op, |row| v[row], *literal),
            (Test::Text(op, literal), Values::Text(v)) => {
                compare(n, *op, |row| v.value(row), literal.as_str())
            }
            (Test::Net(op, net), Values::Ip(v)) => {
                BooleanBuffer::collect_bool(n, |row| net.holds(&v[row]) == (*op == Compare::Eq))
            }
            (Test::Like(like), Values::Text(v)) => {
                BooleanBuffer::collect_bool(n, |row| like.matches(v.value(row)))
            }
            (Test::InU64(list), Values::U64(v)) => {
                BooleanBuffer::collect_bool(n, |row| list.binary_search(&v[row]).is_ok())
            }
            (Test::InI64(list), Values::I64(v)) => {
                BooleanBuffer::collect_bool(n, |row| list.binary_search(&v[row]).is_ok())
            }
            (Test::Like(like), Values::Hashes(v)) => {
                BooleanBuffer::collect_bool(n, |row| like.matches(&hashes::to_text(v.value(row))))
            }
            (Test::Matches(regex), Values::Text(v)) => {
                BooleanBuffer::collect_bool(n, |row| regex.is_match(v.value(row)))
            }
            (Test::Matches(regex), Values::Hashes(v)) => {
                BooleanBuffer::collect_bool(n, |row| regex.is_match(&hashes::to_text(v.value(row))))
            }
            (Test::InText(list), Values::Text(v)) => BooleanBuffer::collect_bool(n, |row| {
                let text = v.value(row);
                list.binary_search_by(|l| l.as_str().cmp(text)).is_ok()
            }),
            (Test::In(tests), _) => {
                tests.iter().fold(BooleanBuffer::new_unset(n), |any, test| &any | &test.mask(n, values))
            }
            _ => unreachable!("tests are made for their column's type"),
        }
    }
}

impl Net {
    fn new(ip: IpAddr, prefix: u8) -> Net {
        let (ip, prefix, v4) = match ip {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 96 + prefix.min(32), true),
            IpAddr::V6(ip) => (ip, prefix.min(128), prefix >= 96 && ip.to_ipv4_mapped().is_some()),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        Net { bits: ip.to_bits() & mask, mask, v4 }
    }

    fn holds(&self, address: &[u8; 16]) -> bool {
        let address = u128::from_be_bytes(*address);
        address & self.mask == self.bits && (address >> 32 == 0xffff) == self.v4
    }
}

fn sorted<T: Ord>(tests: Vec<Test>, value: fn(Test) -> Option<T>) -> Vec<T> {
    let mut list: Vec<T> = tests.into_iter().filter_map(value).collect();
    list.sort_unstable();
    list
}

fn compare<T: PartialOrd>(n: usize, op: Compare, value: impl Fn(usize) -> T, literal: T) -> BooleanBuffer {
    match op {
        Compare::Eq => BooleanBuffer::collect_bool(n, |row| value(row) == literal),
        Compare::Ne => BooleanBuffer::collect_bool(n, |row| value(row) != literal),
        Compare::Lt => BooleanBuffer::collect_bool(n, |row| value(row) < literal),
        Compare::Le => BooleanBuffer::collect_bool(n, |row| value(row) <= literal),
        Compare::Gt => BooleanBuffer::collect_bool(n, |row| value(row) > literal),
        Compare::Ge => BooleanBuffer::collect_bool(n, |row| value(row) >= literal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_own_family() {
        let v4 = |a: [u8; 4]| std::net::Ipv4Addr::from(a).to_ipv6_mapped().octets();
        for (net, address, expected) in [
            (("10.0.0.0", 8), v4([10, 1, 2, 3]), true),
            (("10.0.0.9", 8), v4([10, 1, 2, 3]), true),
            (("10.0.0.0", 8), v4([11, 1, 2, 3]), false),
            (("0.0.0.0", 0), v4([1, 2, 3, 4]), true),
            (("0.0.0.0", 0), [0x20; 16], false),
            (("::", 0), [0x20; 16], true),
            (("::", 0), v4([1, 2, 3, 4]), false),
            (("::ffff:1.2.3.4", 128), v4([1, 2, 3, 4]), true),
            (("2020:2020::", 33), [0x20; 16], true),
            (("2020:2020:8000::", 33), [0x20; 16], false),
        ] {
            let (ip, prefix): (&str, u8) = net;
            let net = Net::new(ip.parse().expect("a literal"), prefix);
            assert_eq!(net.holds(&address), expected, "{ip}/{prefix} {address:?}");
        }
    }
}
