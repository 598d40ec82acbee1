//! Assistance while writing a query: errors with positions, completions, and the plan. Positions are given in bytes of
//! UTF-8, as used here, and in UTF-16, as used by the page.

use query::{Diagnostic, ParsedText, TextSpan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::service::Service;

/// Packets per second assumed if an agent's rate is unknown.
const PACKETS: u64 = 100_000;
/// Maximum number of completions.
const CANDIDATES_MAX: usize = 200;

/// A range of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Place)]
pub struct TextRange {
    /// Start, in bytes.
    pub start: usize,
    /// End, in bytes, exclusive.
    pub end: usize,
    /// Start, in UTF-16 units.
    pub start_utf16: usize,
    /// End, in UTF-16 units, exclusive.
    pub end_utf16: usize,
}

impl TextRange {
    /// Position of `span` in `text`.
    pub fn of(text: &str, span: TextSpan) -> TextRange {
        let utf16 = |byte: usize| {
            let before = text.char_indices().take_while(|(at, _)| *at < byte);
            before.map(|(_, c)| c.len_utf16()).sum()
        };
        TextRange {
            start: span.start,
            end: span.end,
            start_utf16: utf16(span.start),
            end_utf16: utf16(span.end),
        }
    }
}

/// An error in a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct QueryProblem {
    /// Position.
    pub place: TextRange,
    /// Message.
    pub message: String,
    /// Expected text.
    pub expected: Option<String>,
    /// Suggestion.
    pub hint: Option<String>,
}

impl QueryProblem {
    /// The API view of a diagnostic.
    pub fn of(text: &str, diagnostic: &Diagnostic) -> QueryProblem {
        QueryProblem {
            place: TextRange::of(text, diagnostic.span),
            message: diagnostic.message.clone(),
            expected: diagnostic.expected.clone(),
            hint: diagnostic.hint.clone(),
        }
    }
}

/// A text to check.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct CheckRequest {
    /// The text.
    pub text: String,
    /// Position of the cursor in UTF-16 units; without it, no completions.
    #[serde(default)]
    pub cursor: Option<usize>,
    /// Returned unchanged, for editors that send a new request before the previous answer.
    #[serde(default)]
    pub revision: Option<i64>,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CheckAnswer {
    /// Errors; empty: the query can be run.
    pub diagnostics: Vec<QueryProblem>,
    /// The word at the cursor, which a completion replaces.
    pub word: Option<TextRange>,
    /// Completions.
    pub completions: Vec<String>,
    /// A valid statement in SQL in the spelling that begins with PARSE.
    pub parse_spelling: Option<String>,
    /// Value of the request.
    pub revision: Option<i64>,
}

/// Checks a text.
pub fn check(service: &Service, asked: &CheckRequest) -> CheckAnswer {
    let text = &asked.text;
    let parsed = ParsedText::new(text);
    let diagnostics = match service.jobs.queries.check(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors
            .iter()
            .map(|error| QueryProblem::of(text, error))
            .collect(),
    };
    let mut word = None;
    let mut completions = Vec::new();
    if let Some(cursor) = asked
        .cursor
        .filter(|_| text.len() <= query::QUERY_BYTES_MAX)
    {
        let byte = byte_of(text, cursor);
        let found = query::complete_at(text, byte, &service.jobs.queries.schemas);
        // The whole word is replaced, including the part after the cursor.
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let rest: usize = text[byte..]
            .chars()
            .take_while(|c| is_part(*c))
            .map(char::len_utf8)
            .sum();
        word = Some(TextRange::of(
            text,
            TextSpan::new(found.word.start, byte + rest),
        ));
        completions = found.candidates;
        completions.truncate(CANDIDATES_MAX);
    }
    let parse_spelling =
        (parsed.is_sql() && diagnostics.is_empty()).then(|| query::parse_spelling(&parsed));
    CheckAnswer {
        diagnostics,
        word,
        completions,
        parse_spelling,
        revision: asked.revision,
    }
}

/// Byte offset of a position in UTF-16 units; at most the length of the text.
fn byte_of(text: &str, utf16: usize) -> usize {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        if units >= utf16 {
            return at;
        }
        units += c.len_utf16();
    }
    text.len()
}

/// A query to explain.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ExplainRequest {
    /// The query.
    pub query: String,
}

/// The plan of a query.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ExplainAnswer {
    /// Text as printed by `netalytics explain`.
    pub text: String,
    /// The query in the spelling that begins with PARSE.
    pub parse_spelling: String,
    /// The query as statements in SQL, one per processor; null for a processor that SQL cannot express.
    pub sql_spelling: Vec<Option<String>>,
    /// Parsers, with the columns used of their tuples.
    pub parsers: Vec<ParserColumns>,
    /// Processors; empty: the tuples are the result.
    pub processors: Vec<String>,
    /// Estimated cost on a host with 100,000 packets per second.
    pub estimate: HostEstimate,
    /// Estimated cost on the host of each connected agent, at its current packet rate.
    pub agents: Vec<AgentEstimate>,
}

/// Estimated cost of a job on an agent's host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AgentEstimate {
    /// Name of the agent.
    pub agent: String,
    /// The estimate.
    pub estimate: HostEstimate,
}

/// Estimated cost of a job on a host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Estimate)]
pub struct HostEstimate {
    /// Packets per second assumed.
    pub packets_per_second: u64,
    /// Cores.
    pub cores: f64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes per second sent by the host, without results of processors, which are small.
    pub sent_bytes_per_second: u64,
}

impl HostEstimate {
    /// Estimate of a plan's cost at this packet rate.
    fn at(cost: &plan::JobCost, packets_per_second: u64) -> HostEstimate {
        let burden = cost.at(packets_per_second);
        HostEstimate {
            packets_per_second,
            cores: burden.cpu_millis as f64 / 1000.0,
            memory_bytes: burden.memory_bytes,
            sent_bytes_per_second: cost.sent_bytes_at(packets_per_second),
        }
    }
}

/// Columns used of a parser's tuples.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ParserUse)]
pub struct ParserColumns {
    /// Name of the parser.
    pub name: String,
    /// Columns.
    pub columns: Vec<String>,
}

/// Explains a query.
pub fn explain(service: &Service, text: &str) -> Result<ExplainAnswer, Vec<Diagnostic>> {
    let plan = service.jobs.queries.plan(text)?;
    let checked = service.jobs.queries.check(text)?;
    let parsed = ParsedText::new(text);
    let parser = |parser: &plan::ParserUse| ParserColumns {
        name: parser.schema.name.to_string(),
        columns: parser
            .columns
            .iter()
            .map(|id| parser.schema.field(*id).name.to_string())
            .collect(),
    };
    let cost = planner::cost(&plan);
    let agents = service.jobs.fleet.agents().into_iter().filter_map(|agent| {
        Some(AgentEstimate {
            estimate: HostEstimate::at(&cost, agent.packets_per_second?),
            agent: agent.name,
        })
    });
    Ok(ExplainAnswer {
        text: planner::explain(&plan),
        parse_spelling: query::parse_spelling(&parsed),
        sql_spelling: query::sql_spelling(&parsed, &checked),
        parsers: plan.monitor.parsers.iter().map(parser).collect(),
        processors: plan
            .dataflow
            .pipelines
            .iter()
            .map(|pipeline| pipeline.name.clone())
            .collect(),
        estimate: HostEstimate::at(&cost, PACKETS),
        agents: agents.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_given_in_bytes_and_utf16() {
        let text = "a😀é b";
        for (span, utf16) in [
            ((0, 1), (0, 1)),
            ((1, 5), (1, 3)),
            ((5, 7), (3, 4)),
            ((8, 9), (5, 6)),
        ] {
            let place = TextRange::of(text, TextSpan::new(span.0, span.1));
            assert_eq!((place.start_utf16, place.end_utf16), utf16, "{span:?}");
            assert_eq!(byte_of(text, utf16.0), span.0);
        }
        // Within a surrogate pair, and after the end.
        assert_eq!((byte_of(text, 2), byte_of(text, 99)), (5, text.len()));
    }
}
