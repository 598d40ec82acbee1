//! Operation, keyspace, and table of a statement, by its first words.

use crate::sql::SqlDialect;
use crate::sql::statements::{SqlPart, SqlReader};

/// Parts read of a statement.
const PARTS_MAX: usize = 4096;

/// What a statement does, and to which table.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatementTarget {
    /// The first keyword, in upper case.
    pub operation: Vec<u8>,
    pub keyspace: Option<Vec<u8>>,
    pub table: Option<Vec<u8>>,
}

/// Reads the target of `cql`.
pub fn target(cql: &[u8]) -> StatementTarget {
    let mut reader = SqlReader::new(SqlDialect::Cql, cql).take(PARTS_MAX);
    let Some(SqlPart::Word(verb)) = reader.next() else {
        return StatementTarget::default();
    };
    let operation = verb.to_ascii_uppercase();
    let operation = match &operation[..] {
        b"BEGIN" => b"BATCH".to_vec(),
        _ => operation,
    };
    let mut target = StatementTarget {
        operation,
        ..StatementTarget::default()
    };
    let name = match &target.operation[..] {
        b"SELECT" | b"DELETE" => behind(&mut reader, &[b"FROM"]),
        b"INSERT" => behind(&mut reader, &[b"INTO"]),
        b"UPDATE" => reader.next(),
        b"TRUNCATE" => optional(&mut reader, &[b"TABLE", b"COLUMNFAMILY"]),
        b"USE" => {
            target.keyspace = word(reader.next()).map(|name| as_stored(cql, name));
            return target;
        }
        b"CREATE" | b"ALTER" | b"DROP" => match word(reader.next()) {
            Some(kind) if is_any(kind, &[b"TABLE", b"COLUMNFAMILY"]) => {
                optional(&mut reader, &[b"IF", b"NOT", b"EXISTS"])
            }
            Some(kind) if is_any(kind, &[b"KEYSPACE", b"SCHEMA"]) => {
                let name = optional(&mut reader, &[b"IF", b"NOT", b"EXISTS"]);
                target.keyspace = word(name).map(|name| as_stored(cql, name));
                return target;
            }
            _ => None,
        },
        _ => None,
    };
    let Some(first) = word(name) else {
        return target;
    };
    let first = as_stored(cql, first);
    match (reader.next(), word(reader.next())) {
        (Some(SqlPart::Sign(b'.')), Some(second)) => {
            target.keyspace = Some(first);
            target.table = Some(as_stored(cql, second));
        }
        _ => target.table = Some(first),
    }
    target
}

fn word(part: Option<SqlPart<'_>>) -> Option<&[u8]> {
    match part {
        Some(SqlPart::Word(word)) => Some(word),
        _ => None,
    }
}

fn is_any(word: &[u8], keywords: &[&[u8]]) -> bool {
    keywords
        .iter()
        .any(|keyword| word.eq_ignore_ascii_case(keyword))
}

/// The part behind the first of `keywords`.
fn behind<'a>(
    reader: &mut impl Iterator<Item = SqlPart<'a>>,
    keywords: &[&[u8]],
) -> Option<SqlPart<'a>> {
    reader.find(|part| matches!(part, SqlPart::Word(word) if is_any(word, keywords)))?;
    reader.next()
}

/// The next part, without any of `keywords`.
fn optional<'a>(
    reader: &mut impl Iterator<Item = SqlPart<'a>>,
    keywords: &[&[u8]],
) -> Option<SqlPart<'a>> {
    reader.find(|part| !matches!(part, SqlPart::Word(word) if is_any(word, keywords)))
}

/// A name as the server stores it: without quotes in lower case. `name` is a part of `cql`.
fn as_stored(cql: &[u8], name: &[u8]) -> Vec<u8> {
    let at = (name.as_ptr() as usize).wrapping_sub(cql.as_ptr() as usize);
    let is_quoted = at.checked_sub(1).and_then(|before| cql.get(before)) == Some(&b'"');
    if is_quoted {
        name.to_vec()
    } else {
        name.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_statements() {
        for (cql, expected) in [
            (
                "SELECT * FROM shop.orders WHERE id = 1",
                "SELECT shop orders",
            ),
            ("select json a, from_x from Orders", "SELECT - orders"),
            (
                "INSERT INTO \"Shop\".\"Odd name\" (a) VALUES (1)",
                "INSERT Shop Odd name",
            ),
            ("UPDATE t USING TTL 5 SET a = 'x'", "UPDATE - t"),
            ("DELETE a FROM t WHERE b = 'from'", "DELETE - t"),
            ("TRUNCATE TABLE a.t", "TRUNCATE a t"),
            ("TRUNCATE t", "TRUNCATE - t"),
            ("USE \"Shop\"", "USE Shop -"),
            (
                "CREATE TABLE IF NOT EXISTS a.b (c int PRIMARY KEY)",
                "CREATE a b",
            ),
            ("CREATE KEYSPACE IF NOT EXISTS k WITH x = {}", "CREATE k -"),
            ("DROP INDEX i", "DROP - -"),
            (
                "BEGIN BATCH INSERT INTO t (a) VALUES (1) APPLY BATCH",
                "BATCH - -",
            ),
            ("-- note\nSELECT a FROM t", "SELECT - t"),
            ("SELECT", "SELECT - -"),
            ("", " - -"),
        ] {
            let found = target(cql.as_bytes());
            let name = |name: &Option<Vec<u8>>| {
                name.as_ref().map_or("-".to_owned(), |name| {
                    String::from_utf8_lossy(name).into_owned()
                })
            };
            let operation = String::from_utf8_lossy(&found.operation).into_owned();
            let text = [operation, name(&found.keyspace), name(&found.table)].join(" ");
            assert_eq!(text, expected, "{cql}");
        }
    }
}
