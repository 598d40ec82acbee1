//! A metrics page for Prometheus: last windows and sums of results, and the state of the run. Rows count as sent when
//! they are on the page; at the end it remains until one more scrape, within a time limit.

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sinks::RunVitals;

use crate::address::OutletAddress;
use crate::counters::OutletCounters;
use crate::exposition::{ExpositionFormat, MetricsPage};
use crate::http::{self, ScrapeRequest, ScrapeResponse};
use crate::queue::OutletItem;
use crate::results::ScrapedResults;
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport, RowMapping};

/// The page, shared by the writing thread and scrapes.
pub struct MetricsBoard {
    state: Mutex<BoardState>,
    scraped: Condvar,
    /// Row counters of every outlet.
    tallies: Vec<(String, Arc<OutletCounters>)>,
}

struct BoardState {
    results: ScrapedResults,
    vitals: RunVitals,
    /// Incremented whenever results are added to the page.
    version: u64,
    /// Newest version delivered by a scrape.
    scraped: u64,
}

impl MetricsBoard {
    /// An empty page.
    pub fn new(
        series_max: usize,
        tallies: Vec<(String, Arc<OutletCounters>)>,
    ) -> Arc<MetricsBoard> {
        let state = BoardState {
            results: ScrapedResults::new(series_max),
            vitals: RunVitals::default(),
            version: 0,
            scraped: 0,
        };
        Arc::new(MetricsBoard {
            state: Mutex::new(state),
            scraped: Condvar::new(),
            tallies,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page and its version.
    fn scrape(&self, form: ExpositionFormat) -> (Vec<u8>, u64) {
        let state = self.lock();
        let mut page = MetricsPage::new(form);
        own(&state, &mut page);
        self.tallies
            .iter()
            .for_each(|(to, tally)| health(to, tally, &mut page));
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
fn own(state: &BoardState, page: &mut MetricsPage) {
    let RunVitals {
        packets,
        bytes,
        lost_packets,
        unseen_bytes,
        flows,
        tuples,
        rows,
    } = state.vitals;
    for (name, help, value) in [
        ("netalytics_packets_total", "packets read", packets),
        (
            "netalytics_packet_bytes_total",
            "bytes of these packets on the wire",
            bytes,
        ),
        (
            "netalytics_lost_packets_total",
            "packets lost before they could be read",
            lost_packets,
        ),
        (
            "netalytics_unseen_bytes_total",
            "bytes acknowledged but not captured",
            unseen_bytes,
        ),
        ("netalytics_tuples_total", "tuples produced", tuples),
        ("netalytics_rows_total", "rows of results", rows),
        (
            "netalytics_points_left_out_total",
            "points omitted from this page",
            state.results.left_out(),
        ),
    ] {
        page.counter(name, help, &[], value as f64);
    }
    page.gauge("netalytics_flows", "flows in the table", &[], flows as f64);
    let series = state.results.series().count();
    page.gauge(
        "netalytics_series",
        "series of results on this page",
        &[],
        series as f64,
    );
}

/// Metrics of an outlet's rows.
fn health(to: &str, tally: &OutletCounters, page: &mut MetricsPage) {
    let delivered = tally.so_far(to.to_owned());
    let made = delivered.rows as f64;
    page.counter(
        "netalytics_outlet_rows_total",
        "rows passed to the outlet",
        &[("to", to)],
        made,
    );
    let sent = delivered.sent as f64;
    page.counter(
        "netalytics_outlet_sent_rows_total",
        "rows delivered",
        &[("to", to)],
        sent,
    );
    for (cause, rows) in &delivered.lost {
        let labels = [("cause", *cause), ("to", to)];
        let help = "rows lost, by cause";
        page.counter(
            "netalytics_outlet_lost_rows_total",
            help,
            &labels,
            *rows as f64,
        );
    }
}

/// Adds results to the page.
pub struct BoardMapping {
    board: Arc<MetricsBoard>,
    number: u64,
}

impl BoardMapping {
    /// Adds to this page.
    pub fn new(board: Arc<MetricsBoard>) -> BoardMapping {
        BoardMapping { board, number: 0 }
    }

    fn post(&mut self, act: impl FnOnce(&mut ScrapedResults) -> u64, out: &mut Vec<OutletMessage>) {
        let mut state = self.board.lock();
        let rows = act(&mut state.results);
        if rows > 0 {
            state.version += 1;
            self.number += 1;
            out.push(OutletMessage {
                body: MessageBody::Posted,
                rows,
                number: self.number,
            });
        }
    }
}

impl RowMapping for BoardMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        match item {
            OutletItem::Vitals(vitals) => self.board.lock().vitals = vitals,
            item => self.post(|results| results.take(item), out),
        }
    }

    fn finish(&mut self, out: &mut Vec<OutletMessage>) {
        self.post(ScrapedResults::finish, out);
    }

    fn left_out(&self) -> u64 {
        self.board.lock().results.left_out()
    }
}

/// Serves scrapes.
pub struct ScrapeTransport {
    board: Arc<MetricsBoard>,
    listener: Option<http::ScrapeListener>,
    path: String,
    running: Option<http::ScrapeServer>,
}

impl ScrapeTransport {
    /// Listens on this address.
    ///
    /// # Errors
    /// A message, if that fails.
    pub fn new(
        address: &OutletAddress,
        board: Arc<MetricsBoard>,
    ) -> Result<ScrapeTransport, String> {
        let at: Vec<_> = (address.host.as_str(), address.port)
            .to_socket_addrs()
            .map_err(|error| error.to_string())?
            .collect();
        let listener =
            TcpListener::bind(at.as_slice()).map_err(|error| format!("cannot listen: {error}"))?;
        // A request's query is ignored, and so is that of the address.
        let path = match address.path.reveal().split('?').next() {
            None | Some("" | "/") => "/metrics".into(),
            Some(path) => path.to_owned(),
        };
        Ok(ScrapeTransport {
            board,
            listener: Some(http::ScrapeListener::new(listener)),
            path,
            running: None,
        })
    }
}

fn answer(board: &Arc<MetricsBoard>, path: &str, request: &ScrapeRequest) -> ScrapeResponse {
    match (request.method.as_str(), request.path == path) {
        ("GET", true) => {
            let form = ExpositionFormat::wanted(&request.accept);
            let (body, version) = board.scrape(form);
            let board = board.clone();
            let when_sent = Box::new(move || board.scraped(version));
            ScrapeResponse {
                status: "200 OK",
                content_type: form.content_type(),
                body,
                when_sent: Some(when_sent),
            }
        }
        ("GET", false) => ScrapeResponse::text("404 Not Found", format!("metrics are at {path}\n")),
        _ => ScrapeResponse::text("405 Method Not Allowed", "only GET\n".into()),
    }
}

impl OutletTransport for ScrapeTransport {
    fn begin(&mut self) -> std::io::Result<()> {
        let board = self.board.clone();
        let path = self.path.clone();
        if let Some(listener) = self.listener.take() {
            self.running = Some(listener.start(move |request| answer(&board, &path, request))?);
        }
        Ok(())
    }

    fn send(&mut self, _: &OutletMessage, _: Duration) -> Result<(), DeliveryFault> {
        Ok(())
    }

    fn finish(&mut self, patience: Duration) -> Result<(), (u64, String)> {
        let until = Instant::now() + patience;
        let mut state = self.board.lock();
        while state.scraped < state.version {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err((0, "the last windows were not scraped before the end".into()));
            }
            state = self
                .board
                .scraped
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        drop(state);
        self.running = None;
        Ok(())
    }
}
