//! Divides a text of several statements, and reads the words of one.

use std::ops::Range;

use memchr::memchr;

use super::SqlDialect;
use super::literal::{dollar_end, nested_comment_end, quoted_end};
use super::shorten::string_end;

/// A word, or something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlPart<'a> {
    /// A name or a keyword, without quotes.
    Word(&'a [u8]),
    /// A string.
    Literal,
    /// Any other byte.
    Sign(u8),
}

/// Reads the parts of a text.
#[derive(Clone, Debug)]
pub struct SqlReader<'a> {
    dialect: SqlDialect,
    sql: &'a [u8],
    /// Start and end of the last part.
    begin: usize,
    at: usize,
}

impl<'a> SqlReader<'a> {
    /// A reader of `sql`.
    pub fn new(dialect: SqlDialect, sql: &'a [u8]) -> SqlReader<'a> {
        SqlReader {
            dialect,
            sql,
            begin: 0,
            at: 0,
        }
    }

    fn skip_space(&mut self) {
        loop {
            match self.sql.get(self.at..) {
                Some([b' ' | b'\t'..=b'\r', ..]) => self.at += 1,
                Some([b'-', b'-', rest @ ..]) => self.skip_line(rest),
                Some([b'#', rest @ ..]) if self.dialect == SqlDialect::MySql => {
                    self.skip_line(rest);
                }
                Some([b'/', b'/', rest @ ..]) if self.dialect == SqlDialect::Cql => {
                    self.skip_line(rest);
                }
                Some([b'/', b'*', ..]) => self.at = nested_comment_end(self.sql, self.at),
                _ => return,
            }
        }
    }

    fn skip_line(&mut self, rest: &[u8]) {
        self.at = memchr(b'\n', rest).map_or(self.sql.len(), |n| self.sql.len() - rest.len() + n);
    }

    fn quoted_name(&mut self, quote: u8) -> SqlPart<'a> {
        let start = self.at + 1;
        self.at = quoted_end(self.sql, start, quote);
        let end = self.at - usize::from(self.sql[start..self.at].ends_with(&[quote]));
        SqlPart::Word(&self.sql[start..end])
    }

    fn literal(&mut self, end: usize) -> SqlPart<'a> {
        self.at = end;
        SqlPart::Literal
    }
}

impl<'a> Iterator for SqlReader<'a> {
    type Item = SqlPart<'a>;

    fn next(&mut self) -> Option<SqlPart<'a>> {
        self.skip_space();
        self.begin = self.at;
        let sql = self.sql;
        let at = self.at;
        let escaped_end = |from| string_end(sql, from, sql[from - 1]).unwrap_or(sql.len());
        let is_mysql = self.dialect == SqlDialect::MySql;
        Some(match sql.get(at..)? {
            [] => return None,
            [b'`', ..] if is_mysql => self.quoted_name(b'`'),
            [b'\'' | b'"', ..] if is_mysql => self.literal(escaped_end(at + 1)),
            [b'"', ..] => self.quoted_name(b'"'),
            [b'\'', ..] => self.literal(quoted_end(sql, at + 1, b'\'')),
            [b'e' | b'E', b'\'', ..] => self.literal(escaped_end(at + 2)),
            [b'$', ..] if !is_mysql && let Some(end) = dollar_end(sql, at) => self.literal(end),
            [b, ..] if is_of_word(*b) => {
                let rest = sql[at..].iter();
                self.at += rest.take_while(|b| is_of_word(**b)).count();
                SqlPart::Word(&sql[at..self.at])
            }
            [b, ..] => {
                self.at += 1;
                SqlPart::Sign(*b)
            }
        })
    }
}

fn is_of_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}

/// The statements of `sql`, which semicolons separate; empty ones are left out.
pub fn statements(dialect: SqlDialect, sql: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut reader = SqlReader::new(dialect, sql);
    let mut start = None;
    let mut end = 0;
    while let Some(part) = reader.next() {
        match part {
            SqlPart::Sign(b';') => all.extend(start.take().map(|start| start..end)),
            _ => {
                start.get_or_insert(reader.begin);
                end = reader.at;
            }
        }
    }
    all.extend(start.map(|start| start..end));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_divided_at_semicolons() {
        let of = |sql: &str| -> Vec<String> {
            let all = statements(SqlDialect::PostgreSql, sql.as_bytes());
            all.into_iter().map(|range| sql[range].to_owned()).collect()
        };
        assert_eq!(of("BEGIN; SELECT 1 ;"), ["BEGIN", "SELECT 1"]);
        assert_eq!(of(";; -- x;\n ; "), [""; 0]);
        assert_eq!(
            of("SELECT ';', E'\\';', $a$;$$;$a$, \";\" /* ; /* ; */ ; */; x"),
            ["SELECT ';', E'\\';', $a$;$$;$a$, \";\"", "x"]
        );
        assert_eq!(of("SELECT 'open; "), ["SELECT 'open; "]);
        let mysql = b"SELECT '\\';', \"a;\" # ;\n; SELECT `;`";
        assert_eq!(statements(SqlDialect::MySql, mysql).len(), 2);
    }
}
