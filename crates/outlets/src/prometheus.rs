//! A metrics page for Prometheus: last windows and sums of results, and the state of the run. Rows count as sent when
//! they are on the page; at the end it remains until one more scrape, within a time limit.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sinks::Vitals;

use crate::address::Address;
use crate::exposition::{Form, Page};
use crate::http::{self, Answer, Request};
use crate::queue::Item;
use crate::results::Results;
use crate::tally::Tally;
use crate::worker::{Body, Fault, Mapping, Message, Transport};

/// The page, shared by the writing thread and scrapes.
pub struct Board {
    state: Mutex<State>,
    scraped: Condvar,
    /// Row counters of every outlet.
    tallies: Vec<(String, Arc<Tally>)>,
}

struct State {
    results: Results,
    vitals: Vitals,
    /// Incremented whenever results are added to the page.
    version: u64,
    /// Newest version delivered by a scrape.
    scraped: u64,
}

impl Board {
    /// An empty page.
    pub fn new(series_max: usize, tallies: Vec<(String, Arc<Tally>)>) -> Arc<Board> {
        let state =
            State { results: Results::new(series_max), vitals: Vitals::default(), version: 0, scraped: 0 };
        Arc::new(Board { state: Mutex::new(state), scraped: Condvar::new(), tallies })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page and its version.
    fn scrape(&self, form: Form) -> (Vec<u8>, u64) {
        let state = self.lock();
        let mut page = Page::new(form);
        own(&state, &mut page);
        self.tallies.iter().for_each(|(to, tally)| health(to, tally, &mut page));
        page.results(state.results.series(), &[]);
        let version = state.version;
        drop(state);
        (page.write(), version)
    }

    /// Notes that a scrape has delivered this version.
    fn scraped(&self, version: u64) {
        let mut state = self.lock();
        state.scraped = state.scraped.max(version);
        drop(state);
        self.scraped.notify_all();
    }
}

/// Metrics of the run.
fn own(state: &State, page: &mut Page) {
    let Vitals { packets, bytes, lost_packets, unseen_bytes, flows, tuples, rows } = state.vitals;
    for (name, help, value) in [
        ("netalytics_packets_total", "packets looked at", packets),
        ("netalytics_packet_bytes_total", "their bytes on the wire", bytes),
        ("netalytics_lost_packets_total", "packets lost before they could be read", lost_packets),
        ("netalytics_unseen_bytes_total", "bytes that were acknowledged and not captured", unseen_bytes),
        ("netalytics_tuples_total", "tuples made of the packets", tuples),
        ("netalytics_rows_total", "rows of results", rows),
        ("netalytics_points_left_out_total", "points that are not on this page", state.results.left_out()),
    ] {
        page.counter(name, help, &[], value as f64);
    }
    page.gauge("netalytics_flows", "flows in the table", &[], flows as f64);
    let series = state.results.series().count();
    page.gauge("netalytics_series", "series of results on this page", &[], series as f64);
}

/// Metrics of an outlet's rows.
fn health(to: &str, tally: &Tally, page: &mut Page) {
    let delivered = tally.so_far(to.to_owned());
    let made = delivered.rows as f64;
    page.counter("netalytics_outlet_rows_total", "rows made for other programs", &[("to", to)], made);
    let sent = delivered.sent as f64;
    page.counter("netalytics_outlet_sent_rows_total", "rows that were taken there", &[("to", to)], sent);
    for (cause, rows) in &delivered.lost {
        let labels = [("cause", *cause), ("to", to)];
        let help = "rows that were lost, by cause";
        page.counter("netalytics_outlet_lost_rows_total", help, &labels, *rows as f64);
    }
}

/// Adds results to the page.
pub struct Posting {
    board: Arc<Board>,
    number: u64,
}

impl Posting {
    /// Adds to this page.
    pub fn new(board: Arc<Board>) -> Posting {
        Posting { board, number: 0 }
    }

    fn post(&mut self, act: impl FnOnce(&mut Results) -> u64, out: &mut Vec<Message>) {
        let mut state = self.board.lock();
        let rows = act(&mut state.results);
        if rows > 0 {
            state.version += 1;
            self.number += 1;
            out.push(Message { body: Body::Posted, rows, number: self.number });
        }
    }
}

impl Mapping for Posting {
    fn take(&mut self, item: Item, out: &mut Vec<Message>) {
        match item {
            Item::Vitals(vitals) => self.board.lock().vitals = vitals,
            item => self.post(|results| results.take(item), out),
        }
    }

    fn finish(&mut self, out: &mut Vec<Message>) {
        self.post(Results::finish, out);
    }

    fn left_out(&self) -> u64 {
        self.board.lock().results.left_out()
    }
}

/// Serves scrapes.
pub struct Scrapes {
    board: Arc<Board>,
    listener: Option<http::Listener>,
    path: String,
    running: Option<http::Running>,
}

impl Scrapes {
    /// Listens on this address.
    ///
    /// # Errors
    /// A message, if that fails.
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

fn answer(board: &Arc<Board>, path: &str, request: &Request) -> Answer {
    match (request.method.as_str(), request.path == path) {
        ("GET", true) => {
            let form = Form::wanted(&request.accept);
            let (body, version) = board.scrape(form);
            let board = board.clone();
            let when_sent = Box::new(move || board.scraped(version));
            Answer { status: "200 OK", content_type: form.content_type(), body, when_sent: Some(when_sent) }
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
        let mut state = self.board.lock();
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
