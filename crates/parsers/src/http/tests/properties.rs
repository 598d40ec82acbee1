//! Random conversations: any division into segments gives the same tuples, and no loss gives a false pair.

use proptest::prelude::*;

use super::*;

/// A conversation of complete messages, in order, with all kinds of framing.
fn conversation() -> impl Strategy<Value = Vec<HttpTestStep>> {
    let request = prop_oneof![
        "GET /[a-z]{0,5}(\\?[a-z]{0,3})? HTTP/1\\.[01]\r\n(Host: [a-z]{1,5}\r\n)?(X: y\r\n)?\r\n",
        "POST / HTTP/1\\.1\nContent-Length: 5\n\n[a-z\n]{5}",
        "PUT / HTTP/1\\.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n3;x\r\n[a-z\r\n]{3}\r\n0\r\n(T: 1\r\n)?\r\n",
        "HEAD / HTTP/1\\.1\r\nUser-Agent: [ -~]{0,20}\r\n\r\n",
    ];
    let response = prop_oneof![
        "HTTP/1\\.[01] [2-5]0[0135-9] [A-Z]{0,3}\r\nContent-Length: 4\r\n\r\n[a-z\r\n]{4}",
        "HTTP/1\\.1 200\nTransfer-Encoding: chunked\n\n2\n[a-z\n]{2}\n0\n\n",
        "(HTTP/1\\.1 10[023] A\r\n(B: c\r\n)?\r\n){1,2}HTTP/1\\.1 204 N\r\n\r\n",
        "HTTP/1\\.1 304 N\r\nContent-Length: 7\r\n\r\n",
    ];
    proptest::collection::vec((request, response), 1..6).prop_map(|pairs| {
        pairs
            .into_iter()
            .flat_map(|(q, mut r)| {
                if q.starts_with("HEAD") {
                    r = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n".to_owned();
                }
                [c(q), s(r)]
            })
            .collect()
    })
}

fn step() -> impl Strategy<Value = HttpTestStep> {
    let direction = || prop_oneof![Just(C), Just(S)];
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "(GET / HTTP/1.1\r\n|HTTP/1.1 200 OK\r\n|HTTP/1.|\r\n|Content-Length: [0-9]{1,21}\r\n|Transfer-Encoding: chunked\r\n|[0-9a-f]{1,3}\r\n|\n ){1,5}"
            .prop_map(String::into_bytes),
    ];
    prop_oneof![
        8 => (direction(), piece).prop_map(|(d, p)| HttpTestStep::Bytes(d, p)),
        2 => (direction(), prop_oneof![0..100u64, Just(u64::MAX)]).prop_map(|(d, n)| HttpTestStep::Gap(d, n)),
        1 => direction().prop_map(HttpTestStep::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tuples_do_not_depend_on_segmentation(steps in conversation(), cuts in proptest::collection::vec(1..20usize, 1..20)) {
        let fields = &["method", "host", "path", "url_query", "url", "http_version", "status", "interim_status",
            "request_bytes", "response_bytes", "user_agent", "quality"];
        let mut cuts = cuts.into_iter().cycle();
        let mut cut = Vec::new();
        for step in &steps {
            let HttpTestStep::Bytes(d, bytes) = step else { continue };
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let n = cuts.next().expect("the cuts go round").min(rest.len());
                cut.push(HttpTestStep::Bytes(*d, rest[..n].to_vec()));
                rest = &rest[n..];
            }
        }
        let (rows, _) = play(dialogue(fields), &steps);
        prop_assert_eq!(rows.len(), steps.len() / 2);
        prop_assert_eq!(rows, play(dialogue(fields), &cut).0);
    }

    #[test]
    fn nothing_panics(steps in proptest::collection::vec(step(), 0..60), midstream in any::<bool>()) {
        let talk = dialogue(FIELDS);
        let talk = if midstream { talk.midstream() } else { talk };
        play(talk, &steps);
    }

    /// Each exchange has its number in path and length: no loss of whole segments may pair two numbers.
    #[test]
    fn no_loss_makes_a_wrong_pair(
        batches in proptest::collection::vec(1..4usize, 2..10), lost in proptest::collection::vec(any::<u8>(), 40),
    ) {
        let mut steps = Vec::new();
        let mut lost = lost.into_iter().cycle();
        let mut number = 0;
        let mut say = |d: Direction, bytes: String| match lost.next() {
            Some(0..30) => HttpTestStep::Gap(d, bytes.len() as u64),
            _ => HttpTestStep::Bytes(d, bytes.into_bytes()),
        };
        // Some connections pipeline from the start; the others never.
        let pipelines = batches[0] > 1;
        for batch in batches {
            let batch = if pipelines { batch.max(2) } else { 1 };
            for n in number..number + batch {
                steps.push(say(C, format!("GET /{n} HTTP/1.1\r\n\r\n")));
            }
            for n in number..number + batch {
                let body = "x".repeat(n);
                steps.push(say(S, format!("HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n{body}")));
            }
            number += batch;
        }
        for row in play(dialogue(&["path", "response_bytes", "quality"]), &steps).0 {
            let words: Vec<&str> = row.split(' ').collect();
            if words[2] != "half" {
                prop_assert_eq!(&words[0][1..], words[1], "{}", tell(&steps));
            }
        }
    }
}
