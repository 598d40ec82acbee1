//! The functions of expressions, and names of functions in other languages.

use crate::Diagnostic;
use crate::ast::Atom;
use crate::blocks::BLOCKS;
use crate::error::quoted;
use crate::nearest::{did_you_mean, one_of};

/// Documentation of a function.
pub struct FunctionDoc {
    /// Name.
    pub name: &'static str,
    /// Syntax.
    pub usage: &'static str,
    /// Result.
    pub doc: &'static str,
}

/// All functions.
pub const FUNCTIONS: &[FunctionDoc] = &[
    function(
        "trunc",
        "trunc(ts, 1m)",
        "first argument (time, duration, size, or whole number) rounded down to a multiple of the second",
    ),
    function(
        "subnet",
        "subnet(client_ip, 24)",
        "network of an address as text: `10.1.2.0/24`; for IPv6 /64, or the third argument",
    ),
    function(
        "url_query",
        "url_query(url, 'name')",
        "first value of a parameter in a URL or query string, decoded",
    ),
    function(
        "split",
        "split(path, '/', 2)",
        "n-th part between separators, from 1; -1 is the last",
    ),
    function(
        "extract",
        "extract(url, 'id=([0-9]+)')",
        "match of the first group of a regular expression, or the whole match if it has no groups",
    ),
    function(
        "replace",
        "replace(path, '[0-9]+', 'N')",
        "text with every match of a regular expression replaced; `$1` is its first group",
    ),
    function("lower", "lower(host)", "text in lower case"),
    function("upper", "upper(host)", "in capitals"),
    function("length", "length(url)", "number of characters"),
    function(
        "coalesce",
        "coalesce(status, 0)",
        "first argument that is not null",
    ),
    function(
        "if",
        "if(status >= 500, 'bad', 'good')",
        "second argument if the condition is true, otherwise the third",
    ),
];

/// Names of functions in other languages, and what to write instead.
const OTHER_FUNCTIONS: &[(&[&str], &str)] = &[
    (
        &["now", "current_timestamp", "getdate", "sysdate"],
        "the clause SINCE 1h selects the last hour",
    ),
    (
        &[
            "date_trunc",
            "time_bucket",
            "date_bin",
            "tumble",
            "window",
            "tostartofminute",
            "tostartofinterval",
        ],
        "write trunc(ts, 1m), or the clause WINDOW 1m of a statement in SQL",
    ),
    (
        &["percentile_cont", "percentile_disc"],
        "write p99(response_time), or quantile(response_time, 0.99)",
    ),
    (&["ifnull", "nvl", "isnull"], "write coalesce(status, 0)"),
    (&["nullif"], "write if(status = 0, null, status)"),
    (
        &["concat", "concat_ws"],
        "texts cannot be joined: select each",
    ),
    (
        &["stddev_pop", "variance", "var_pop", "var_samp"],
        "write stddev(response_time)",
    ),
    (
        &[
            "first",
            "last",
            "any_value",
            "string_agg",
            "group_concat",
            "array_agg",
        ],
        "add the column to GROUP BY, which returns each of its values",
    ),
    (
        &["iif", "multiif"],
        "write if(status >= 500, 'bad', 'good')",
    ),
    (
        &["countif", "count_if", "sumif"],
        "write count(*) FILTER (WHERE status >= 500)",
    ),
    (
        &[
            "substr",
            "substring",
            "left",
            "right",
            "regexp_extract",
            "regexp_substr",
        ],
        "write extract(path, '^/([a-z]+)'), or split(path, '/', 2)",
    ),
    (
        &["split_part", "substring_index"],
        "write split(path, '/', 2)",
    ),
    (
        &[
            "regexp_like",
            "regexp_matches",
            "match",
            "contains",
            "starts_with",
        ],
        "write path ~ '^/api', or path like '/api%'",
    ),
    (&["regexp_replace"], "write replace(path, '[0-9]+', 'N')"),
    (&["len", "char_length"], "write length(url)"),
    (&["lcase", "ucase"], "write lower(host) or upper(host)"),
    (
        &["round", "floor", "ceil"],
        "trunc(response_time, 1ms) rounds down",
    ),
    (
        &["convert"],
        "types are converted automatically: omit the conversion",
    ),
];

const fn function(name: &'static str, usage: &'static str, doc: &'static str) -> FunctionDoc {
    FunctionDoc { name, usage, doc }
}

/// The function of this name.
pub(crate) fn known(name: &Atom) -> Option<&'static FunctionDoc> {
    FUNCTIONS
        .iter()
        .find(|f| f.name.eq_ignore_ascii_case(&name.text))
}

/// The error for an unknown function.
pub(crate) fn unknown(name: &Atom) -> Diagnostic {
    let message = format!("unknown function {}", quoted(&name.text));
    let error = Diagnostic::new(name.span, message);
    let is_it = |word: &str| word.eq_ignore_ascii_case(&name.text);
    let other = OTHER_FUNCTIONS
        .iter()
        .find(|(words, _)| words.iter().any(|word| is_it(word)));
    if let Some((_, hint)) = other {
        return error.hint(*hint);
    }
    if BLOCKS
        .iter()
        .any(|b| b.block.is_aggregate() && is_it(b.name))
    {
        let name = name.text.to_lowercase();
        return error.hint(format!(
            "aggregates are processors: PROCESS (group-{name}: …)"
        ));
    }
    let names = FUNCTIONS.iter().map(|f| f.name);
    match did_you_mean(&name.text, names.clone()) {
        Some(hint) => error.hint(hint),
        None => error.expected(one_of(names)),
    }
}
