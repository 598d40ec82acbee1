//! A value of one row, and rows encoded as bytes, used for group keys and for rows waiting in a join.
//!
//! An encoded row is the sequence of its scalars, each a tag and a payload, so that equal rows have equal bytes
//! (negative zero is encoded as zero). The bytes never leave the process.

use std::cmp::Ordering;

use tuple::{FieldId, TupleWriter};

/// A value of a column, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// Null.
    Null,
    /// Boolean.
    Bool(bool),
    /// Unsigned integer.
    U64(u64),
    /// Signed integer.
    I64(i64),
    /// Floating point.
    F64(f64),
    /// UTF-8.
    Text(&'a [u8]),
    /// IPv6 or IPv4-mapped.
    Ip(&'a [u8; 16]),
    /// A list of hashes.
    Hashes(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// Appends the encoding.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Scalar::Null => bytes.push(0),
            Scalar::Bool(v) => bytes.extend_from_slice(&[1, u8::from(*v)]),
            Scalar::U64(v) => fixed(bytes, 2, &v.to_le_bytes()),
            Scalar::I64(v) => fixed(bytes, 3, &v.to_le_bytes()),
            Scalar::F64(v) => fixed(bytes, 4, &(v + 0.0).to_bits().to_le_bytes()),
            Scalar::Text(v) => counted(bytes, 5, v),
            Scalar::Ip(v) => fixed(bytes, 6, *v),
            Scalar::Hashes(v) => counted(bytes, 7, v),
        }
    }

    /// Strips this scalar from the start of an encoded row; `None` if the row begins with another scalar.
    #[inline]
    #[must_use]
    pub fn is_first_of<'b>(&self, row: &'b [u8]) -> Option<&'b [u8]> {
        match self {
            Scalar::Null => row.strip_prefix(&[0]),
            Scalar::Bool(v) => row.strip_prefix(&[1, u8::from(*v)]),
            Scalar::U64(v) => begins(row, 2, &v.to_le_bytes()),
            Scalar::I64(v) => begins(row, 3, &v.to_le_bytes()),
            Scalar::F64(v) => begins(row, 4, &(v + 0.0).to_bits().to_le_bytes()),
            Scalar::Text(v) => begins(row, 5, &(v.len() as u32).to_le_bytes())?.strip_prefix(*v),
            Scalar::Ip(v) => begins(row, 6, v),
            Scalar::Hashes(v) => begins(row, 7, &(v.len() as u32).to_le_bytes())?.strip_prefix(*v),
        }
    }

    /// Whether an encoded row consists of only this scalar; the row must have one scalar, of the same type or null.
    #[inline]
    #[must_use]
    pub fn is_all_of(&self, row: &[u8]) -> bool {
        match self {
            // An encoded null is shorter, so the tag need not be compared.
            Scalar::Ip(v) => row.len() == 17 && row[1..] == v[..],
            Scalar::U64(v) => row.len() == 9 && row[1..] == v.to_le_bytes(),
            Scalar::Text(v) => row.len() == v.len() + 5 && row[5..] == **v,
            _ => self.is_first_of(row).is_some_and(<[u8]>::is_empty),
        }
    }

    /// A number below 2^32 or an IPv4 address as 32 bits, unique within its type.
    #[inline]
    #[must_use]
    pub fn short(&self) -> Option<u32> {
        match self {
            Scalar::U64(v) => u32::try_from(*v).ok(),
            Scalar::Ip(v) => {
                let ip = u128::from_be_bytes(**v);
                (ip >> 32 == 0xffff).then_some(ip as u32)
            }
            _ => None,
        }
    }

    /// Decodes the first scalar of an encoded row and returns the rest; `None` at the end.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<(Scalar<'a>, &'a [u8])> {
        let (tag, rest) = bytes.split_first()?;
        Some(match tag {
            0 => (Scalar::Null, rest),
            1 => (Scalar::Bool(*rest.first()? != 0), &rest[1..]),
            2 => rest
                .split_first_chunk()
                .map(|(v, rest)| (Scalar::U64(u64::from_le_bytes(*v)), rest))?,
            3 => rest
                .split_first_chunk()
                .map(|(v, rest)| (Scalar::I64(i64::from_le_bytes(*v)), rest))?,
            4 => rest
                .split_first_chunk()
                .map(|(v, rest)| (Scalar::F64(f64::from_le_bytes(*v)), rest))?,
            5 | 7 => {
                let (len, rest) = rest.split_first_chunk()?;
                let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
                (
                    if *tag == 5 {
                        Scalar::Text(bytes)
                    } else {
                        Scalar::Hashes(bytes)
                    },
                    rest,
                )
            }
            _ => rest
                .split_first_chunk::<16>()
                .map(|(v, rest)| (Scalar::Ip(v), rest))?,
        })
    }

    /// Null first, then by value; text by bytes.
    #[must_use]
    pub fn order(&self, other: &Scalar<'_>) -> Ordering {
        match (self, other) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            (Scalar::U64(a), Scalar::U64(b)) => a.cmp(b),
            (Scalar::I64(a), Scalar::I64(b)) => a.cmp(b),
            (Scalar::F64(a), Scalar::F64(b)) => a.total_cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) | (Scalar::Hashes(a), Scalar::Hashes(b)) => a.cmp(b),
            (Scalar::Ip(a), Scalar::Ip(b)) => a.cmp(b),
            (Scalar::Null, Scalar::Null) => Ordering::Equal,
            (Scalar::Null, _) => Ordering::Less,
            _ => Ordering::Greater,
        }
    }

    /// Sets a column of the current row of `writer`; null sets nothing.
    pub fn write(&self, writer: &mut TupleWriter, id: FieldId) {
        match self {
            Scalar::Null => {}
            Scalar::Bool(v) => writer.bool(id, *v),
            Scalar::U64(v) => writer.u64(id, *v),
            Scalar::I64(v) => writer.i64(id, *v),
            Scalar::F64(v) => writer.f64(id, *v),
            Scalar::Text(v) => writer.text(id, v),
            Scalar::Ip(v) => writer.ip(id, v),
            Scalar::Hashes(v) => {
                let list: Vec<u64> = tuple::hashes::of(v)
                    .map(Option::unwrap_or_default)
                    .collect();
                writer.hashes(id, &list);
            }
        }
    }
}

/// Compares two encoded rows of the same columns, column by column.
#[must_use]
pub fn order_rows(mut a: &[u8], mut b: &[u8]) -> Ordering {
    loop {
        match (Scalar::decode(a), Scalar::decode(b)) {
            (Some((x, a_rest)), Some((y, b_rest))) => match x.order(&y) {
                Ordering::Equal => {
                    a = a_rest;
                    b = b_rest;
                }
                unequal => return unequal,
            },
            (x, y) => return x.is_some().cmp(&y.is_some()),
        }
    }
}

#[inline]
fn begins<'b, const N: usize>(row: &'b [u8], tag: u8, payload: &[u8; N]) -> Option<&'b [u8]> {
    let (first, rest) = row.split_first()?;
    let (held, rest) = rest.split_first_chunk::<N>()?;
    (*first == tag && held == payload).then_some(rest)
}

fn counted(bytes: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    fixed(bytes, tag, &(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(payload);
}

fn fixed(bytes: &mut Vec<u8>, tag: u8, payload: &[u8]) {
    bytes.push(tag);
    bytes.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(row: &[Scalar<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        row.iter().for_each(|c| c.encode(&mut bytes));
        bytes
    }

    #[test]
    fn rows_come_back() {
        let ip = [7; 16];
        let row = [
            Scalar::Null,
            Scalar::Bool(true),
            Scalar::U64(u64::MAX),
            Scalar::I64(i64::MIN),
            Scalar::F64(-1.5),
            Scalar::Text(b"caf\xc3\xa9\0"),
            Scalar::Ip(&ip),
            Scalar::Text(b""),
            Scalar::Hashes(b""),
            Scalar::Hashes(&[1; 16]),
        ];
        let bytes = encoded(&row);
        let mut rest = &bytes[..];
        let mut back = Vec::new();
        while let Some((scalar, more)) = Scalar::decode(rest) {
            back.push(scalar);
            assert_eq!(scalar.is_first_of(rest), Some(more));
            assert!(scalar.is_all_of(&encoded(&[scalar])));
            for other in row.iter().filter(|other| **other != scalar) {
                assert_eq!(other.is_first_of(rest), None);
            }
            rest = more;
        }
        assert_eq!(back, row);
        for cut in 0..bytes.len() {
            let mut rest = &bytes[..cut];
            while let Some((_, more)) = Scalar::decode(rest) {
                rest = more;
            }
        }
    }

    #[test]
    fn order_is_by_column_with_null_first() {
        let rows: &[&[Scalar<'_>]] = &[
            &[Scalar::Null, Scalar::I64(9)],
            &[Scalar::Text(b""), Scalar::I64(i64::MIN)],
            &[Scalar::Text(b"a"), Scalar::Null],
            &[Scalar::Text(b"a"), Scalar::I64(-1)],
            &[Scalar::Text(b"a"), Scalar::I64(256)],
            &[Scalar::Text(b"a\0"), Scalar::I64(0)],
            &[Scalar::Text(b"b"), Scalar::I64(0)],
        ];
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert_eq!(
                    order_rows(&encoded(a), &encoded(b)),
                    i.cmp(&j),
                    "{a:?} {b:?}"
                );
            }
        }
        assert_eq!(encoded(&[Scalar::F64(-0.0)]), encoded(&[Scalar::F64(0.0)]));
    }
}
