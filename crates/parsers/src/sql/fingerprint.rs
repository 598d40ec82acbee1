//! Fingerprint of an SQL statement: literals folded to `?`, comments removed, white space normalized.
//!
//! Value lists after IN and VALUES become one `?`, and equal rows one row; names and keywords are unchanged.
//! `SELECT a FROM t WHERE id IN (1,2) -- x` and `… IN (7)` give `SELECT a FROM t WHERE id IN (?)`. One linear
//! pass over any bytes; the result is bounded. It does not check grammar. In MySQL's dialect, double quotes are strings
//! (the server's default), and `/*! … */` is read as code, as the server does.

use std::ops::Range;

use super::SqlDialect;
use super::literal::{cql_literal_end, dollar_end, quoted_end};
use super::shorten::string_end;
use super::tokens::{
    CLASS, FALSE, KEYWORD_MAX, NULL, SPACES, SqlByteClass, SqlToken, TRUE, TokenSpacing, word_of,
};

/// Maximum length; the rest is replaced with `...`.
pub const FINGERPRINT_MAX: usize = 4096;
/// Maximum bracket nesting in which lists are detected.
const DEPTH_MAX: usize = 64;
/// Flag of a bracket with a value list.
const LISTED: u32 = 1 << 31;

/// Appends the fingerprint of `sql`, in MySQL's dialect, to `out`.
pub fn fingerprint(sql: &[u8], out: &mut Vec<u8>) {
    fingerprint_in(SqlDialect::MySql, sql, out);
}

/// Appends the fingerprint of `sql` to `out`.
pub fn fingerprint_in(dialect: SqlDialect, sql: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut folder = SqlFingerprinter::new(dialect, sql, out);
    while folder.len() - start <= FINGERPRINT_MAX && folder.token() {}
    folder.flush();
    folder.drop_open_row();
    while out.len() > start && matches!(out.last(), Some(b';' | b' ')) {
        out.pop();
    }
    if out.len() - start > FINGERPRINT_MAX {
        let mut end = start + FINGERPRINT_MAX;
        while end > start && out[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        out.truncate(end);
        out.extend_from_slice(b"...");
    }
}

struct SqlFingerprinter<'a> {
    dialect: SqlDialect,
    sql: &'a [u8],
    at: usize,
    out: &'a mut Vec<u8>,
    /// Pending output: the range of the text that is unchanged.
    run: Range<usize>,
    /// The last token, and the two before it.
    last: SqlToken,
    before: SqlToken,
    earlier: SqlToken,
    /// White space or a comment precedes the next token.
    spaced: bool,
    /// Position in `out` of every open bracket, with [`LISTED`] if it holds a value list.
    open: [u32; DEPTH_MAX],
    depth: usize,
    /// The last closed bracket held a value list.
    closed_list: bool,
    /// Position in `out` of the rows after VALUES.
    rows_from: usize,
    /// Inside `/*! … */`.
    versioned: bool,
}

impl<'a> SqlFingerprinter<'a> {
    fn new(dialect: SqlDialect, sql: &'a [u8], out: &'a mut Vec<u8>) -> Self {
        let last = SqlToken::Start;
        let before = SqlToken::Start;
        let earlier = SqlToken::Start;
        let spaced = false;
        let closed_list = false;
        let versioned = false;
        let run = 0..0;
        let open = [0; DEPTH_MAX];
        let depth = 0;
        let at = 0;
        let rows_from = out.len();
        SqlFingerprinter {
            dialect,
            sql,
            at,
            out,
            run,
            last,
            before,
            earlier,
            spaced,
            open,
            depth,
            closed_list,
            rows_from,
            versioned,
        }
    }

    /// Reads one token, white space, or a comment; returns false at the end.
    #[inline]
    fn token(&mut self) -> bool {
        let Some(&b) = self.sql.get(self.at) else {
            return false;
        };
        match CLASS[b as usize] {
            SqlByteClass::Word => self.word(),
            SqlByteClass::Space => self.space(self.count(SqlByteClass::Space)),
            SqlByteClass::Digit => self.number_or_word(),
            SqlByteClass::Quote => self.string(b),
            SqlByteClass::Comparison => {
                self.put(SqlToken::Comparison, self.count(SqlByteClass::Comparison))
            }
            SqlByteClass::Other => self.sign(b),
        }
        true
    }

    /// Handles a byte that is a token itself, or begins a short one.
    fn sign(&mut self, b: u8) {
        let next = self.sql.get(self.at + 1).copied().unwrap_or(0);
        match b {
            b'#' if self.dialect == SqlDialect::MySql => self.line_comment(),
            b'-' if next == b'-' && self.begins_comment(self.at + 2) => self.line_comment(),
            b'/' if next == b'*' => self.block_comment(),
            b'/' if next == b'/' && self.dialect == SqlDialect::Cql => self.line_comment(),
            b'*' if next == b'/' && self.versioned => {
                self.versioned = false;
                self.space(2);
            }
            b'.' if next.is_ascii_digit() && !self.last.ends_operand() => self.number_or_word(),
            b'`' if self.dialect == SqlDialect::MySql => self.quoted_name(b'`'),
            b'?' => self.value(1),
            b'(' => self.bracket_opens(),
            b')' => self.bracket_closes(),
            b',' => self.put(SqlToken::Comma, 1),
            b'.' if self.last.ends_operand() => self.put(SqlToken::Dot, 1),
            b';' => self.put(SqlToken::Semicolon, 1),
            b'-' if next == b'>' => self.put(
                SqlToken::Operator,
                2 + usize::from(self.sql.get(self.at + 2) == Some(&b'>')),
            ),
            b':' if next == b'=' => self.put(SqlToken::Comparison, 2),
            _ => self.put(SqlToken::Operator, 1),
        }
    }

    fn space(&mut self, n: usize) {
        self.at += n;
        self.spaced = true;
    }

    /// Number of bytes of `class` from here on.
    fn count(&self, class: SqlByteClass) -> usize {
        self.sql[self.at..]
            .iter()
            .take_while(|b| CLASS[**b as usize] == class)
            .count()
    }

    /// Length of the output.
    #[inline]
    fn len(&self) -> usize {
        self.out.len() + self.run.len()
    }

    /// Appends the pending output.
    #[inline]
    fn flush(&mut self) {
        self.out.extend_from_slice(&self.sql[self.run.clone()]);
        self.run = self.at..self.at;
    }

    /// Appends the next `n` bytes as `token`.
    #[inline]
    fn put(&mut self, token: SqlToken, n: usize) {
        let space = self.is_separate(token);
        let between = &self.sql[self.run.end..self.at];
        if self.run.is_empty() || !(between == b" " && space || between.is_empty() && !space) {
            self.flush();
            if space {
                self.out.push(b' ');
            }
            self.run.start = self.at;
        }
        self.at += n;
        self.run.end = self.at;
        self.becomes(token);
    }

    #[inline]
    fn becomes(&mut self, token: SqlToken) {
        self.earlier = std::mem::replace(&mut self.before, self.last);
        self.last = token;
        self.spaced = false;
    }

    /// Whether white space separates the last token and `next`.
    #[inline]
    fn is_separate(&mut self, next: SqlToken) -> bool {
        match SPACES[self.last as usize][next as usize] {
            TokenSpacing::Never => false,
            TokenSpacing::Always => true,
            TokenSpacing::Kept if self.spaced => true,
            // Two signs must not become a comment.
            TokenSpacing::Kept => {
                next == SqlToken::Operator
                    && self.last == SqlToken::Operator
                    && self.ends_with_minus()
            }
        }
    }

    fn ends_with_minus(&mut self) -> bool {
        self.flush();
        self.out.last() == Some(&b'-')
    }

    /// A literal of `n` bytes.
    fn value(&mut self, n: usize) {
        self.at += n;
        if self.last == SqlToken::Value {
            return; // 'a' 'b' is one string
        }
        self.flush();
        self.drop_sign();
        let listed = self.in_list();
        if listed && self.last == SqlToken::Comma && self.before == SqlToken::Value {
            self.out.pop();
            self.last = SqlToken::Value;
            self.spaced = false;
            return;
        }
        if self.is_separate(SqlToken::Value) {
            self.out.push(b' ');
        }
        self.out.push(b'?');
        self.becomes(SqlToken::Value);
    }

    /// Removes a sign that belongs to the literal because it is not between two operands; one of several
    /// signs is kept.
    fn drop_sign(&mut self) {
        let unary = !self.before.ends_operand();
        let [before @ .., b'-' | b'+'] = self.out.as_slice() else {
            return;
        };
        let several = matches!(before.trim_ascii_end().last(), Some(b'-' | b'+'));
        if self.last == SqlToken::Operator && unary && !several {
            self.out.pop();
            self.spaced = self.out.last() == Some(&b' ');
            if self.spaced {
                self.out.pop();
            }
            self.last = self.before;
            self.before = self.earlier;
        }
    }

    fn string(&mut self, quote: u8) {
        if self.dialect != SqlDialect::MySql {
            return self.quoted(quote);
        }
        let end = string_end(self.sql, self.at + 1, quote).unwrap_or(self.sql.len());
        self.value(end - self.at);
    }

    /// A quoted name or a string without backslashes.
    fn quoted(&mut self, quote: u8) {
        if quote == b'"' {
            return self.quoted_name(quote);
        }
        let end = quoted_end(self.sql, self.at + 1, quote);
        self.value(end - self.at);
    }

    fn quoted_name(&mut self, quote: u8) {
        let rest = &self.sql[self.at + 1..];
        let n = memchr::memchr(quote, rest).map_or(rest.len(), |n| n + 1);
        self.put(SqlToken::Word, n + 1);
    }

    /// Whether two hyphens before `at` begin a comment.
    fn begins_comment(&self, at: usize) -> bool {
        self.dialect != SqlDialect::MySql || self.sql.get(at).is_none_or(|b| *b <= b' ')
    }

    fn line_comment(&mut self) {
        let rest = &self.sql[self.at..];
        self.space(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
    }

    fn block_comment(&mut self) {
        let rest = &self.sql[self.at..];
        let marker = match rest {
            _ if self.dialect != SqlDialect::MySql => 0,
            [_, _, b'!', ..] => 3,
            [_, _, b'M', b'!', ..] => 4,
            _ => 0,
        };
        if marker > 0 {
            self.versioned = true;
            let digits = rest[marker..]
                .iter()
                .take(6)
                .take_while(|b| b.is_ascii_digit())
                .count();
            return self.space(marker + digits);
        }
        let n = memchr::memmem::find(&rest[2..], b"*/").map_or(rest.len(), |n| n + 4);
        self.space(n);
    }

    /// Digits: a number, unless they begin a name.
    fn number_or_word(&mut self) {
        if self.dialect == SqlDialect::Cql
            && let Some(end) = cql_literal_end(self.sql, self.at)
        {
            return self.value(end - self.at);
        }
        let rest = &self.sql[self.at..];
        let digits = |from: usize| {
            rest[from.min(rest.len())..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count()
        };
        let mut n = digits(0);
        if n == 1 && rest[0] == b'0' && matches!(rest.get(1), Some(b'x' | b'X' | b'b' | b'B')) {
            let hex = rest[2..]
                .iter()
                .take_while(|b| b.is_ascii_hexdigit())
                .count();
            n = if hex > 0 { 2 + hex } else { 1 };
        } else {
            if rest.get(n) == Some(&b'.') {
                n += 1 + digits(n + 1);
            }
            if matches!(rest.get(n), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(rest.get(n + 1), Some(b'+' | b'-')));
                let exponent = digits(n + 1 + sign);
                n += if exponent > 0 { 1 + sign + exponent } else { 0 };
            }
        }
        let named = rest
            .get(n)
            .is_some_and(|b| CLASS[*b as usize] <= SqlByteClass::Digit)
            && !rest[..n].contains(&b'.');
        if named || self.last == SqlToken::Dot {
            self.word();
        } else {
            self.value(n);
        }
    }

    /// A literal that begins like a word: `E'…'`, `U&'…'`, `$$…$$`; of CQL, a UUID. Returns its end.
    #[cold]
    fn prefixed_literal(&self) -> Option<usize> {
        if self.dialect == SqlDialect::Cql
            && let Some(end) = cql_literal_end(self.sql, self.at)
        {
            return Some(end);
        }
        match &self.sql[self.at..] {
            [b'$', ..] => dollar_end(self.sql, self.at),
            [b'e' | b'E', b'\'', ..] => {
                Some(string_end(self.sql, self.at + 2, b'\'').unwrap_or(self.sql.len()))
            }
            [b'u' | b'U', b'&', b'\'', ..] => Some(quoted_end(self.sql, self.at + 3, b'\'')),
            _ => None,
        }
    }

    fn word(&mut self) {
        if self.dialect != SqlDialect::MySql
            && let Some(end) = self.prefixed_literal()
        {
            return self.value(end - self.at);
        }
        let rest = &self.sql[self.at..];
        let mut n = 0;
        let mut key = 0;
        while let Some(&b) = rest.get(n)
            && CLASS[b as usize] <= SqlByteClass::Digit
        {
            key = key << 8 | u64::from(b | 0x20);
            n += 1;
        }
        let word = &rest[..n.max(1)];
        let key = if n <= KEYWORD_MAX { key } else { 0 };
        // `x'ff'`, `N'…'`, `_utf8mb4'…'`: the prefix is part of the literal.
        if let (
            Some(&quote @ (b'\'' | b'"')),
            [b'x' | b'X' | b'b' | b'B' | b'n' | b'N'] | [b'_', ..],
        ) = (rest.get(n), word)
        {
            self.at += n;
            return self.string(quote);
        }
        let valued = matches!(
            self.last,
            SqlToken::Open | SqlToken::Comma | SqlToken::Comparison
        );
        if valued && matches!(key, NULL | TRUE | FALSE) {
            return self.value(n);
        }
        let kind = if self.last == SqlToken::Dot {
            SqlToken::Word
        } else {
            word_of(key)
        };
        self.put(kind, word.len());
    }

    fn bracket_opens(&mut self) {
        let inside_list = self.in_list();
        let listed = match self.last {
            SqlToken::ListWord => true,
            SqlToken::Open => inside_list,
            SqlToken::Comma => inside_list || self.before == SqlToken::Close && self.closed_list,
            _ => false,
        };
        let is_first = self.last == SqlToken::ListWord;
        self.put(SqlToken::Open, 1);
        if is_first {
            self.rows_from = self.len() - 1;
        }
        if self.depth < DEPTH_MAX {
            self.open[self.depth] = (self.len() - 1) as u32 | if listed { LISTED } else { 0 };
            self.depth += 1;
        }
    }

    /// Whether the innermost bracket holds a value list.
    fn in_list(&self) -> bool {
        self.depth > 0 && self.open[self.depth - 1] & LISTED != 0
    }

    fn bracket_closes(&mut self) {
        self.put(SqlToken::Close, 1);
        self.closed_list = self.in_list();
        self.depth = self.depth.saturating_sub(1);
        if self.closed_list {
            self.flush();
            self.drop_equal_row((self.open[self.depth] & !LISTED) as usize);
        }
    }

    /// Removes a row equal to an earlier one: `(?), (NOW()), (?)` becomes `(?), (NOW())`.
    fn drop_equal_row(&mut self, from: usize) {
        let (earlier, row) = self.out.split_at(from);
        let Some(earlier) = earlier.strip_suffix(b", ") else {
            return;
        };
        let follows = earlier
            .strip_suffix(row)
            .is_some_and(|rest| matches!(rest.last(), Some(b' ' | b'(')));
        let is_known = || {
            earlier
                .get(self.rows_from..)
                .is_some_and(|rows| has_row(rows, row))
        };
        if follows || is_known() {
            let end = earlier.len();
            self.out.truncate(end);
        }
    }

    /// Removes a row truncated by the end of the text, after complete rows.
    fn drop_open_row(&mut self) {
        let open = self.open[..self.depth].iter().find(|at| **at & LISTED != 0);
        let from = open.map_or(self.out.len(), |at| (at & !LISTED) as usize);
        if let Some(rows) = self.out[..from]
            .strip_suffix(b", ")
            .filter(|rows| rows.ends_with(b")") && open.is_some())
        {
            let end = rows.len();
            self.out.truncate(end);
        } else if self.closed_list
            && self.depth == 0
            && self.last == SqlToken::Comma
            && self.out.ends_with(b"),")
        {
            self.out.pop();
        }
    }
}

/// Whether the comma-separated `rows` contain `row`.
fn has_row(rows: &[u8], row: &[u8]) -> bool {
    let mut depth = 0;
    let mut start = 0;
    for (at, b) in rows.iter().enumerate() {
        match b {
            b'(' => {
                start = if depth == 0 { at } else { start };
                depth += 1;
            }
            b')' if depth == 1 && &rows[start..=at] == row => return true,
            b')' => depth -= i32::from(depth > 0),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(sql: impl AsRef<[u8]>) -> String {
        let mut out = Vec::new();
        fingerprint(sql.as_ref(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn statements() {
        for (sql, expected) in [
            (
                "SELECT c FROM sbtest1 WHERE id=101",
                "SELECT c FROM sbtest1 WHERE id = ?",
            ),
            ("  select\n*\tfrom test ; ", "select * from test"),
            (
                "/* lead */ SELECT id,\n\t name FROM item -- tail\n WHERE id = 7",
                "SELECT id, name FROM item WHERE id = ?",
            ),
            ("SELECT 1 # end", "SELECT ?"),
            ("SELECT 5--3", "SELECT ?- -?"),
            ("SELECT 'it''s', \"a\\\"b\", 'x\\'", "SELECT ?, ?, ?"),
            ("SELECT 'a' 'b'", "SELECT ?"),
            (
                "select * from t where a=-5 and b = +1.5e-10 and c-3 > .5",
                "select * from t where a = ? and b = ? and c-? > ?",
            ),
            (
                "SELECT 0xAB, x'00ff', X'1', b'01', N'n', _utf8mb4'u', 0b11",
                "SELECT ?, ?, ?, ?, ?, ?, ?",
            ),
            (
                "SELECT t1.c2, `we``ird 1`, @v1, @@session.x FROM db1.2024_log",
                "SELECT t1.c2, `we``ird 1`, @v1, @@session.x FROM db1.2024_log",
            ),
            (
                "SELECT * FROM t WHERE a IN(-1, - 2,3)",
                "SELECT * FROM t WHERE a IN (?)",
            ),
            (
                "SELECT * FROM t WHERE a in (?, ?)",
                "SELECT * FROM t WHERE a in (?)",
            ),
            (
                "SELECT * FROM t WHERE (a,b) IN ((1,2),(3,4), (5,6))",
                "SELECT * FROM t WHERE (a, b) IN ((?))",
            ),
            (
                "SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c IN (1,2))",
                "SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c IN (?))",
            ),
            (
                "INSERT INTO t(a,b) VALUES(1,'x'),(2,'y'),(3,NULL)",
                "INSERT INTO t(a, b) VALUES (?)",
            ),
            (
                "INSERT INTO t VALUES (NOW(),1),(2,3),(NOW(),4),(5,6),(7,DEFAULT),(8,9)",
                "INSERT INTO t VALUES (NOW(), ?), (?), (?, DEFAULT)",
            ),
            (
                "INSERT INTO t VALUES (1,(SELECT 1)),(2),(3)",
                "INSERT INTO t VALUES (?, (SELECT ?)), (?)",
            ),
            (
                "INSERT INTO t VALUES (1,2),(3,'abc",
                "INSERT INTO t VALUES (?)",
            ),
            (
                "INSERT INTO t VALUES (1,2),(3,(SELECT a FROM",
                "INSERT INTO t VALUES (?)",
            ),
            ("INSERT INTO t VALUES (1,2),", "INSERT INTO t VALUES (?)"),
            ("INSERT INTO t VALUES (1,2", "INSERT INTO t VALUES (?"),
            (
                "INSERT INTO t VALUES (NOW(), 1), (NOW(), 2) ON DUPLICATE KEY UPDATE a=VALUES(a), b=2",
                "INSERT INTO t VALUES (NOW(), ?) ON DUPLICATE KEY UPDATE a = VALUES (a), b = ?",
            ),
            (
                "SELECT COALESCE(1, 2), f(a, -1)",
                "SELECT COALESCE(?, ?), f(a, ?)",
            ),
            ("SELECT * FROM t LIMIT 10, 20", "SELECT * FROM t LIMIT ?, ?"),
            (
                "SELECT a FROM t WHERE b IS NULL AND c = NULL AND d<=>TRUE",
                "SELECT a FROM t WHERE b IS NULL AND c = ? AND d <=> ?",
            ),
            (
                "SELECT /*!40001 SQL_NO_CACHE */ * FROM t",
                "SELECT SQL_NO_CACHE * FROM t",
            ),
            (
                "SELECT data->'$.a', data->>'$.b' FROM t",
                "SELECT data->?, data->>? FROM t",
            ),
            ("SET @a := 1; SET b=2;", "SET @a := ?; SET b = ?"),
            (
                "SELECT DATE '2020-01-01', interval 1 day",
                "SELECT DATE ?, interval ? day",
            ),
            (
                "SELECT count(*) FROM naïve WHERE x='ü",
                "SELECT count(*) FROM naïve WHERE x = ?",
            ),
            (
                "SELECT * FROM t WHERE a BETWEEN 1 AND 5 AND b LIKE '%x'",
                "SELECT * FROM t WHERE a BETWEEN ? AND ? AND b LIKE ?",
            ),
            (
                "LOAD DATA LOCAL INFILE 'items.csv' INTO TABLE item",
                "LOAD DATA LOCAL INFILE ? INTO TABLE item",
            ),
            ("/* open", ""),
            ("", ""),
            (";;", ""),
        ] {
            assert_eq!(of(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_bulk_insert_is_short() {
        let rows: Vec<_> = (0..2000)
            .map(|i| format!("({i}, 'name {i}', {}.5e0)", i * 3))
            .collect();
        assert_eq!(
            of(format!("INSERT INTO t VALUES {}", rows.join(","))),
            "INSERT INTO t VALUES (?)"
        );
    }

    #[test]
    fn the_result_is_bounded() {
        let columns: Vec<_> = (0..3000).map(|i| format!("spalteä{i}")).collect();
        let got = of(format!("SELECT {}", columns.join(",")));
        assert!(got.len() <= FINGERPRINT_MAX + 3 && got.ends_with("..."));
        assert!(of("(".repeat(100_000)).len() <= FINGERPRINT_MAX + 3);
        assert!(of("a".repeat(100_000)).len() <= FINGERPRINT_MAX + 3);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(sql in prop::collection::vec(any::<u8>(), 0..300)) {
            of(&sql);
        }

        #[test]
        fn a_fingerprint_is_its_own(words in prop::collection::vec(prop::sample::select(vec![
            "SELECT", "a", "t1", "1", "-", "'x'", ",", "(", ")", "IN", "VALUES", "=", "*", ".", "NULL", " ", "/*c*/", "`q`", "?", "+", "\"s\"", "\n", ";", "x",
        ]), 0..40)) {
            let once = of(words.concat());
            prop_assert_eq!(of(&once), once);
        }

        #[test]
        fn values_do_not_matter(a in 0u32..1_000_000, s in "[a-z]{0,9}", n in 1usize..9) {
            let sql = format!("SELECT x FROM t WHERE a = {a} AND b = '{s}' AND c IN ({})", vec!["9"; n].join(","));
            prop_assert_eq!(of(sql), "SELECT x FROM t WHERE a = ? AND b = ? AND c IN (?)");
        }
    }
}
