//! Assembles the file of a report.

use std::time::{SystemTime, UNIX_EPOCH};

use sinks::DisplayZone;
use sinks::units;

use super::account::ReportAccount;
use super::chart_selection::{drawn_map, pictures};
use super::html::{lines, list, text};
use super::rows::{ReportResult, ReportRows};
use super::service_graph::GraphEdge;
use super::svg::ReportFigure;
use super::{repro_command, table};
use crate::diagnose::overview::findings::OverviewFindings;
use crate::diagnose::overview::{advice, screen};
use crate::diagnose::service_map::edges;

pub use super::account::ReportAccount as Read;

/// Maximum rows per list of an overview.
const LIST_ROWS: usize = 100;

/// The frame of every report.
pub struct ReportFrame<'a> {
    /// Title.
    pub title: &'a str,
    /// Input and quality.
    pub account: ReportAccount<'a>,
    /// Whether texts are unredacted.
    pub is_plain: bool,
    /// Whether the input is a file that can be read again, not a live capture.
    pub can_be_repeated: bool,
}

/// Report of a query: its text, plan and rows.
#[must_use]
pub fn of_query(frame: &ReportFrame<'_>, query: &str, plan: &str, kept: &ReportRows) -> String {
    let zone = frame.account.zone;
    let results: String = kept
        .results
        .iter()
        .map(|of| result(of, kept, zone))
        .collect();
    frame.around(
        &format!("<pre>{}</pre>\n", lines(query)),
        &results,
        &format!("<pre>{}</pre>\n", lines(plan)),
    )
}

/// The first picture of a query's results.
#[must_use]
pub fn first_picture(kept: &ReportRows, zone: &DisplayZone) -> Option<String> {
    kept.results
        .iter()
        .find_map(|of| pictures(of, kept, zone).first().map(ReportFigure::alone))
}

/// Report of an overview: its lists and queries.
#[must_use]
pub fn of_overview(
    frame: &ReportFrame<'_>,
    found: &OverviewFindings,
    edges: &[edges::ServiceEdge],
    asked: &[String],
    input: &str,
) -> String {
    let map = drawn_map(edges.iter().map(edge).collect());
    let lists = screen::lists_of(found, LIST_ROWS);
    let list = |of: &crate::diagnose::overview::layout::OverviewList| {
        let (title, rest) = of.titles.split_first().unwrap_or((&"", &[]));
        let titles: Vec<&str> = [""].into_iter().chain(rest.iter().copied()).collect();
        format!(
            "<h2>{}</h2>\n{}",
            text(&sentence(title)),
            list(&titles, &of.rows)
        )
    };
    let lists = lists.iter().filter(|list| !list.rows.is_empty()).map(list);
    let next: Vec<String> = found
        .next
        .iter()
        .map(|query| advice::command(query, input))
        .collect();
    let body = map
        .iter()
        .map(ReportFigure::figure)
        .chain(lists)
        .collect::<String>()
        + &format!(
            "<h2>Ask next</h2>\n<pre>{}</pre>\n",
            lines(&next.join("\n"))
        );
    let asked = format!(
        "<p>These questions, of one pass over the packets:</p>\n<pre>{}</pre>\n",
        lines(&asked.join("\n"))
    );
    frame.around("", &body, &asked)
}

impl ReportFrame<'_> {
    fn around(&self, question: &str, results: &str, plan: &str) -> String {
        let ReportFrame {
            title,
            account,
            is_plain,
            can_be_repeated,
        } = self;
        let when = account
            .when()
            .map(|when| format!("<p>{}</p>\n", text(&when)))
            .unwrap_or_default();
        let worth = text(&account.worth().join(" · "));
        let again = match can_be_repeated {
            true => "The same files give the same numbers:",
            false => "Live traffic is not stored; the same query over new traffic:",
        };
        let redacted = match is_plain {
            true => "Texts are unchanged.",
            false => {
                "Redacted: literals of SQL are ?, and cache keys, the values in URLs' queries and names of files are keyed hashes."
            }
        };
        let body = format!(
            "<h1>{}</h1>\n{question}{when}<p>{worth}</p>\n{}{results}\
             <h2>What was read</h2>\n{}<h2>How it was found</h2>\n{plan}\
             <h2>Again</h2>\n<p>{again}</p>\n<pre>{}</pre>\n<p>{redacted}</p>\n\
             <p>Found by netalytics {}, {}.</p>\n",
            text(title),
            account.complaints(),
            account.table(),
            lines(&repro_command::command(std::env::args_os())),
            env!("CARGO_PKG_VERSION"),
            text(&now()),
        );
        document(title, &body)
    }
}

fn result(of: &ReportResult, kept: &ReportRows, zone: &DisplayZone) -> String {
    let name = of.head.processor.as_deref().unwrap_or("tuples");
    let windows = of
        .head
        .slide_ns
        .map(|ns| format!(", a window every {}", units::chosen_duration(ns)));
    let figures: String = pictures(of, kept, zone)
        .iter()
        .map(ReportFigure::figure)
        .collect();
    format!(
        "<h2>{}{}</h2>\n{figures}{}",
        text(name),
        windows.unwrap_or_default(),
        table::table(of, kept)
    )
}

fn edge(edge: &edges::ServiceEdge) -> GraphEdge {
    let answers = edge.answers;
    GraphEdge {
        client: edge.client_ip.clone(),
        server: edge.server_ip.clone(),
        service: format!(
            "{} {}",
            edge.server_port,
            edge.protocol.as_deref().unwrap_or_default()
        )
        .trim()
        .to_owned(),
        p99_ns: answers.and_then(|of| of.p99_ns),
        weight: answers.map_or(edge.flows, |of| of.requests) as f64,
        fails: answers
            .and_then(|of| of.success)
            .is_some_and(|share| share < 1.0),
    }
}

/// Converts a title such as `TOP TALKERS` to sentence case.
fn sentence(title: &str) -> String {
    let mut chars = title.chars();
    chars
        .next()
        .into_iter()
        .chain(chars.flat_map(char::to_lowercase))
        .collect()
}

fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    DisplayZone::default().short_time(
        i64::try_from(seconds)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000),
    )
}

/// The document around a body.
fn document(title: &str, body: &str) -> String {
    let title = text(title);
    let drawn = super::svg::STYLE;
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>{title}</title>\n<style>{STYLE}{drawn}</style></head>\n\
         <body>\n{body}</body></html>\n"
    )
}

/// Style sheet, with a dark variant, as in the page's saved findings.
const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--ink:#1b1f24;--muted:#57606a;--line:#d8dee4}\
@media(prefers-color-scheme:dark){:root{--ground:#14171a;--ink:#e6e8ea;--muted:#9aa4ae;--line:#343a41}}\
body{background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid var(--line);padding-left:1rem}\
figure{margin:1rem 0;overflow-x:auto}figcaption,.muted{color:var(--muted)}svg{max-width:100%;height:auto}\
div{overflow-x:auto}table{border-collapse:collapse;font-size:.9em}\
td,th{text-align:left;padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top;max-width:40rem;overflow-wrap:break-word}\
th{white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}td i{color:var(--muted)}\
ul{list-style:none;padding:0}.legend li{display:inline-block;margin-right:1.2rem;overflow-wrap:anywhere}.bad{border-left:4px solid #b3261e;padding-left:1rem}";
