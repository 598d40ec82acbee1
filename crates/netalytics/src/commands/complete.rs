//! `netalytics complete query|interface TEXT`, for completion scripts: prints completions of TEXT, one full text per
//! line.

use anyhow::Context;
use capture::interfaces::interfaces;
use query::QueryCompletions;

use crate::cli::flags::complete::CompletionKind;
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Prints the completions.
pub fn complete(what: CompletionKind, text: &str) -> anyhow::Result<CommandOutcome> {
    let lines = match what {
        CompletionKind::Query => query_texts(text),
        CompletionKind::Interface => {
            let all = interfaces().context("cannot list the interfaces")?;
            let names = all
                .into_iter()
                .map(|interface| interface.name)
                .chain(["any".to_owned()]);
            names.filter(|name| name.starts_with(text)).collect()
        }
    };
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    output::print(lines.as_bytes())
}

/// Completions as full texts.
fn query_texts(text: &str) -> Vec<String> {
    let QueryCompletions { word, candidates } =
        query::complete(text, &parsers::registry::schemas());
    candidates
        .iter()
        .map(|candidate| format!("{}{candidate}", &text[..word.start]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_continues_a_query() {
        for (text, expected) in [
            ("", &["PARSE ", "SELECT "][..]),
            (
                "SELECT url, count(*) FROM ht",
                &[
                    "SELECT url, count(*) FROM http",
                    "SELECT url, count(*) FROM http2",
                    "SELECT url, count(*) FROM http_get",
                ],
            ),
            (
                "SELECT url FROM http GR",
                &["SELECT url FROM http GROUP BY"],
            ),
            ("PARSE mysql_q", &["PARSE mysql_query"]),
            (
                "PARSE tcp_conn_time, http_g",
                &["PARSE tcp_conn_time, http_get"],
            ),
            ("PARSE http WH", &["PARSE http WHERE"]),
            ("PARSE http where stat", &["PARSE http where status"]),
            (
                "PARSE http WHERE status >= 500 PROC",
                &["PARSE http WHERE status >= 500 PROCESS ("],
            ),
            (
                "PARSE http PROCESS (wo",
                &["PARSE http PROCESS (workload-profile"],
            ),
            (
                "PARSE http PROCESS (group-qu",
                &["PARSE http PROCESS (group-quantile"],
            ),
            (
                "PARSE http PROCESS (group-top",
                &["PARSE http PROCESS (group-top-k"],
            ),
            (
                "PARSE http PROCESS (top-k: key=url_q",
                &["PARSE http PROCESS (top-k: key=url_query"],
            ),
            (
                "PARSE http PROCESS (top-k: sli",
                &["PARSE http PROCESS (top-k: slide="],
            ),
            (
                "PARSE http PROCESS (top-k) SAM",
                &["PARSE http PROCESS (top-k) SAMPLE"],
            ),
            ("PARSE http SIN", &["PARSE http SINCE"]),
            ("PARSE nonsense WHERE sta", &[]),
        ] {
            assert_eq!(query_texts(text), expected, "{text}");
        }
    }
}
