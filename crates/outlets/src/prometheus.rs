//! A page of metrics that Prometheus scrapes: results' last windows and sums, and how the run goes. Rows count as sent when they are on the
//! page; at the end it stays until it was scraped once more, as long as there is time.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::address::Address;
use crate::exposition::{self, Form, Health, Page};
use crate::http::{self, Answer, Request};
use crate::points::{Points, points};
use crate::queue::Item;
use crate::series::Series;
use crate::tally::Tally;
use crate::windows::{Window, Windows};
use crate::worker::{Body, Fault, Mapping, Message, Transport};

/// The page, for the thread that writes it and those that read it.
pub struct Board {
    state: Mutex<State>,
    scraped: Condvar,
    /// What becomes of the rows of every outlet.
    tallies: Vec<(String, Arc<Tally>)>,
}

struct State {
    page: Page,
    /// Counts up whenever results come onto the page.
    version: u64,
    /// The newest that a scrape has got.
    scraped: u64,
}

impl Board {
    /// An empty page.
    pub fn new(series_max: usize, tallies: Vec<(String, Arc<Tally>)>) -> Arc<Board> {
        let page =
            Page { series: Series::new(series_max), vitals: sinks::Vitals::default(), health: Vec::new() };
        let state = Mutex::new(State { page, version: 0, scraped: 0 });
        Arc::new(Board { state, scraped: Condvar::new(), tallies })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The page and its version.
    fn scrape(&self, form: Form) -> (Vec<u8>, u64) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut page, version) = (state.page.clone(), state.version);
        drop(state);
        page.health = self.tallies.iter().flat_map(|(to, tally)| health(to, tally)).collect();
        (exposition::write(&page, form), version)
    }

    /// A scrape has got this version.
    fn scraped(&self, version: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.scraped = state.scraped.max(version);
        drop(state);
        self.scraped.notify_all();
    }
}

/// What became of an outlet's rows.
fn health(to: &str, tally: &Tally) -> Vec<Health> {
    let delivered = tally.so_far(to.to_owned());
    let labels = |cause: Option<&str>| {
        let to = ("to".to_owned(), to.to_owned());
        cause.map(|cause| ("cause".to_owned(), cause.to_owned())).into_iter().chain([to]).collect()
    };
    let of = |name, help, labels, value| Health { name, help, labels, value };
    let made =
        of("netalytics_outlet_rows_total", "rows made for other programs", labels(None), delivered.rows);
    let sent =
        of("netalytics_outlet_sent_rows_total", "rows that were taken there", labels(None), delivered.sent);
    let lost = delivered.lost.iter().map(|(cause, rows)| {
        of("netalytics_outlet_lost_rows_total", "rows that were lost, by cause", labels(Some(cause)), *rows)
    });
    [made, sent].into_iter().chain(lost).collect()
}

/// Puts results on the page.
pub struct Posting {
    board: Arc<Board>,
    windows: Windows,
    /// How many windows each result had.
    seen: Vec<u64>,
    left_out: u64,
    number: u64,
}

impl Posting {
    /// On this board.
    pub fn new(board: Arc<Board>) -> Posting {
        Posting { board, windows: Windows::default(), seen: Vec::new(), left_out: 0, number: 0 }
    }

    fn post(&mut self, windows: Vec<Window>, out: &mut Vec<Message>) {
        for window in windows {
            let Some(head) = self.windows.head(window.result) else { continue };
            let mut found = Points::default();
            window.batches.iter().for_each(|batch| points(head, batch, &mut found));
            if self.seen.len() <= window.result {
                self.seen.resize(window.result + 1, 0);
            }
            let seen = &mut self.seen[window.result];
            *seen += 1;
            self.left_out += found.left_out;
            self.board.change(|state| {
                state.page.series.take(window.result, *seen, found.points);
                state.version += 1;
            });
            self.number += 1;
            out.push(Message { body: Body::Posted, rows: window.rows(), number: self.number });
        }
    }
}

impl Mapping for Posting {
    fn take(&mut self, item: Item, out: &mut Vec<Message>) {
        if let Item::Vitals(vitals) = item {
            return self.board.change(|state| state.page.vitals = vitals);
        }
        let windows = self.windows.take(item);
        self.post(windows, out);
    }

    fn finish(&mut self, out: &mut Vec<Message>) {
        let windows = self.windows.finish();
        self.post(windows, out);
    }

    fn left_out(&self) -> u64 {
        let state = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.left_out + state.page.series.left_out()
    }
}

/// Answers scrapes.
pub struct Scrapes {
    board: Arc<Board>,
    listener: Option<http::Listener>,
    path: String,
    running: Option<http::Running>,
}

impl Scrapes {
    /// Listens at this address.
    ///
    /// # Errors
    /// A sentence, where that cannot be.
    pub fn new(address: &Address, board: Arc<Board>) -> Result<Scrapes, String> {
        let at: Vec<_> = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(|error| error.to_string())?
            .collect();
        let listener = TcpListener::bind(at.as_slice()).map_err(|error| format!("cannot listen: {error}"))?;
        let path = match address.path.reveal() {
            "" | "/" => "/metrics".into(),
            path => path.to_owned(),
        };
        Ok(Scrapes { board, listener: Some(http::Listener::new(listener)), path, running: None })
    }
}

/// What Prometheus wants that reads native histograms.
const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

fn answer(board: &Arc<Board>, path: &str, request: &Request) -> Answer {
    match (request.method.as_str(), request.path == path) {
        ("GET", true) => {
            let accept = request.accept.to_ascii_lowercase();
            let wants =
                accept.contains("application/vnd.google.protobuf") && accept.contains("encoding=delimited");
            let (form, content_type) = if wants { (Form::Protobuf, PROTOBUF) } else { (Form::Text, TEXT) };
            let (body, version) = board.scrape(form);
            let board = board.clone();
            let when_sent = Box::new(move || board.scraped(version));
            Answer { status: "200 OK", content_type, body, when_sent: Some(when_sent) }
        }
        ("GET", false) => Answer::text("404 Not Found", format!("metrics are at {path}\n")),
        _ => Answer::text("405 Method Not Allowed", "only GET\n".into()),
    }
}

impl Transport for Scrapes {
    fn begin(&mut self) -> std::io::Result<()> {
        let (board, path) = (self.board.clone(), self.path.clone());
        if let Some(listener) = self.listener.take() {
            self.running = Some(listener.start(move |request| answer(&board, &path, request))?);
        }
        Ok(())
    }

    fn send(&mut self, _: &Message, _: Duration) -> Result<(), Fault> {
        Ok(())
    }

    fn finish(&mut self, patience: Duration) -> Result<(), (u64, String)> {
        let until = Instant::now() + patience;
        let mut state = self.board.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.scraped < state.version {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err((0, "the last windows were not scraped any more".into()));
            }
            state = self.board.scraped.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.running = None;
        Ok(())
    }
}
