//! Random valid queries, by seed: a parser, conditions, and processors over its tuples, with constants from the tuples.
//! Also in DuckDB's SQL where possible.

use serde_json::Value;
use testkit::rng::SeededRng;

use super::terms::{Said, Table, Terms};

/// A query.
#[derive(Clone, Debug)]
pub struct Question {
    /// Parsers.
    pub parse: String,
    /// FROM and TO.
    pub clauses: Vec<String>,
    /// SAMPLE.
    pub sample: Option<&'static str>,
    /// Conditions, combined by AND.
    pub filter: Vec<Said>,
    pub processors: Vec<Processor>,
}

/// A processor.
#[derive(Clone, Debug, Default)]
pub struct Processor {
    /// The complete text if not random.
    pub given: Option<&'static str>,
    /// Whether its value is the difference of two times.
    pub diff: bool,
    pub aggregates: Vec<&'static str>,
    pub group: Vec<Said>,
    pub values: Vec<Said>,
    /// The condition of `ratio`.
    pub of: Option<Said>,
    /// Length and slide of windows in milliseconds.
    pub window: Option<(u32, u32)>,
    pub quantiles: Vec<&'static str>,
    /// Number of groups kept, by the last aggregate.
    pub rank: Option<u32>,
    pub having: Option<String>,
    pub order: Option<String>,
    pub limit: Option<u32>,
}

impl Question {
    /// The query over published tuples, without SAMPLE.
    pub fn text_of_tuples(&self, time: &str) -> String {
        Question {
            sample: None,
            ..self.clone()
        }
        .text(time)
    }

    /// The query; `time`: SINCE and UNTIL.
    pub fn text(&self, time: &str) -> String {
        let mut text = format!("PARSE {}", self.parse);
        self.clauses
            .iter()
            .for_each(|clause| text.push_str(&format!(" {clause}")));
        self.sample
            .iter()
            .for_each(|sample| text.push_str(&format!(" SAMPLE {sample}")));
        self.filter
            .iter()
            .for_each(|condition| text.push_str(&format!(" WHERE {}", condition.ours)));
        text.push_str(time);
        let processors: Vec<String> = self.processors.iter().map(Processor::text).collect();
        if !processors.is_empty() {
            text.push_str(&format!(" PROCESS {}", processors.join(", ")));
        }
        text
    }
}

impl Processor {
    /// Chain of blocks as text.
    pub fn chain(&self) -> String {
        if self.given.is_some() {
            return "workload-profile".into();
        }
        let own = [("diff", self.diff), ("group", !self.group.is_empty())];
        let own = own
            .into_iter()
            .filter(|(_, is_there)| *is_there)
            .map(|(name, _)| name);
        let blocks = own
            .chain(self.aggregates.iter().copied())
            .chain(self.rank.map(|_| "top-k"));
        blocks.collect::<Vec<_>>().join("-")
    }

    /// Index of an aggregate.
    pub fn place(&self, aggregate: &str) -> Option<usize> {
        let several = |one: &&str| {
            if *one == "quantile" {
                self.quantiles.len()
            } else {
                1
            }
        };
        let before = self.aggregates.iter().position(|one| *one == aggregate)?;
        Some(self.aggregates[..before].iter().map(several).sum())
    }

    pub fn text(&self) -> String {
        if let Some(text) = self.given {
            return text.to_owned();
        }
        let list = |terms: &[Said]| {
            terms
                .iter()
                .map(|term| term.ours.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut arguments = Vec::new();
        let mut say = |name: &str, value: String| arguments.push(format!("{name}={value}"));
        if !self.group.is_empty() {
            say("group", list(&self.group));
        }
        if !self.values.is_empty() {
            say("value", list(&self.values));
        }
        self.of
            .iter()
            .for_each(|of| say("of", format!("({})", of.ours)));
        if !self.quantiles.is_empty() {
            say("q", self.quantiles.join(","));
        }
        self.rank.iter().for_each(|k| say("k", k.to_string()));
        if let Some((size, slide)) = self.window {
            say("w", format!("{size}ms"));
            if slide < size {
                say("slide", format!("{slide}ms"));
            }
        }
        let colon = if arguments.is_empty() { "" } else { ": " };
        let mut text = format!("({}{colon}{})", self.chain(), arguments.join(", "));
        self.having
            .iter()
            .for_each(|having| text.push_str(&format!(" HAVING {having}")));
        self.order
            .iter()
            .for_each(|order| text.push_str(&format!(" ORDER BY {order}")));
        self.limit
            .iter()
            .for_each(|limit| text.push_str(&format!(" LIMIT {limit} ROWS")));
        text
    }
}

/// All tuples of parsers.
fn of(parse: String) -> Question {
    Question {
        parse,
        clauses: Vec::new(),
        sample: None,
        filter: Vec::new(),
        processors: Vec::new(),
    }
}

/// A query with given processors.
pub fn given(parse: &str, processors: &[&'static str]) -> Question {
    let processor = |text: &&'static str| Processor {
        given: Some(text),
        ..Processor::default()
    };
    let processors = processors.iter().map(processor).collect();
    Question {
        processors,
        ..of(parse.into())
    }
}

/// Aggregates over values.
pub const OF_VALUES: &[&str] = &[
    "sum",
    "avg",
    "min",
    "max",
    "stddev",
    "distinct",
    "quantile",
    "hist",
    "cdf",
    "throughput",
];
/// Other aggregates without arguments.
const OF_TUPLES: &[&str] = &["count", "rate", "share"];
/// Parsers with a definition of success.
const JUDGING: &[&str] = &[
    "http",
    "http_get",
    "mysql_query",
    "memcached",
    "memcached_get",
    "redis",
    "dns",
    "tls",
    "nfs",
];

/// Profiles of all requests to a service.
const PROFILES: &[&str] = &["(workload-profile)", "(workload-profile: w=1s, k=3)"];

/// A query over a table with this number of processors, each accepted by `is_valid`; some queries have none and return
/// tuples.
pub fn draw(
    random: &mut SeededRng,
    table: &Table,
    sample: Option<&'static str>,
    processors: usize,
    is_valid: &mut dyn FnMut(&Question) -> bool,
) -> Question {
    let mut question = Question {
        sample,
        ..of(table.parse())
    };
    loop {
        let mut terms = Terms { random, table };
        question.filter = (0..terms.one(&[0, 0, 1, 1, 2]))
            .map(|_| terms.condition(2))
            .collect();
        question.clauses.clear();
        if terms.chance(10) {
            question.clauses.push(terms.ends());
        }
        if is_valid(&question) {
            break;
        }
    }
    let processors = if random.below(100) < 6 { 0 } else { processors };
    while question.processors.len() < processors {
        let mut drawn = processor(&mut Terms { random, table });
        if random.below(100) < 3 {
            drawn = Processor {
                given: Some(PROFILES[random.below(2) as usize]),
                ..Processor::default()
            };
        }
        // Rows are assigned to processors by name.
        let is_new = question
            .processors
            .iter()
            .all(|other| other.chain() != drawn.chain());
        let alone = Question {
            processors: vec![drawn.clone()],
            ..question.clone()
        };
        if is_new && is_valid(&alone) {
            question.processors.push(drawn);
        }
    }
    question
}

fn processor(terms: &mut Terms<'_>) -> Processor {
    let mut of = Processor::default();
    for _ in 0..=terms.below(4) {
        let aggregate = match terms.below(10) {
            0..=4 => terms.one(OF_VALUES),
            5..=7 => terms.one(OF_TUPLES),
            8 => "ratio",
            _ if terms
                .table
                .parsers
                .iter()
                .any(|parser| JUDGING.contains(&parser.as_str())) =>
            {
                "success"
            }
            _ => "count",
        };
        if !of.aggregates.contains(&aggregate) {
            of.aggregates.push(aggregate);
        }
    }
    let has = |one: &str| of.aggregates.contains(&one);
    if has("ratio") {
        of.of = Some(terms.condition(1));
    }
    if has("quantile") {
        of.quantiles = terms.one(&[vec!["0.5"], vec!["0.5", "0.99"], vec!["0", "0.25", "1"]]);
    }
    let reads_values = of.aggregates.iter().any(|one| OF_VALUES.contains(one));
    of.diff = reads_values && terms.chance(10);
    if reads_values && !of.diff {
        of.values = (0..terms.one(&[1, 1, 1, 2]))
            .map(|place| terms.value(place))
            .collect();
    }
    if terms.chance(80) {
        of.group = (0..terms.one(&[1, 1, 1, 2, 2, 3]))
            .map(|place| terms.group(place))
            .collect();
    }
    if terms.chance(65) {
        let size = terms.one(terms.table.windows());
        let slides = terms.one(&[1, 1, 1, 2, 4, 5]);
        of.window = Some((size, size / slides));
    }
    let can_rank = !matches!(
        of.aggregates.last(),
        Some(&"hist" | &"cdf" | &"distinct" | &"ratio")
    );
    if !of.group.is_empty() && can_rank && terms.chance(35) {
        of.rank = Some(1 + terms.below(4) as u32);
    }
    select(terms, &mut of);
    of
}

/// HAVING, ORDER BY and LIMIT.
fn select(terms: &mut Terms<'_>, of: &mut Processor) {
    let plain = ["count", "rate", "sum", "avg", "min", "max", "share"];
    let plain: Vec<&str> = plain
        .into_iter()
        .filter(|one| of.aggregates.contains(one))
        .collect();
    if !plain.is_empty() && of.values.len() < 2 && terms.chance(30) {
        let name = terms.one(&plain);
        let sign = terms.one(&[">=", ">", "<", "!=", "is not null"]);
        of.having = Some(match (name, sign) {
            (_, "is not null") => format!("{name} is not null"),
            ("share", _) => format!("share {sign} 0.25"),
            ("count", _) => format!("count {sign} {}", 1 + terms.below(5)),
            _ => format!("{name} {sign} {name} / 2"),
        });
    }
    if !plain.is_empty() && of.values.len() < 2 && terms.chance(30) {
        let way = terms.one(&["", " ASC", " DESC"]);
        of.order = Some(format!("{}{way}", terms.one(&plain)));
    }
    if terms.chance(20) {
        of.limit = Some(1 + terms.below(4) as u32);
    }
}

/// Literal of a JSON value in a query.
pub fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}
