//! Summary of a statement: its operations and their targets, in the order of the text, as `SELECT orders users`. It is the
//! attribute `db.query.summary` of the OpenTelemetry semantic conventions for database spans.

use super::SqlDialect;
use super::statements::{SqlPart, SqlReader};

/// Maximum length in bytes, as in the conventions.
pub const SUMMARY_MAX: usize = 255;
/// Parts read of a statement.
const PARTS_MAX: usize = 4096;

/// Meaning of the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SummaryPlace {
    /// Any other position.
    Elsewhere,
    /// A statement or a subquery begins.
    Operation,
    /// A name of a table, which a comma may continue.
    Target,
    /// After CREATE, DROP, ALTER, or TRUNCATE: the kind of object, or its name.
    Object,
}

/// Appends the summary of `sql` to `out`.
pub fn summary(dialect: SqlDialect, sql: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut place = SummaryPlace::Operation;
    // Whether a comma continues the tables of FROM.
    let mut is_list = false;
    let mut reader = SqlReader::new(dialect, sql).take(PARTS_MAX).peekable();
    while let Some(part) = reader.next() {
        let SqlPart::Word(word) = part else {
            match part {
                SqlPart::Sign(b'(' | b';') => {
                    place = SummaryPlace::Operation;
                    is_list = false;
                }
                SqlPart::Sign(b',') if is_list => place = SummaryPlace::Target,
                _ => place = SummaryPlace::Elsewhere,
            }
            continue;
        };
        let any = |keywords: &[&str]| {
            let is = |keyword: &&str| word.eq_ignore_ascii_case(keyword.as_bytes());
            keywords.iter().any(is)
        };
        let is_operation = any(OPERATIONS)
            || out.len() == start && place == SummaryPlace::Operation && !any(&["WITH", "EXPLAIN"]);
        let is_name = matches!(place, SummaryPlace::Target | SummaryPlace::Object) && !is_operation;
        let fits = match () {
            () if is_name && any(FILLERS) => continue,
            // A quoted name may be empty.
            () if is_name && word.first().is_some_and(|byte| !byte.is_ascii_digit()) => {
                let is_kind = place == SummaryPlace::Object && any(OBJECTS);
                place = match place {
                    SummaryPlace::Object if is_kind => SummaryPlace::Target,
                    _ => SummaryPlace::Elsewhere,
                };
                let mut name = word.to_vec();
                while reader.next_if_eq(&SqlPart::Sign(b'.')).is_some() {
                    if let Some(SqlPart::Word(more)) = reader.next() {
                        name.push(b'.');
                        name.extend_from_slice(more);
                    }
                }
                let is_function = is_list && reader.peek() == Some(&SqlPart::Sign(b'('));
                if is_function || push(start, &name, out) {
                    continue;
                }
                false
            }
            () => !is_operation || push(start, word, out),
        };
        if !fits {
            return;
        }
        is_list = any(&["FROM"]) || is_list && !any(ENDS_OF_LISTS);
        place = match () {
            () if any(BEFORE_TARGETS) => SummaryPlace::Target,
            () if any(BEFORE_OBJECTS) => SummaryPlace::Object,
            () if any(&["AS", "EXPLAIN", "ANALYZE"]) => SummaryPlace::Operation,
            () => SummaryPlace::Elsewhere,
        };
    }
}

const BEFORE_TARGETS: &[&str] = &["FROM", "JOIN", "INTO", "UPDATE", "COPY", "CALL", "TABLE"];
const BEFORE_OBJECTS: &[&str] = &["CREATE", "DROP", "ALTER", "TRUNCATE"];
/// Words between a keyword and its target.
const FILLERS: &[&str] = &[
    "ONLY",
    "IF",
    "NOT",
    "EXISTS",
    "LATERAL",
    "TEMP",
    "TEMPORARY",
    "UNIQUE",
    "OR",
    "REPLACE",
    "STDIN",
    "STDOUT",
];
/// Keywords of operations that have targets, wherever they occur.
const OPERATIONS: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"];
const OBJECTS: &[&str] = &[
    "TABLE",
    "INDEX",
    "VIEW",
    "SCHEMA",
    "DATABASE",
    "SEQUENCE",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "ROLE",
    "USER",
    "TYPE",
    "EXTENSION",
    "MATERIALIZED",
];
/// Keywords after the list of tables of FROM.
const ENDS_OF_LISTS: &[&str] = &[
    "WHERE",
    "SET",
    "GROUP",
    "ORDER",
    "LIMIT",
    "ON",
    "USING",
    "RETURNING",
    "HAVING",
    "SELECT",
];

/// Appends a word, unless the summary becomes too long.
fn push(start: usize, word: &[u8], out: &mut Vec<u8>) -> bool {
    let space = usize::from(out.len() > start);
    if out.len() - start + space + word.len() > SUMMARY_MAX {
        return false;
    }
    out.extend_from_slice(&b" "[..space]);
    out.extend_from_slice(word);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_targets() {
        for (sql, expected) in [
            ("SELECT * FROM wuser_table", "SELECT wuser_table"),
            (
                "select a.b from shop.orders o, users u where x = (select max(y) from z)",
                "select shop.orders users select z",
            ),
            ("INSERT INTO t (a, b) VALUES (1, (2))", "INSERT t"),
            (
                "INSERT INTO shipping SELECT * FROM orders JOIN users USING (id)",
                "INSERT shipping SELECT orders users",
            ),
            (
                "UPDATE t SET a = 1 WHERE b IN (SELECT c FROM d)",
                "UPDATE t SELECT d",
            ),
            ("DELETE FROM ONLY \"Odd name\" WHERE a", "DELETE Odd name"),
            ("CREATE TABLE IF NOT EXISTS x (a int)", "CREATE TABLE x"),
            ("DROP INDEX i", "DROP INDEX i"),
            ("BEGIN", "BEGIN"),
            ("SET extra_float_digits = 3", "SET"),
            (
                "WITH r AS (SELECT a FROM b) SELECT * FROM r",
                "SELECT b SELECT r",
            ),
            ("SELECT * FROM generate_series(1, 2)", "SELECT"),
            ("COPY t FROM STDIN", "COPY t"),
            ("SELECT 1 FROM \"\", t", "SELECT t"),
            ("DROP TABLE \"\"", "DROP TABLE"),
            ("\"\"", ""),
            ("", ""),
        ] {
            let mut out = b"- ".to_vec();
            summary(SqlDialect::PostgreSql, sql.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out[2..]), expected, "{sql}");
        }
        let long = format!("SELECT * FROM {}", vec!["table_name"; 100].join(", "));
        let mut out = Vec::new();
        summary(SqlDialect::MySql, long.as_bytes(), &mut out);
        assert!((245..=SUMMARY_MAX).contains(&out.len()) && out.ends_with(b"table_name"));
    }
}
