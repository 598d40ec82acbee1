//! Random expressions and conditions over the columns of a table, in our language and, if possible, in DuckDB's SQL.

use serde_json::Value;
use testkit::rng::SeededRng;

use super::questions::literal;

/// A term in our language; `sql`: the same in SQL.
#[derive(Clone, Debug)]
pub struct Said {
    pub ours: String,
    pub sql: Option<String>,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Whole,
    Duration,
    Bytes,
    Time,
    Text,
    Bool,
    Ip,
}

/// A column with at least one value.
pub struct Column {
    pub name: String,
    pub kind: Kind,
    /// Some distinct values.
    pub values: Vec<Value>,
}

/// Tuples of parsers in a capture, joined if several.
pub struct Table {
    pub parsers: Vec<String>,
    /// The capture, and the part of each host.
    pub capture: String,
    pub hosts: Vec<String>,
    pub columns: Vec<Column>,
    /// From the first tuple to the last.
    pub span_ms: i64,
}

impl Table {
    /// The clause after PARSE.
    pub fn parse(&self) -> String {
        self.parsers.join(", ")
    }

    /// Window lengths in milliseconds that result in a moderate number of windows.
    pub fn windows(&self) -> &'static [u32] {
        match self.span_ms {
            ..30_000 => &[20, 60, 100, 240, 400, 1000],
            30_000..1_000_000 => &[1000, 2400, 6000, 20_000],
            _ => &[60_000, 240_000, 3_600_000],
        }
    }
}

/// Random terms.
pub struct Terms<'a> {
    pub random: &'a mut SeededRng,
    pub table: &'a Table,
}

const NUMBERS: &[Kind] = &[Kind::Whole, Kind::Duration, Kind::Bytes];

impl Terms<'_> {
    pub fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn column(&mut self, kinds: &[Kind]) -> Option<usize> {
        let of_kind = |(_, column): &(usize, &Column)| kinds.contains(&column.kind);
        let places = self
            .table
            .columns
            .iter()
            .enumerate()
            .filter(of_kind)
            .map(|(place, _)| place);
        let places: Vec<usize> = places.collect();
        (!places.is_empty()).then(|| self.one(&places))
    }

    /// A column and one of its values.
    fn valued(&mut self, kinds: &[Kind]) -> Option<(String, Kind, Value)> {
        let place = self.column(kinds)?;
        let column = &self.table.columns[place];
        let value = column.values[self.random.below(column.values.len() as u64) as usize].clone();
        Some((column.name.clone(), column.kind, value))
    }

    /// FROM or TO.
    pub fn ends(&mut self) -> String {
        let side = self.one(&["client", "server"]);
        let word = if side == "client" { "FROM" } else { "TO" };
        let values = |name: String| {
            let column = self.table.columns.iter().find(|column| column.name == name);
            column
                .map(|column| column.values.clone())
                .unwrap_or_default()
        };
        let ips = values(format!("{side}_ip"));
        let ports = values(format!("{side}_port"));
        match (ips.is_empty(), ports.is_empty(), self.below(3)) {
            (false, _, 0) => format!("{word} {}", text_of(&self.one(&ips))),
            (_, false, 1) => format!("{word} *:{}", self.one(&ports)),
            _ => format!("{word} 10.0.0.0/8"),
        }
    }

    /// A computed integer, and its type.
    fn number(&mut self) -> (Said, Kind) {
        let Some((name, kind, value)) = self.valued(NUMBERS) else {
            return (said("client_port", whole("client_port")), Kind::Whole);
        };
        let sql = whole(&name);
        let plain = said(&name, &sql);
        let n = 1 + self.below(9);
        let computed = match self.below(12) {
            0 => said(format!("{name} * {n}"), format!("{sql} * {n}")),
            1 => said(format!("{name} / {n}"), format!("{sql} // {n}")),
            2 => said(
                format!("coalesce({name}, {value})"),
                format!("coalesce({sql}, {value})"),
            ),
            3 => {
                let condition = self.condition(0);
                let sql_of = sql.clone();
                let in_sql = condition
                    .sql
                    .map(|of| format!("CASE WHEN {of} THEN {sql_of} ELSE {value} END"));
                Said {
                    ours: format!("if({}, {name}, {value})", condition.ours),
                    sql: in_sql,
                }
            }
            4 | 5 => match self.valued(&[kind]) {
                Some((other, ..)) => {
                    let sign = self.one(&["+", "-"]);
                    said(
                        format!("{name} {sign} {other}"),
                        format!("{sql} {sign} {}", whole(&other)),
                    )
                }
                None => plain,
            },
            6 if kind == Kind::Whole => said(format!("{name} % {n}"), format!("{sql} % {n}")),
            7 if kind == Kind::Whole => {
                said(format!("trunc({name}, {n})"), format!("{sql} // {n} * {n}"))
            }
            8 => match self.valued(&[Kind::Text]) {
                Some((text, ..)) => {
                    return (
                        said(
                            format!("length({text})"),
                            format!("length({})", quoted(&text)),
                        ),
                        Kind::Whole,
                    );
                }
                None => plain,
            },
            _ => plain,
        };
        (computed, kind)
    }

    /// A value for aggregates.
    pub fn value(&mut self, place: usize) -> Said {
        let (number, kind) = self.number();
        let real = match self.below(12) {
            0 if kind == Kind::Duration => Some((format!("({}) / 1ms", number.ours), "/ 1e6")),
            0 | 1 if kind == Kind::Whole => {
                Some((format!("({}) * 0.5", number.ours), "* 0.5::DOUBLE"))
            }
            _ => None,
        };
        let Said { ours, sql } = match real {
            Some((ours, by)) => Said {
                ours,
                sql: number.sql.map(|sql| format!("CAST({sql} AS DOUBLE) {by}")),
            },
            None => number,
        };
        let is_plain = ours.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        Said {
            ours: if is_plain {
                ours
            } else {
                format!("{ours} AS v{place}")
            },
            sql,
        }
    }

    /// A group expression.
    pub fn group(&mut self, place: usize) -> Said {
        let computed = match self.below(10) {
            0 => self.valued(&[Kind::Whole]).map(|(name, ..)| {
                let n = 1 + self.below(5);
                said(format!("{name} % {n}"), format!("{} % {n}", whole(&name)))
            }),
            1 => self.valued(&[Kind::Text]).map(|(name, ..)| {
                let n = self.one(&[1, 2, -1]);
                let separator = self.one(&["/", ".", " ", ":"]);
                Said {
                    ours: format!("split({name}, '{separator}', {n})"),
                    sql: None,
                }
            }),
            2 => self.valued(&[Kind::Text]).map(|(name, ..)| {
                let function = self.one(&["lower", "upper"]);
                said(
                    format!("{function}({name})"),
                    format!("{function}({})", quoted(&name)),
                )
            }),
            3 => Some(said(
                "trunc(ts_end, 250ms)",
                "epoch_ns(ts_end) // 250000000 * 250000000",
            )),
            4 => {
                let condition = self.condition(0);
                let sql = condition
                    .sql
                    .map(|sql| format!("CASE WHEN {sql} THEN 'yes' ELSE 'no' END"));
                Some(Said {
                    ours: format!("if({}, 'yes', 'no')", condition.ours),
                    sql,
                })
            }
            _ => None,
        };
        match computed {
            Some(Said { ours, sql }) => Said {
                ours: format!("{ours} AS g{place}"),
                sql,
            },
            None => {
                let kinds = [
                    Kind::Text,
                    Kind::Text,
                    Kind::Ip,
                    Kind::Bool,
                    Kind::Whole,
                    Kind::Bytes,
                ];
                let name = self
                    .valued(&kinds)
                    .map_or_else(|| "client_ip".into(), |(name, ..)| name);
                said(&name, quoted(&name))
            }
        }
    }

    /// A condition.
    pub fn condition(&mut self, depth: usize) -> Said {
        if depth > 0 && self.chance(40) {
            let a = self.condition(depth - 1);
            let b = self.condition(depth - 1);
            return match self.below(3) {
                0 => Said {
                    ours: format!("not ({})", a.ours),
                    sql: a.sql.map(|sql| format!("NOT ({sql})")),
                },
                way => {
                    let word = if way == 1 { "and" } else { "or" };
                    let sql = a.sql.zip(b.sql).map(|(a, b)| format!("({a}) {word} ({b})"));
                    Said {
                        ours: format!("(({}) {word} ({}))", a.ours, b.ours),
                        sql,
                    }
                }
            };
        }
        self.test()
    }

    fn test(&mut self) -> Said {
        let kinds = [
            Kind::Text,
            Kind::Text,
            Kind::Whole,
            Kind::Duration,
            Kind::Bytes,
            Kind::Time,
            Kind::Bool,
            Kind::Ip,
        ];
        let kind = self.one(&kinds);
        let Some((name, kind, value)) = self.valued(&[kind]) else {
            return said("id is not null", "true");
        };
        if self.chance(8) {
            let what = self.one(&["is null", "is not null"]);
            return same(&name, what);
        }
        let sign = self.one(&["=", "!=", "<", "<=", ">", ">="]);
        match kind {
            Kind::Text => self.text_test(&name, &value, sign),
            Kind::Bool => same(&name, format!("= {value}")),
            Kind::Ip => {
                let sign = self.one(&["=", "!="]);
                match self.one(&["", "/24", "/8"]) {
                    "" => {
                        let value = text_of(&value);
                        said(
                            format!("{name} {sign} {value}"),
                            format!("{} {sign} '{value}'", quoted(&name)),
                        )
                    }
                    prefix if value.to_string().contains('.') => Said {
                        ours: format!("{name} {sign} {}{prefix}", text_of(&value)),
                        sql: None,
                    },
                    _ => Said {
                        ours: format!("{name} {sign} 2000::/3"),
                        sql: None,
                    },
                }
            }
            Kind::Time => said(
                format!("{name} {sign} {value}"),
                format!("epoch_ns({}) {sign} {value}", quoted(&name)),
            ),
            Kind::Whole | Kind::Duration | Kind::Bytes if self.chance(40) => {
                let (number, kind) = self.number();
                match self.valued(&[kind]) {
                    Some((other, ..)) => Said {
                        ours: format!("{} {sign} {other}", number.ours),
                        sql: number
                            .sql
                            .map(|sql| format!("{sql} {sign} {}", whole(&other))),
                    },
                    None => same(&name, format!("{sign} {value}")),
                }
            }
            _ => same(&name, format!("{sign} {value}")),
        }
    }

    fn text_test(&mut self, name: &str, value: &Value, sign: &str) -> Said {
        let whole = literal(value);
        let text = text_of(value);
        let piece: String = text
            .chars()
            .skip(self.below(3))
            .take(1 + self.below(4))
            .collect();
        let piece = piece.replace('\'', "''");
        let is_plain = !piece.contains(['%', '_', '\\']);
        match self.below(6) {
            0 if is_plain => {
                let pattern = self.one(&[
                    format!("%{piece}%"),
                    format!("{piece}%"),
                    format!("_{piece}%"),
                    piece,
                ]);
                let word = self.one(&["like", "ilike", "not like"]);
                same(name, format!("{word} '{pattern}'"))
            }
            1 => {
                let other = self
                    .valued(&[Kind::Text])
                    .map_or_else(|| "'x'".into(), |(_, _, of)| literal(&of));
                same(name, format!("in ({whole}, {other})"))
            }
            2 => said(
                format!("length({name}) {sign} 5"),
                format!("length({}) {sign} 5", quoted(name)),
            ),
            _ => same(name, format!("{sign} {whole}")),
        }
    }
}

fn said(ours: impl Into<String>, sql: impl Into<String>) -> Said {
    Said {
        ours: ours.into(),
        sql: Some(sql.into()),
    }
}

/// A test with the same text in both languages.
fn same(name: &str, test: impl std::fmt::Display) -> Said {
    said(format!("{name} {test}"), format!("{} {test}", quoted(name)))
}

/// An integer column in SQL, wide enough for computations.
fn whole(name: &str) -> String {
    format!("CAST({} AS HUGEINT)", quoted(name))
}

/// A quoted column name in SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Content of a JSON string.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
