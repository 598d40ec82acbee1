//! Arbitrary texts: no panics, and printable errors.

use proptest::prelude::*;

use super::{hosts, schemas};

const VALID: &[&str] = &[
    "PARSE tcp_conn_time, http_get FROM 10.0.2.8:5555 TO 10.0.2.9:80 LIMIT 90s SAMPLE auto PROCESS (top-k: k=10, w=10s)",
    "PARSE (tcp_flow_key, tcp_pkt_size) FROM * TO h1:80, h2:3306, LIMIT 90s SAMPLE * PROCESS (group-sum: group=srcIP, destIP)",
    "PARSE http WHERE (status >= 500 or url like '%x\\%') and client_ip in (10.0.0.0/8, ::1) and not host is null -- c\n\
     WHERE response_time > 1.5s LIMIT 5000p, 2m SAMPLE 1/1000 PROCESS (quantile-group: q=0.5,0.99, group=(host, url)), count;",
    "PARSE http SELECT url_query(url, 'id') AS id, -status % 100, *, if(url ~ '^/(a|b)' and status/100 in (4,5), 'x', null) \
     ORDER BY coalesce(response_time, 0ns) / 1ms desc, ts LIMIT 5 ROWS",
    "PARSE http PROCESS (group-avg: group=trunc(ts, 1m), (status + 1) & 3 AS s, value=response_time * 2)",
    "SELECT DISTINCT h.url u, \"status\" FROM http AS h WHERE client = h1 AND h.status NOT BETWEEN 200 AND 299 ORDER BY 2 DESC LIMIT 5;",
    "SELECT host, count(*) FILTER (WHERE status >= 500) AS n, sum(CASE method WHEN 'GET' THEN 1 ELSE 0 END), p99(response_time) \
     FROM http JOIN tcp_conn_time c ON c.id = http.id GROUP BY 1 HAVING n > 1 or count(status) < 2 ORDER BY n DESC LIMIT 5, 90s WINDOW 10s SLIDE 5s",
    "SELECT rank(), url, max(response_time) FROM http WHERE (server = h1 OR server = h2:80) GROUP BY url ORDER BY max(response_time) DESC LIMIT 3",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        never_panics(&text);
    }

    #[test]
    fn no_heap_of_words_panics(words in proptest::collection::vec(word(), 0..40), glue in prop_oneof![Just(""), Just(" ")]) {
        never_panics(&words.join(glue));
    }

    #[test]
    fn no_broken_query_panics(which in 0..VALID.len(), cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..4u8, word()), 1..4)) {
        let mut text = VALID[which].to_owned();
        for (at, kind, word) in cuts {
            let borders: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            let i = at.index(borders.len());
            match kind {
                0 => text.truncate(borders[i]),
                1 => text.insert_str(borders[i], &word),
                2 => drop(text.drain(borders[i]..borders[(i + 1).min(borders.len() - 1)])),
                _ => text = text[borders[i]..].to_owned(),
            }
        }
        never_panics(&text);
    }
}

fn word() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "PARSE",
        "FROM",
        "TO",
        "WHERE",
        "LIMIT",
        "SAMPLE",
        "SINCE",
        "UNTIL",
        "BASELINE",
        "'2h ago'",
        "PROCESS",
        "SELECT",
        "ORDER BY",
        "ROWS",
        "AS",
        "+",
        "/",
        "-",
        "&",
        "~",
        "trunc(",
        "if(",
        "coalesce(",
        "extract(",
        "'[0-9]+'",
        "1m",
        "null",
        "*",
        "http",
        "http_get",
        "tcp_conn_time",
        "status",
        "url",
        "(",
        ")",
        ",",
        ":",
        ";",
        "=",
        "<",
        "!",
        "'",
        "\"",
        "--",
        "\n",
        "\t",
        "*",
        "[",
        "]",
        "/",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "like",
        "10.0.0.1",
        "::1",
        "1s",
        "5p",
        "0.1",
        "top-k",
        "diff-group",
        "k=",
        "group=",
        "q=",
        "-",
        "é",
        "名",
        "\u{202e}",
        "200",
        "h1:80",
        "DISTINCT",
        "GROUP BY",
        "HAVING",
        "WINDOW",
        "count(*)",
        "p99(",
        "FILTER (WHERE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "BETWEEN",
        "JOIN",
        "ON",
        "http.id",
        "client",
        "server",
        "OFFSET",
        "OVER",
        "(SELECT",
    ];
    prop_oneof![4 => prop::sample::select(KNOWN).prop_map(str::to_owned), 1 => "\\PC{0,4}"]
}

#[test]
fn clauses_of_the_other_spelling_are_no_names() {
    for text in [
        "SELECT status process FROM http",
        "SELECT DISTINCT url, status PARSE FROM http LIMIT 5",
    ] {
        never_panics(text);
        assert!(crate::check(text, &schemas(), &hosts()).is_err(), "{text}");
    }
}

/// Checks and renders, in both spellings; every position is within the text, and every error has a message.
fn never_panics(text: &str) {
    let errors = match crate::check(text, &schemas(), &hosts()) {
        Ok(query) => return accepted_in_both_spellings(text, &query),
        Err(errors) => errors,
    };
    assert!(!errors.is_empty());
    for error in &errors {
        assert!(
            text.get(error.span.range()).is_some() && !error.message.is_empty(),
            "{error:?}"
        );
    }
    assert!(crate::render(&errors, text).lines().count() >= 3 * errors.len());
}

fn accepted_in_both_spellings(text: &str, query: &crate::CheckedQuery) {
    let parsed = crate::ParsedText::new(text);
    let statements = crate::sql_spelling(&parsed, query);
    for other in statements
        .into_iter()
        .flatten()
        .chain([crate::parse_spelling(&parsed)])
    {
        if let Err(errors) = crate::check(&other, &schemas(), &hosts()) {
            panic!("{text}\n{}", crate::render(&errors, &other));
        }
    }
}
