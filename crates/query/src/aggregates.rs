//! Aggregate functions as calls, as in `count(*)` and `p99(response_time)`: their names, and where they occur.

use crate::ast::{ExprForm, QueryExpr};
use crate::blocks::{BLOCKS, ProcessorBlock};

/// The position of a row in a ranking.
pub(crate) const RANK: &str = "rank";

/// Names of aggregates in SQL that differ from those of blocks. Those of blocks are accepted, too.
const NAMES: &[(&str, ProcessorBlock)] = &[
    ("mean", ProcessorBlock::Avg),
    ("average", ProcessorBlock::Avg),
    ("stddev_samp", ProcessorBlock::Stddev),
    ("percentile", ProcessorBlock::Quantile),
    ("approx_percentile", ProcessorBlock::Quantile),
    ("approx_quantile", ProcessorBlock::Quantile),
    ("approx_count_distinct", ProcessorBlock::Distinct),
    ("uniq", ProcessorBlock::Distinct),
    ("histogram", ProcessorBlock::Hist),
];

/// An aggregate as named by a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CalledAggregate {
    /// The function of a block.
    Block(ProcessorBlock),
    /// `p99`, `median`: the quantile.
    Quantile(f64),
}

/// The aggregate of this name.
pub(crate) fn named(name: &str) -> Option<CalledAggregate> {
    let name = name.to_ascii_lowercase();
    let block = BLOCKS
        .iter()
        .filter(|doc| doc.block.is_aggregate() && doc.block != ProcessorBlock::Aggregate)
        .map(|doc| (doc.name, doc.block))
        .chain(NAMES.iter().copied())
        .find(|(known, _)| *known == name);
    match block {
        Some((_, block)) => Some(CalledAggregate::Block(block)),
        None if name == "median" => Some(CalledAggregate::Quantile(0.5)),
        None => percent(&name).map(|percent| CalledAggregate::Quantile(percent / 100.0)),
    }
}

/// `p99` is 99, `p99_9` is 99.9.
fn percent(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let percent: f64 = digits.replacen('_', ".", 1).parse().ok()?;
    (is_number && percent <= 100.0).then_some(percent)
}

/// The report that `name()` computes alone.
pub(crate) fn report(name: &str) -> Option<ProcessorBlock> {
    [ProcessorBlock::WorkloadProfile, ProcessorBlock::ServiceMap]
        .into_iter()
        .find(|block| block.name().replace('-', "_").eq_ignore_ascii_case(name))
}

/// Whether an expression is a call of an aggregate.
pub(crate) fn is_call(expr: &QueryExpr) -> bool {
    matches!(&expr.form, ExprForm::Call(name, _)
        if named(&name.text).is_some() || report(&name.text).is_some())
}

/// Whether an expression is `rank()`.
pub(crate) fn is_rank(expr: &QueryExpr) -> bool {
    matches!(&expr.form, ExprForm::Call(name, args)
        if args.is_empty() && name.text.eq_ignore_ascii_case(RANK))
}

/// The calls of aggregates, and of `rank()`, in an expression.
pub(crate) fn calls(expr: &QueryExpr) -> impl Iterator<Item = &QueryExpr> {
    let mut rest = vec![expr];
    std::iter::from_fn(move || {
        while let Some(expr) = rest.pop() {
            if is_call(expr) || is_rank(expr) {
                return Some(expr);
            }
            rest.extend(expr.parts());
        }
        None
    })
}
