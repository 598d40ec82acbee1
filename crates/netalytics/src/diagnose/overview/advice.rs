//! The three most useful next queries, as commands.

use super::findings::OverviewFindings;
use super::queries::OverviewQueries;

/// Number of commands.
const ADVICE: usize = 3;
/// Maximum length of a key repeated in a query.
const KEY_CHARS_MAX: usize = 60;
/// Minimum duration of a capture for a query with windows, in ns.
const LONG_NS: i64 = 60_000_000_000;

/// Queries, most useful first.
#[must_use]
pub fn queries(found: &OverviewFindings, questions: &OverviewQueries) -> Vec<String> {
    let mut queries = Vec::new();
    let protocol = |parser: &str| questions.protocols.iter().find(|p| p.parser == parser);
    if let Some((failing, protocol)) = found
        .failing
        .first()
        .and_then(|f| Some((f, protocol(&f.parser)?)))
    {
        let condition =
            simple_failure(&failing.parser).map_or_else(|| protocol.failing(), str::to_owned);
        queries.push(format!(
            "PARSE {} WHERE {condition} PROCESS (group-count-top-k: group={}, client_ip, k=10)",
            protocol.parser,
            protocol.ends()
        ));
    }
    if let Some((slow, protocol)) = found
        .slowest
        .first()
        .and_then(|s| Some((s, protocol(&s.parser)?)))
    {
        let parser = &protocol.parser;
        let key = &protocol.key;
        let times = protocol.times();
        let windows = match found.seen_ns {
            Some((first, last)) if last - first > LONG_NS => ", w=10s",
            _ => "",
        };
        queries.push(match slow.request.as_deref().filter(|request| can_be_quoted(request)) {
            Some(request) => {
                format!("PARSE {parser} WHERE {key} = '{request}' PROCESS (group-count-quantile: group=client_ip, value={times}{windows})")
            }
            None => format!("PARSE {parser} PROCESS (group-quantile-top-k: group={key}, value={times}, q=0.99, k=10)"),
        });
    }
    if found.refused_total[0] > 0 {
        queries.push(
            "PARSE flow WHERE conn_state = 'REJ' PROCESS (group-count-top-k: group=client_ip, server_ip, server_port, k=10)".into(),
        );
    }
    if !found.delayed.is_empty() {
        queries.push(
            "PARSE flow WHERE syn_retransmissions > 0 PROCESS (group-sum-top-k: group=client_ip, server_ip, \
             value=syn_retransmissions, k=10)"
                .into(),
        );
    }
    if !found.retransmitting.is_empty() {
        queries.push(
            "PARSE flow WHERE retransmissions > 0 PROCESS (group-sum-top-k: group=client_ip, server_ip, \
             value=retransmissions, k=10)"
                .into(),
        );
    }
    if found.refused_total[1] > 0 {
        queries.push(
            "PARSE flow WHERE conn_state = 'S0' PROCESS (group-count-top-k: group=server_ip, server_port, k=10)".into(),
        );
    }
    let unread = found
        .applications
        .iter()
        .find(|a| a.parser.is_none() && a.application.is_some());
    if let Some(application) = unread.and_then(|a| a.application.as_deref()) {
        queries.push(format!(
            "PARSE flow WHERE application = '{application}' PROCESS (group-sum-top-k: group=client_ip, server_ip, \
             value=server_bytes, k=10)"
        ));
    }
    let busiest = found
        .applications
        .iter()
        .find_map(|a| a.parser.as_deref())
        .and_then(protocol);
    if let Some(protocol) = busiest {
        queries.push(format!(
            "PARSE {} PROCESS (diff-group: group={})",
            protocol.parser, protocol.key
        ));
    }
    queries.push("PARSE packet PROCESS (group-sum-top-k: group=src_ip, k=10)".into());
    queries.push("PARSE flow PROCESS (group-count: group=application, conn_state)".into());
    queries.push("PARSE packet PROCESS (rate: w=1s)".into());
    queries.truncate(ADVICE);
    queries
}

/// A shorter equivalent of the negated `success` condition.
fn simple_failure(parser: &str) -> Option<&'static str> {
    match parser {
        "http" => Some("status >= 400"),
        "mysql_query" => Some("error_code != 0"),
        "postgresql" => Some("error_code is not null"),
        "mongodb" | "cassandra" | "kafka" => Some("ok = false"),
        _ => None,
    }
}

/// Whether a text needs no escaping within a query in a shell's double quotes.
fn can_be_quoted(text: &str) -> bool {
    text.chars().count() <= KEY_CHARS_MAX
        && text
            .chars()
            .all(|c| c == ' ' || c.is_ascii_graphic() && !"'\"\\$`!".contains(c))
}

/// The command that runs a query on the same input.
#[must_use]
pub fn command(query: &str, input: &str) -> String {
    let quote = if query.contains('\'') { '"' } else { '\'' };
    format!("netalytics query {quote}{query}{quote} {input}")
}

/// Quotes a word for a shell.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted() {
        assert_eq!(
            command("PARSE http", "-r a.pcap"),
            "netalytics query 'PARSE http' -r a.pcap"
        );
        assert_eq!(
            command("PARSE nfs WHERE a = 'b'", "-i lo"),
            "netalytics query \"PARSE nfs WHERE a = 'b'\" -i lo"
        );
        for (word, expected) in [
            ("a/b-1.pcap.gz", "a/b-1.pcap.gz"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
        for (text, expected) in [
            ("/product/{id}", true),
            ("SELECT ? FROM t", true),
            ("it's", false),
            ("$HOME", false),
            ("ü", false),
        ] {
            assert_eq!(can_be_quoted(text), expected, "{text}");
        }
    }
}
