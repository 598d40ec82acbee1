//! The words of PROCESS: blocks and arguments with their meaning and defaults, and the parser of chains such as
//! `diff-group-avg-top-k`. Each table is used for checks, hints, and help.

use crate::ast::Atom;
use crate::error::quoted;
use crate::nearest::nearest;
use crate::{Diagnostic, TextSpan};

/// A block of a processor's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ProcessorBlock {
    Diff,
    Group,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Stddev,
    Rate,
    Distinct,
    Quantile,
    Hist,
    Cdf,
    Success,
    Ratio,
    Throughput,
    Share,
    Aggregate,
    TopK,
    WorkloadProfile,
    ServiceMap,
}

impl ProcessorBlock {
    /// Whether it computes an aggregate per group.
    #[must_use]
    pub fn is_aggregate(self) -> bool {
        !matches!(
            self,
            ProcessorBlock::Diff
                | ProcessorBlock::Group
                | ProcessorBlock::TopK
                | ProcessorBlock::WorkloadProfile
                | ProcessorBlock::ServiceMap
        )
    }

    /// Whether it is an aggregate of a value.
    #[must_use]
    pub fn needs_value(self) -> bool {
        use ProcessorBlock::{Aggregate, Count, Distinct, Rate, Ratio, Share, Success};
        let counts = matches!(
            self,
            Aggregate | Count | Rate | Distinct | Success | Ratio | Share
        );
        self.is_aggregate() && !counts
    }

    /// Name in the query language.
    #[must_use]
    pub fn name(self) -> &'static str {
        BLOCKS
            .iter()
            .find(|b| b.block == self)
            .map_or("", |b| b.name)
    }
}

/// Documentation of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockDoc {
    /// The block.
    pub block: ProcessorBlock,
    /// Name.
    pub name: &'static str,
    /// Description in one line.
    pub doc: &'static str,
}

/// Documentation of an argument.
#[derive(Clone, Copy, Debug)]
pub struct ArgDoc {
    /// Name.
    pub name: &'static str,
    /// Description in one line.
    pub doc: &'static str,
    /// Default.
    pub default: &'static str,
}

/// All blocks.
pub const BLOCKS: &[BlockDoc] = &[
    doc(
        ProcessorBlock::Diff,
        "diff",
        "sets value to a difference of times: connection end - start, or response - request",
    ),
    doc(
        ProcessorBlock::Group,
        "group",
        "one row per value of the group= columns; without aggregates: the statistics",
    ),
    doc(ProcessorBlock::Count, "count", "tuples"),
    doc(ProcessorBlock::Sum, "sum", "sum of the values"),
    doc(ProcessorBlock::Avg, "avg", "mean of the values"),
    doc(ProcessorBlock::Min, "min", "least value"),
    doc(ProcessorBlock::Max, "max", "largest value"),
    doc(
        ProcessorBlock::Stddev,
        "stddev",
        "sample standard deviation of the values (n - 1)",
    ),
    doc(ProcessorBlock::Rate, "rate", "tuples per second"),
    doc(
        ProcessorBlock::Distinct,
        "distinct",
        "number of distinct values of a column",
    ),
    doc(
        ProcessorBlock::Quantile,
        "quantile",
        "quantiles of the values, within 1 % relative error",
    ),
    doc(
        ProcessorBlock::Hist,
        "hist",
        "histogram of the values in logarithmic buckets, 1 % relative error",
    ),
    doc(
        ProcessorBlock::Cdf,
        "cdf",
        "cumulative histogram, as shares of the total",
    ),
    doc(
        ProcessorBlock::Success,
        "success",
        "share of responses without an error",
    ),
    doc(
        ProcessorBlock::Ratio,
        "ratio",
        "share of tuples for which the condition of= is true",
    ),
    doc(
        ProcessorBlock::Throughput,
        "throughput",
        "sum of the values per second: with bytes, bytes per second",
    ),
    doc(
        ProcessorBlock::Share,
        "share",
        "the group's share of all tuples in the window; with value=, of the sum of all values",
    ),
    doc(
        ProcessorBlock::Aggregate,
        "aggregate",
        "the aggregates of columns=, each with its own value",
    ),
    doc(
        ProcessorBlock::TopK,
        "top-k",
        "the k largest groups by by=, otherwise by the aggregate before it, otherwise by count",
    ),
    doc(
        ProcessorBlock::WorkloadProfile,
        "workload-profile",
        "report on the workload: operations, mix, sizes, patterns, errors, hottest objects; not combined with other blocks",
    ),
    doc(
        ProcessorBlock::ServiceMap,
        "service-map",
        "map of clients and services: requests, response times, errors and bytes per pair; not combined with other blocks",
    ),
];

/// All arguments.
pub const ARGS: &[ArgDoc] = &[
    arg(
        "group",
        "columns to group by, as in group=client_ip, url",
        "the parser's key",
    ),
    arg(
        "value",
        "columns to aggregate",
        "with diff, the difference; otherwise the parser's measure",
    ),
    arg(
        "key",
        "column ranked by top-k, or whose values distinct counts",
        "the parser's key",
    ),
    arg(
        "by",
        "result column that top-k ranks by, as in by=p99",
        "the aggregate before top-k",
    ),
    arg(
        "of",
        "conditions of ratio, as in of=(status >= 500) AS failed, (hit = true)",
        "none: required by ratio",
    ),
    arg(
        "columns",
        "calls of aggregates, as in columns=count(*) AS n, p99(response_time)",
        "none: required by aggregate",
    ),
    arg(
        "k",
        "number of groups of top-k, or of entries in the lists of workload-profile",
        "10",
    ),
    arg("q", "quantiles, as in q=0.5, 0.99", "0.5, 0.95, 0.99"),
    arg(
        "w",
        "length of the windows, as in w=10s",
        "one window, the whole run",
    ),
    arg(
        "slide",
        "interval between the starts of windows; must divide w",
        "w: windows do not overlap",
    ),
    arg(
        "lateness",
        "time after its end for which a window accepts tuples",
        "1s",
    ),
    arg(
        "groups_max",
        "maximum number of groups that are counted exactly",
        "100000; 10000 per list of workload-profile",
    ),
    arg(
        "near",
        "maximum distance of a sequential read or write from the end of the previous one, in multiples of its size",
        "2",
    ),
];

const fn doc(block: ProcessorBlock, name: &'static str, doc: &'static str) -> BlockDoc {
    BlockDoc { block, name, doc }
}

const fn arg(name: &'static str, doc: &'static str, default: &'static str) -> ArgDoc {
    ArgDoc { name, doc, default }
}

/// Names of blocks in other tools.
const SYNONYMS: &[(&str, &str)] = &[
    ("mean", "avg"),
    ("average", "avg"),
    ("median", "quantile"),
    ("percentile", "quantile"),
    ("percentiles", "quantile"),
    ("p50", "quantile"),
    ("p90", "quantile"),
    ("p95", "quantile"),
    ("p99", "quantile"),
    ("total", "sum"),
    ("unique", "distinct"),
    ("uniq", "distinct"),
    ("std", "stddev"),
    ("sd", "stddev"),
    ("errors", "success"),
    ("error", "success"),
    ("rank", "top-k"),
    ("top", "top-k"),
    ("by", "group"),
    ("length", "count"),
    ("bandwidth", "throughput"),
    ("bitrate", "throughput"),
    ("bps", "throughput"),
    ("hitratio", "ratio"),
    ("hitrate", "ratio"),
    ("errorrate", "success"),
    ("latency", "quantile"),
    ("percent", "share"),
    ("part", "share"),
    ("workload", "workload-profile"),
    ("profile", "workload-profile"),
    ("map", "service-map"),
    ("edges", "service-map"),
];

/// A block with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedBlock {
    /// The block.
    pub block: ProcessorBlock,
    /// Position.
    pub span: TextSpan,
    /// The number in `top-5`.
    pub k: Option<usize>,
}

/// Parses a chain; errors are added to `errors`.
pub(crate) fn chain(name: &Atom, errors: &mut Vec<Diagnostic>) -> Vec<PlacedBlock> {
    let mut placed: Vec<PlacedBlock> = Vec::new();
    for (text, span) in parts(name) {
        match one(text, span) {
            Ok(block) if placed.iter().any(|p| p.block == block.block) => {
                errors.push(Diagnostic::new(
                    span,
                    format!("`{}` occurs twice in one chain", block.block.name()),
                ));
            }
            Ok(block) => placed.push(block),
            Err(error) => errors.push(error),
        }
    }
    placed
}

/// The parts separated by `-`, with `top-k`, `top-5`, `workload-profile`, and `service-map` as one part.
fn parts(name: &Atom) -> Vec<(&str, TextSpan)> {
    let offset = name.span.start + usize::from(name.quoted);
    let mut parts: Vec<(&str, TextSpan)> = Vec::new();
    let mut at = 0;
    for piece in name.text.split('-') {
        let end = at + piece.len();
        let continues = |before: &str| match before.to_ascii_lowercase().as_str() {
            "top" => piece.eq_ignore_ascii_case("k") || is_number(piece),
            "workload" => piece.eq_ignore_ascii_case("profile"),
            "service" => piece.eq_ignore_ascii_case("map"),
            _ => false,
        };
        match parts.last_mut() {
            Some(last) if continues(last.0) => {
                let start = last.1.start - offset;
                *last = (
                    &name.text[start..end],
                    TextSpan::new(start + offset, end + offset),
                );
            }
            _ => parts.push((piece, TextSpan::new(at + offset, end + offset))),
        }
        at = end + 1;
    }
    parts
}

fn one(text: &str, span: TextSpan) -> Result<PlacedBlock, Diagnostic> {
    let lower = text.to_ascii_lowercase();
    if let Some(known) = BLOCKS.iter().find(|b| b.name == lower) {
        return Ok(PlacedBlock {
            block: known.block,
            span,
            k: None,
        });
    }
    if let Some(k) = lower
        .strip_prefix("top")
        .map(|k| k.trim_start_matches(['-', '_']))
    {
        // A number that does not fit is reported as too large by the later check.
        let number = is_number(k).then(|| k.parse().unwrap_or(usize::MAX));
        if number.is_some() || k == "k" {
            return Ok(PlacedBlock {
                block: ProcessorBlock::TopK,
                span,
                k: number,
            });
        }
    }
    if text.is_empty() {
        let error = Diagnostic::new(
            span,
            "an empty block: a chain has one `-` between two blocks",
        );
        return Err(error.expected(block_names()));
    }
    let is_percentile = lower.strip_prefix('p').is_some_and(is_number);
    let synonym = SYNONYMS
        .iter()
        .find(|(said, _)| *said == lower)
        .map(|(_, block)| *block);
    let synonym = synonym.or(is_percentile.then_some("quantile"));
    let guess = synonym.or_else(|| nearest(&lower, BLOCKS.iter().map(|b| b.name)));
    let error = Diagnostic::new(span, format!("unknown processor {}", quoted(text)));
    Err(match guess {
        Some("quantile") => error.hint(quantile_hint(&lower)),
        Some(block) => error.hint(format!("did you mean `{block}`?")),
        None => error.expected(block_names()),
    })
}

/// A hint that `p99` and `median` are a block with an argument.
fn quantile_hint(said: &str) -> String {
    let q = match said {
        "median" => Some("0.5".to_owned()),
        _ => said
            .strip_prefix('p')
            .filter(|digits| is_number(digits) && digits.len() < 9)
            .map(|digits| {
                // p99 is 0.99, p999 is 0.999, p5 is 0.05.
                if digits.len() == 1 {
                    format!("0.0{digits}")
                } else {
                    format!("0.{}", digits.trim_end_matches('0'))
                }
            }),
    };
    match q {
        Some(q) if q != "0.0" && q != "0." => format!("write `quantile` with q={q}"),
        _ => "did you mean `quantile`?".into(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn block_names() -> String {
    crate::nearest::one_of(BLOCKS.iter().map(|b| b.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &[ProcessorBlock]) {
        let atom = Atom {
            text: name.into(),
            span: TextSpan::new(0, name.len()),
            quoted: false,
        };
        let mut errors = Vec::new();
        let blocks: Vec<_> = chain(&atom, &mut errors).iter().map(|p| p.block).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert_eq!(blocks, expected, "{name}");
    }

    fn check_error(name: &str, place: &str, label: &str) {
        let atom = Atom {
            text: name.into(),
            span: TextSpan::new(0, name.len()),
            quoted: false,
        };
        let mut errors = Vec::new();
        chain(&atom, &mut errors);
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
        assert_eq!(&name[errors[0].span.range()], place, "{name}");
        assert!(
            format!("{} {}", errors[0].message, errors[0].label()).contains(label),
            "{name}: {errors:?}"
        );
    }

    #[test]
    fn chains() {
        use ProcessorBlock::*;
        check("diff-group", &[Diff, Group]);
        check("top-k", &[TopK]);
        check("TopK", &[TopK]);
        check("top_k", &[TopK]);
        check("Diff-Group-avg-MAX-top-5", &[Diff, Group, Avg, Max, TopK]);
        check("top-10-count", &[TopK, Count]);
        check("top5", &[TopK]);
        check("Workload-Profile", &[WorkloadProfile]);
        check("service-map", &[ServiceMap]);
    }

    #[test]
    fn every_block_is_read_by_its_name() {
        BLOCKS.iter().for_each(|b| check(b.name, &[b.block]));
    }

    #[test]
    fn broken_chains() {
        check_error("diff-grop", "grop", "did you mean `group`?");
        check_error("group-mean", "mean", "did you mean `avg`?");
        check_error("group-", "", "empty block");
        check_error("diff--group", "", "empty block");
        check_error("group-sum-group", "group", "twice");
        check_error("top-k-topk", "topk", "twice");
        check_error("top", "top", "did you mean `top-k`?");
        check_error("group-p99", "p99", "write `quantile` with q=0.99");
        check_error("p999", "p999", "write `quantile` with q=0.999");
        check_error("p50", "p50", "write `quantile` with q=0.5");
        check_error("p5", "p5", "write `quantile` with q=0.05");
        check_error("median", "median", "write `quantile` with q=0.5");
        check_error("percentile", "percentile", "did you mean `quantile`?");
        check_error("xyzzy", "xyzzy", "expected diff, group");
    }

    #[test]
    fn the_number_of_top_5_is_kept() {
        let atom = Atom {
            text: "top-5".into(),
            span: TextSpan::new(3, 8),
            quoted: false,
        };
        let placed = chain(&atom, &mut Vec::new());
        assert_eq!(
            placed,
            [PlacedBlock {
                block: ProcessorBlock::TopK,
                span: TextSpan::new(3, 8),
                k: Some(5)
            }]
        );
    }
}
