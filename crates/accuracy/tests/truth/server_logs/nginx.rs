//! nginx's access log: per request the connection, method and URI, status, bytes sent, completion time, and duration.

use accuracy::ObservedTuple;

use super::{Log, check, live, number, shop, text};

const MS: i64 = 1_000_000;
/// Maximum length of a response head in these captures.
const HEAD_MAX: i128 = 1000;
/// nginx logs milliseconds, and takes the time after further work.
const IMPRECISE: i64 = 8 * MS;

/// Maximum time of a request in the kernel, or in a queue behind earlier requests.
const QUEUED_MAX: i64 = 2000 * MS;

struct Nginx(Vec<Line>);

struct Line {
    end: i64,
    port: u16,
    method: String,
    uri: String,
    status: i128,
    sent: i128,
    took: i64,
    taken: bool,
}

/// Positions of the columns: time, port, method, URI, status, bytes sent, duration in seconds.
type Columns = [usize; 7];
const LIVE: Columns = [0, 4, 7, 9, 10, 12, 13];
const SHOP: Columns = [0, 2, 3, 4, 5, 6, 7];

impl Nginx {
    fn read(log: &str, columns: Columns, apart: char) -> Nginx {
        let lines = log.lines().map(|line| {
            let all: Vec<&str> = line.split(apart).collect();
            let [end, port, method, uri, status, sent, took] = columns.map(|c| all[c]);
            let ns = |seconds: &str| {
                let (whole, ms) = seconds.split_once('.').expect("seconds with milliseconds");
                (whole.parse::<i64>().expect("a number") * 1000
                    + ms.parse::<i64>().expect("a number"))
                    * MS
            };
            Line {
                end: ns(end),
                port: port.parse().expect("a port"),
                method: method.to_owned(),
                uri: uri.to_owned(),
                status: status.parse().expect("a status"),
                sent: sent.parse().expect("bytes"),
                took: ns(took),
                taken: false,
            }
        });
        Nginx(lines.collect())
    }
}

impl Log for Nginx {
    fn take(&mut self, pair: &ObservedTuple, tolerance: i64) -> Result<(), String> {
        let Some(status) = number(pair, "status") else {
            return Ok(());
        };
        let uri = match (text(pair, "path"), text(pair, "url_query")) {
            (Some(path), Some(query)) => format!("{path}?{query}"),
            (path, _) => path.unwrap_or_default().to_owned(),
        };
        let asked = |line: &&mut Line| {
            let then =
                line.end - line.took - QUEUED_MAX - tolerance..=line.end + IMPRECISE + tolerance;
            let same = line.port == pair.client.port && line.uri == uri && then.contains(&pair.ts);
            same && Some(line.method.as_str()) == text(pair, "method")
        };
        let mut lines: Vec<&mut Line> = self.0.iter_mut().filter(asked).collect();
        if lines.is_empty() {
            return Err("nobody asked that".to_owned());
        }
        let answered = |line: &&mut Line| {
            let head = line.sent - number(pair, "response_bytes").unwrap_or(line.sent);
            let slack = IMPRECISE + tolerance;
            let then = line.end - line.took - slack..=line.end + slack;
            let at_its_time = pair
                .response_time
                .is_none_or(|t| t >= 0 && then.contains(&(pair.ts + t)));
            !line.taken && line.status == status && (0..=HEAD_MAX).contains(&head) && at_its_time
        };
        let line = lines
            .iter_mut()
            .find(|line| answered(line))
            .ok_or("that was not the answer")?;
        line.taken = true;
        Ok(())
    }

    fn left(&self) -> usize {
        self.0.iter().filter(|line| !line.taken).count()
    }
}

fn check_live(capture: &str, log: &str, left: usize) {
    if let Some((capture, log)) = live(capture, log) {
        check(&capture, "http", left, || Nginx::read(&log, LIVE, '\t'));
    }
}

#[test]
fn keepalive() {
    check_live(
        "http_keepalive.pcap.gz",
        "http_keepalive.nginx-access.log",
        0,
    );
}

#[test]
fn pipelined() {
    check_live("http_pipelined.pcap", "http_pipelined.nginx-access.log", 0);
}

#[test]
fn short() {
    check_live("http_short.pcap", "http_short.nginx-access.log", 0);
}

#[test]
fn the_shop() {
    let (capture, log) = shop("nginx-access.log");
    check(&capture, "http", 0, || Nginx::read(&log, SHOP, ' '));
}
