//! Statements by their shape: what stands between literals. A text of a shape seen before has that one's fingerprint.
//!
//! Numbers and strings are all that may differ, and they say nothing to [`fingerprint`]; so comparing the fixed parts and
//! stepping over the literals gives what reading every token would. Bounded in number and bytes: frequent ones stay.
//! One connection's: it repeats itself far more than connections resemble each other.

use super::fingerprint::{Literal, fingerprint_with, string_end};

/// Shapes that are kept, and bytes of all of them.
const SHAPES_MAX: usize = 64;
const BYTES_MAX: usize = 1 << 14;
/// Bytes of a shape's fixed parts and fingerprint, and its literals; longer ones are read anew each time.
const SHAPE_BYTES_MAX: usize = 1 << 11;
/// Literals of a shape.
const LITERALS_MAX: usize = 64;
/// Where the bytes lie that tell most shapes apart: behind the verb and what usually follows it.
const TELLING: std::ops::Range<usize> = 16..32;

/// The shapes seen lately.
#[derive(Default)]
pub struct Shapes {
    /// Of every shape the telling bytes, looked at before the shape itself.
    telling: Vec<Telling>,
    /// Frequent ones move to the front.
    shapes: Vec<Shape>,
    bytes: usize,
    /// The next to go, in the rear half.
    next: usize,
    literals: Vec<Literal>,
    fingerprint: Vec<u8>,
}

/// Those of the telling bytes that are fixed.
#[derive(Clone, Copy)]
struct Telling {
    bytes: u128,
    fixed: u128,
}

struct Shape {
    /// All fixed parts, one behind the other.
    fixed: Box<[u8]>,
    /// Where literals stand between them, and the first byte of each: a digit or a quote.
    literals: Box<[(u32, u8)]>,
    fingerprint: Box<[u8]>,
}

impl Shapes {
    /// The fingerprint of `sql`.
    pub fn fingerprint(&mut self, sql: &[u8]) -> &[u8] {
        let telling = telling_bytes(sql);
        let alike = |t: &Telling| telling & t.fixed == t.bytes;
        let found = self.telling.iter().zip(&self.shapes).position(|(t, shape)| alike(t) && shape.fits(sql));
        match found {
            Some(i) => {
                self.telling.swap(i, i / 2);
                self.shapes.swap(i, i / 2);
                &self.shapes[i / 2].fingerprint
            }
            None => {
                self.read(sql);
                &self.fingerprint
            }
        }
    }

    #[cold]
    fn read(&mut self, sql: &[u8]) {
        self.literals.clear();
        self.fingerprint.clear();
        fingerprint_with(sql, &mut self.fingerprint, &mut self.literals);
        let between: usize = self.literals.iter().map(|l| (l.end - l.start) as usize).sum();
        let cost = sql.len() - between + self.fingerprint.len();
        if cost <= SHAPE_BYTES_MAX && self.literals.len() <= LITERALS_MAX {
            self.keep(Shape::new(sql, &self.literals, &self.fingerprint));
        }
    }

    fn keep(&mut self, shape: Shape) {
        let telling = shape.telling();
        self.bytes += shape.cost();
        if self.shapes.len() < SHAPES_MAX && self.bytes <= BYTES_MAX {
            self.shapes.push(shape);
            return self.telling.push(telling);
        }
        let rear = self.shapes.len() / 2;
        self.next = if (rear..self.shapes.len()).contains(&self.next) { self.next } else { rear };
        self.bytes -= self.shapes[self.next].cost();
        (self.shapes[self.next], self.telling[self.next]) = (shape, telling);
        self.next += 1;
        while self.bytes > BYTES_MAX
            && let (Some(_), Some(last)) = (self.telling.pop(), self.shapes.pop())
        {
            self.bytes -= last.cost();
        }
    }
}

impl Shape {
    fn new(sql: &[u8], literals: &[Literal], fingerprint: &[u8]) -> Shape {
        let (mut fixed, mut places, mut from) = (Vec::new(), Vec::new(), 0);
        for literal in literals {
            fixed.extend_from_slice(&sql[from..literal.start as usize]);
            places.push((fixed.len() as u32, sql[literal.start as usize]));
            from = literal.end as usize;
        }
        fixed.extend_from_slice(&sql[from..]);
        Shape { fixed: fixed.into(), literals: places.into(), fingerprint: fingerprint.into() }
    }

    fn cost(&self) -> usize {
        self.fixed.len() + self.fingerprint.len() + self.literals.len() * size_of::<(u32, u8)>()
    }

    /// The bytes before the first literal.
    fn telling(&self) -> Telling {
        let first = self.literals.first().map_or(self.fixed.len(), |l| l.0 as usize);
        let known = [0xff; TELLING.end];
        let fixed = telling_bytes(&known[..first.min(TELLING.end)]);
        Telling { bytes: telling_bytes(&self.fixed) & fixed, fixed }
    }

    /// Whether `sql` is this with other literals.
    fn fits(&self, sql: &[u8]) -> bool {
        let (mut rest, mut from) = (sql, 0);
        for &(at, first) in &self.literals {
            let Some(behind) = rest.strip_prefix(&self.fixed[from..at as usize]) else { return false };
            let Some(end) = literal_end(behind, first) else { return false };
            (rest, from) = (&behind[end..], at as usize);
        }
        *rest == self.fixed[from..]
    }
}

/// The end of the literal at the start of `sql`, if there is one of that kind. What follows a number has to be compared
/// with what follows it in the shape: that ends it there, too.
#[inline]
fn literal_end(sql: &[u8], first: u8) -> Option<usize> {
    if first.is_ascii_digit() {
        let digits = sql.iter().take_while(|b| b.is_ascii_digit()).count();
        return (digits > 0).then_some(digits);
    }
    (sql.first() == Some(&first)).then(|| string_end(sql, 0))
}

#[inline]
fn telling_bytes(sql: &[u8]) -> u128 {
    let mut bytes = [0; TELLING.end - TELLING.start];
    match sql.get(TELLING) {
        Some(all) => bytes.copy_from_slice(all),
        None => {
            let some = sql.get(TELLING.start..).unwrap_or_default();
            bytes[..some.len()].copy_from_slice(some);
        }
    }
    u128::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fingerprint::fingerprint;
    use super::*;

    fn slow(sql: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        fingerprint(sql, &mut out);
        out
    }

    #[test]
    fn a_shape_is_read_once() {
        let mut shapes = Shapes::default();
        for (sql, known) in [
            ("SELECT c FROM sbtest1 WHERE id=4993", 1),
            ("SELECT c FROM sbtest1 WHERE id=5", 1),
            ("SELECT c FROM sbtest2 WHERE id=5", 2),
            ("SELECT c FROM sbtest1 WHERE id=5x", 3),
            ("SELECT c FROM sbtest1 WHERE id=0x5", 4),
            ("SELECT c FROM sbtest1 WHERE id=5.5", 5),
            ("SELECT c FROM sbtest1 WHERE id='5'", 6),
            ("SELECT c FROM sbtest1 WHERE id='it''s \\' 5'", 6),
            ("BEGIN", 7),
            ("BEGIN", 7),
        ] {
            assert_eq!(shapes.fingerprint(sql.as_bytes()), slow(sql.as_bytes()), "{sql}");
            assert_eq!(shapes.shapes.len(), known, "{sql}");
        }
    }

    #[test]
    fn shapes_are_bounded() {
        let mut shapes = Shapes::default();
        for i in 0..2000usize {
            let sql = format!("SELECT {} FROM t{i} WHERE a={i}", "column_".repeat(i % 90));
            assert_eq!(shapes.fingerprint(sql.as_bytes()), slow(sql.as_bytes()));
            let bytes: usize = shapes.shapes.iter().map(Shape::cost).sum();
            assert_eq!((bytes, shapes.shapes.len()), (shapes.bytes, shapes.telling.len()));
            assert!(shapes.shapes.len() <= SHAPES_MAX && bytes <= BYTES_MAX);
        }
    }

    /// Texts from few pieces, so that shapes repeat and nearly repeat.
    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop::sample::select(vec![
            "SELECT ", "a", "t1", "1", "23", "0", "-", "'x'", "'y''z'", "'\\''", "\"s\"", "'", "\"", "\\",
            ",", "(", ")", " IN ", "VALUES", "=", "*", ".", "NULL", " ", "/*c*/", "/*!4", "*/", "`q`", "?",
            "+", "\n", ";", "x", "e5", "--", "#", "N", "_u", "@",
        ]);
        prop::collection::vec(piece, 0..12).prop_map(|p| p.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn shapes_give_what_reading_gives(texts in prop::collection::vec(pieces(), 1..40)) {
            let mut shapes = Shapes::default();
            for sql in &texts {
                prop_assert_eq!(shapes.fingerprint(sql), slow(sql), "{}", String::from_utf8_lossy(sql));
            }
        }

        #[test]
        fn other_literals_make_no_difference(sql in pieces(), literals in prop::collection::vec(prop::sample::select(
            vec!["7", "00", "123456", "'a'", "''", "'b''c'", "'\\\\'", "\"d\"", "'open", "5.5", "0x1", "1e3", "9z"]), 8)) {
            // Every digit and string gives way to another literal.
            let mut other = Vec::new();
            let mut next = literals.iter().cycle();
            for b in &sql {
                match b {
                    b'0'..=b'9' | b'\'' => other.extend_from_slice(next.next().expect("a cycle has no end").as_bytes()),
                    b => other.push(*b),
                }
            }
            let mut shapes = Shapes::default();
            for sql in [&sql, &other, &sql] {
                prop_assert_eq!(shapes.fingerprint(sql), slow(sql), "{}", String::from_utf8_lossy(sql));
            }
        }
    }
}
