//! Selects the tuples for which a predicate is true. Predicates are evaluated column by column over a whole batch in
//! SQL's three-valued logic with two bitmaps: rows where it is true, and rows where it is false. In all other rows it
//! is null.
//!
//! An IPv4 network contains only IPv4 addresses, an IPv6 network (including `::/0`) only IPv6 addresses.

use std::net::IpAddr;

use arrow_buffer::BooleanBuffer;
use plan::{Column, ComparisonOperator, Literal, Predicate};
use regex::Regex;
use tuple::{Batch, DataType, FieldId, Schema, hashes};

use crate::column::{ColumnValues, ColumnView};
use crate::ops::like::LikePattern;
use crate::ops::text::compiled;
use crate::rows::RowSet;

/// A predicate resolved to the columns of one schema.
#[derive(Clone, Debug)]
pub struct TupleFilter(FilterNode);

/// The rows where a predicate is true, and where it is false.
#[derive(Clone, Debug)]
pub struct TruthMask {
    /// Rows where the predicate is true.
    pub yes: BooleanBuffer,
    /// Rows where the predicate is false.
    pub no: BooleanBuffer,
}

#[derive(Clone, Debug)]
enum FilterNode {
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    Not(Box<FilterNode>),
    IsNull(FieldId),
    Test(FieldId, FilterTest),
}

#[derive(Clone, Debug)]
enum FilterTest {
    Bool(ComparisonOperator, bool),
    U64(ComparisonOperator, u64),
    I64(ComparisonOperator, i64),
    F64(ComparisonOperator, f64),
    Text(ComparisonOperator, String),
    Net(ComparisonOperator, AddressPrefix),
    Like(LikePattern),
    Matches(Regex),
    InU64(Vec<u64>),
    InI64(Vec<i64>),
    InText(Vec<String>),
    /// A list of values of another type.
    In(Vec<FilterTest>),
}

/// A prefix of 16-byte addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressPrefix {
    bits: u128,
    mask: u128,
    v4: bool,
}

impl TupleFilter {
    /// Resolves a predicate; `place` maps columns of the dataflow to `schema`.
    ///
    /// # Panics
    /// If the type of a literal differs from its column's; the planner rejects these.
    #[must_use]
    pub fn new(
        predicate: &Predicate,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> TupleFilter {
        TupleFilter(FilterNode::new(predicate, schema, place))
    }

    /// Evaluates the predicate for all rows.
    #[must_use]
    pub fn evaluate(&self, batch: &Batch) -> TruthMask {
        self.0.evaluate(batch)
    }

    /// Selects the rows of `rows` for which the predicate is true; `list` is the buffer.
    pub fn select<'a>(
        &self,
        batch: &Batch,
        rows: RowSet<'a>,
        list: &'a mut Vec<u32>,
    ) -> RowSet<'a> {
        let yes = self.evaluate(batch).yes;
        rows.filter(list, |row| yes.value(row))
    }
}

impl FilterNode {
    fn new(
        predicate: &Predicate,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> FilterNode {
        let all = |list: &[Predicate]| {
            list.iter()
                .map(|p| FilterNode::new(p, schema, place))
                .collect()
        };
        let typed = |column: &Column| (place(*column), schema.field(place(*column)).data_type);
        match predicate {
            Predicate::And(list) => FilterNode::And(all(list)),
            Predicate::Or(list) => FilterNode::Or(all(list)),
            Predicate::Not(inner) => {
                FilterNode::Not(Box::new(FilterNode::new(inner, schema, place)))
            }
            Predicate::IsNull(column) => FilterNode::IsNull(place(*column)),
            Predicate::Compare {
                column,
                op,
                literal,
            } => {
                let (field, data_type) = typed(column);
                FilterNode::Test(field, FilterTest::compare(data_type, *op, literal))
            }
            Predicate::Like {
                column,
                pattern,
                case,
            } => {
                let (field, data_type) = typed(column);
                let has_text = matches!(
                    data_type,
                    DataType::Text | DataType::Json | DataType::Hashes
                );
                assert!(has_text, "LIKE is for text");
                FilterNode::Test(field, FilterTest::Like(LikePattern::new(pattern, *case)))
            }
            Predicate::Matches { column, regex } => {
                let (field, data_type) = typed(column);
                let has_text = matches!(
                    data_type,
                    DataType::Text | DataType::Json | DataType::Hashes
                );
                assert!(has_text, "patterns are for text");
                FilterNode::Test(field, FilterTest::Matches(compiled(regex)))
            }
            Predicate::In { column, literals } => {
                let (field, data_type) = typed(column);
                FilterNode::Test(field, FilterTest::any_of(data_type, literals))
            }
        }
    }

    fn evaluate(&self, batch: &Batch) -> TruthMask {
        let n = batch.rows();
        match self {
            FilterNode::And(list) => list.iter().fold(TruthMask::always(n), |all, node| {
                let one = node.evaluate(batch);
                TruthMask {
                    yes: &all.yes & &one.yes,
                    no: &all.no | &one.no,
                }
            }),
            FilterNode::Or(list) => list.iter().fold(TruthMask::always(n).not(), |any, node| {
                let one = node.evaluate(batch);
                TruthMask {
                    yes: &any.yes | &one.yes,
                    no: &any.no & &one.no,
                }
            }),
            FilterNode::Not(inner) => inner.evaluate(batch).not(),
            FilterNode::IsNull(field) => match ColumnView::of(batch, *field).nulls {
                Some(valid) => TruthMask {
                    yes: !valid.inner(),
                    no: valid.inner().clone(),
                },
                None => TruthMask::always(n).not(),
            },
            FilterNode::Test(field, test) => {
                let column = ColumnView::of(batch, *field);
                let yes = test.mask(n, column.values);
                match column.nulls {
                    Some(valid) => TruthMask {
                        no: &!&yes & valid.inner(),
                        yes: &yes & valid.inner(),
                    },
                    None => TruthMask { no: !&yes, yes },
                }
            }
        }
    }
}

impl TruthMask {
    fn always(n: usize) -> TruthMask {
        TruthMask {
            yes: BooleanBuffer::new_set(n),
            no: BooleanBuffer::new_unset(n),
        }
    }

    fn not(self) -> TruthMask {
        TruthMask {
            yes: self.no,
            no: self.yes,
        }
    }
}

impl FilterTest {
    fn compare(data_type: DataType, op: ComparisonOperator, literal: &Literal) -> FilterTest {
        match (data_type, literal) {
            (DataType::Bool, Literal::Bool(v)) => FilterTest::Bool(op, *v),
            (DataType::U64, Literal::U64(v)) => FilterTest::U64(op, *v),
            (DataType::I64, Literal::I64(v)) => FilterTest::I64(op, *v),
            (DataType::F64, Literal::F64(v)) => FilterTest::F64(op, *v),
            (DataType::Text | DataType::Json, Literal::Text(v)) => FilterTest::Text(op, v.clone()),
            (DataType::Ip, Literal::Net(ip, prefix)) => {
                assert!(
                    matches!(op, ComparisonOperator::Eq | ComparisonOperator::Ne),
                    "a network is equal or not"
                );
                FilterTest::Net(op, AddressPrefix::new(*ip, *prefix))
            }
            _ => panic!("{literal:?} is no literal for a {data_type:?} column"),
        }
    }

    fn any_of(data_type: DataType, literals: &[Literal]) -> FilterTest {
        let tests: Vec<FilterTest> = literals
            .iter()
            .map(|l| FilterTest::compare(data_type, ComparisonOperator::Eq, l))
            .collect();
        match data_type {
            DataType::U64 => FilterTest::InU64(sorted(tests, |t| {
                if let FilterTest::U64(_, v) = t {
                    Some(v)
                } else {
                    None
                }
            })),
            DataType::I64 => FilterTest::InI64(sorted(tests, |t| {
                if let FilterTest::I64(_, v) = t {
                    Some(v)
                } else {
                    None
                }
            })),
            DataType::Text | DataType::Json => FilterTest::InText(sorted(tests, |t| {
                if let FilterTest::Text(_, v) = t {
                    Some(v)
                } else {
                    None
                }
            })),
            _ => FilterTest::In(tests),
        }
    }

    /// Rows in which the test is true; undefined for null rows.
    fn mask(&self, n: usize, values: ColumnValues<'_>) -> BooleanBuffer {
        match (self, values) {
            (FilterTest::Bool(op, literal), ColumnValues::Bool(v)) => {
                compare(n, *op, |row| v.value(row), *literal)
            }
            (FilterTest::U64(op, literal), ColumnValues::U64(v)) => {
                compare(n, *op, |row| v[row], *literal)
            }
            (FilterTest::I64(op, literal), ColumnValues::I64(v)) => {
                compare(n, *op, |row| v[row], *literal)
            }
            (FilterTest::F64(op, literal), ColumnValues::F64(v)) => {
                compare(n, *op, |row| v[row], *literal)
            }
            (FilterTest::Text(op, literal), ColumnValues::Text(v)) => {
                compare(n, *op, |row| v.value(row), literal.as_str())
            }
            (FilterTest::Net(op, net), ColumnValues::Ip(v)) => {
                BooleanBuffer::collect_bool(n, |row| {
                    net.holds(&v[row]) == (*op == ComparisonOperator::Eq)
                })
            }
            (FilterTest::Like(like), ColumnValues::Text(v)) => {
                BooleanBuffer::collect_bool(n, |row| like.matches(v.value(row)))
            }
            (FilterTest::InU64(list), ColumnValues::U64(v)) => {
                BooleanBuffer::collect_bool(n, |row| list.binary_search(&v[row]).is_ok())
            }
            (FilterTest::InI64(list), ColumnValues::I64(v)) => {
                BooleanBuffer::collect_bool(n, |row| list.binary_search(&v[row]).is_ok())
            }
            (FilterTest::Like(like), ColumnValues::Hashes(v)) => {
                BooleanBuffer::collect_bool(n, |row| like.matches(&hashes::to_text(v.value(row))))
            }
            (FilterTest::Matches(regex), ColumnValues::Text(v)) => {
                BooleanBuffer::collect_bool(n, |row| regex.is_match(v.value(row)))
            }
            (FilterTest::Matches(regex), ColumnValues::Hashes(v)) => {
                BooleanBuffer::collect_bool(n, |row| regex.is_match(&hashes::to_text(v.value(row))))
            }
            (FilterTest::InText(list), ColumnValues::Text(v)) => {
                BooleanBuffer::collect_bool(n, |row| {
                    let text = v.value(row);
                    list.binary_search_by(|l| l.as_str().cmp(text)).is_ok()
                })
            }
            (FilterTest::In(tests), _) => {
                tests.iter().fold(BooleanBuffer::new_unset(n), |any, test| {
                    &any | &test.mask(n, values)
                })
            }
            _ => unreachable!("tests are made for their column's type"),
        }
    }
}

impl AddressPrefix {
    fn new(ip: IpAddr, prefix: u8) -> AddressPrefix {
        let (ip, prefix, v4) = match ip {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 96 + prefix.min(32), true),
            IpAddr::V6(ip) => (
                ip,
                prefix.min(128),
                prefix >= 96 && ip.to_ipv4_mapped().is_some(),
            ),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        AddressPrefix {
            bits: ip.to_bits() & mask,
            mask,
            v4,
        }
    }

    fn holds(&self, address: &[u8; 16]) -> bool {
        let address = u128::from_be_bytes(*address);
        address & self.mask == self.bits && (address >> 32 == 0xffff) == self.v4
    }
}

fn sorted<T: Ord>(tests: Vec<FilterTest>, value: fn(FilterTest) -> Option<T>) -> Vec<T> {
    let mut list: Vec<T> = tests.into_iter().filter_map(value).collect();
    list.sort_unstable();
    list
}

fn compare<T: PartialOrd>(
    n: usize,
    op: ComparisonOperator,
    value: impl Fn(usize) -> T,
    literal: T,
) -> BooleanBuffer {
    match op {
        ComparisonOperator::Eq => BooleanBuffer::collect_bool(n, |row| value(row) == literal),
        ComparisonOperator::Ne => BooleanBuffer::collect_bool(n, |row| value(row) != literal),
        ComparisonOperator::Lt => BooleanBuffer::collect_bool(n, |row| value(row) < literal),
        ComparisonOperator::Le => BooleanBuffer::collect_bool(n, |row| value(row) <= literal),
        ComparisonOperator::Gt => BooleanBuffer::collect_bool(n, |row| value(row) > literal),
        ComparisonOperator::Ge => BooleanBuffer::collect_bool(n, |row| value(row) >= literal),
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
            let net = AddressPrefix::new(ip.parse().expect("a literal"), prefix);
            assert_eq!(net.holds(&address), expected, "{ip}/{prefix} {address:?}");
        }
    }
}
