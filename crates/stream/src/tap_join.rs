//! Joins requests reported by two taps, as the reports arrive: by the endpoints of the connection, the sequence
//! number of the first byte, and the position among requests with the same key. Durations are subtracted, never
//! timestamps; clocks only determine the waiting time of requests of the client's tap.
//!
//! The result depends only on event time: a request is emitted, joined or not, when all taps have advanced past its
//! end by the patience. The emitted rows are thus determined by one number ([`TapJoin::through_ns`]), from which
//! another joiner continues if it receives the same rows again. Requests beyond the memory limit do not wait and are
//! counted.

use std::collections::{BTreeMap, HashMap, VecDeque};

use tuple::{Batch, TapEnd, common};

use crate::ops::take::take;
use crate::rows::RowSet;
use crate::server_tap::{ServerResponseTime, TapCounts, TapRequest, TapRequestColumns};
use crate::time_order::in_time_order;

/// Approximate memory per request.
const REQUEST_BYTES: usize = 320;

/// Whether rows are new or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapRowsStatus {
    /// New rows; late ones are emitted, too.
    New,
    /// Rows already processed by an earlier joiner, which has emitted those due.
    Again,
}

/// A join of the requests of two taps.
#[derive(Debug)]
pub struct TapJoin {
    patience_ns: i64,
    bytes_max: usize,
    through_ns: i64,
    /// Server requests that ended before this time and had no counterpart were counted by an earlier joiner.
    counted_ns: i64,
    counts: TapCounts,
    requests: HashMap<TapRequest, TapPair>,
    /// The entries of `requests` by end time.
    ends: BTreeMap<(i64, u64), TapRequest>,
    /// Waiting rows of the client's tap, in order of arrival.
    held: BTreeMap<u64, HeldTapRows>,
    held_bytes: usize,
    /// Number of the next batch or request.
    number: u64,
}

/// The observations of a request, or of several with the same key. At least one of the two queues is empty.
#[derive(Debug, Default)]
struct TapPair {
    client: VecDeque<ClientTapRequest>,
    /// End time and response time at the server's tap.
    server: VecDeque<(i64, Option<i64>)>,
}

/// A request of the client's tap without a report of the server's tap.
#[derive(Debug)]
struct ClientTapRequest {
    end_ns: i64,
    state: TapMatchState,
}

#[derive(Debug, PartialEq, Eq)]
enum TapMatchState {
    /// Waiting for the other tap: batch and row of the tuple.
    Waiting(u64, usize),
    /// Emitted without a join.
    Told,
    /// Emitted by an earlier joiner, joined or not.
    Before,
}

/// Rows of the client's tap.
#[derive(Debug)]
struct HeldTapRows {
    batch: Batch,
    bytes: usize,
    ends_ns: Vec<i64>,
    found: Vec<ServerResponseTime>,
    /// Rows not yet emitted.
    left: Vec<u32>,
}

impl TapJoin {
    /// Creates a joiner that waits until all taps have advanced by `patience_ns`, with a memory limit of `bytes_max`.
    #[must_use]
    pub fn new(patience_ns: i64, bytes_max: usize) -> TapJoin {
        TapJoin {
            patience_ns,
            bytes_max,
            through_ns: i64::MIN,
            counted_ns: i64::MIN,
            counts: TapCounts::default(),
            requests: HashMap::new(),
            ends: BTreeMap::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            number: 0,
        }
    }

    /// Continues from a joiner that had emitted all rows before `through_ns`, with its counts.
    #[must_use]
    pub fn begin_at(self, through_ns: i64, counts: TapCounts) -> TapJoin {
        let counted_ns = through_ns.saturating_sub(self.patience_ns);
        TapJoin {
            through_ns,
            counted_ns,
            counts,
            ..self
        }
    }

    /// All rows that ended before this time are emitted.
    #[must_use]
    pub fn through_ns(&self) -> i64 {
        self.through_ns
    }

    /// Rows that ended before this time need not be sent again, including rows of the server's tap that another joiner
    /// would need.
    #[must_use]
    pub fn over_ns(&self) -> i64 {
        self.forgotten_ns().saturating_sub(self.patience_ns)
    }

    /// Entries that ended before this time are no longer needed.
    fn forgotten_ns(&self) -> i64 {
        self.through_ns.saturating_sub(self.patience_ns)
    }

    /// Number of requests by tap, for completed requests.
    #[must_use]
    pub fn counts(&self) -> TapCounts {
        self.counts
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held_bytes + self.ends.len() * REQUEST_BYTES
    }

    /// The end of the earliest waiting row, by the clock of its tap.
    #[must_use]
    pub fn earliest_ns(&self) -> Option<i64> {
        let times = |held: &HeldTapRows| {
            let ends = held.batch.i64(common::TS_END).values().clone();
            held.left.iter().map(move |row| ends[*row as usize]).min()
        };
        self.held.values().filter_map(times).min()
    }

    /// Processes rows of a tap with a clock that is ahead of the others by `ahead_ns`. Each row names its tap.
    pub fn take(&mut self, batch: &Batch, ahead_ns: i64, taken: TapRowsStatus) {
        let Some(columns) = TapRequestColumns::of(batch) else {
            return;
        };
        if batch.column(common::TS_END).is_none() || batch.column(columns.taps.seen).is_none() {
            return;
        }
        let seen = batch.text(columns.taps.seen);
        let ends = batch.i64(common::TS_END).values().clone();
        let end_ns = |row: usize| ends[row].saturating_sub(ahead_ns);
        let mut clients = Vec::new();
        for row in 0..batch.rows() {
            if seen.value(row) != TapEnd::Server.word() {
                clients.push(row as u32);
            } else if let Some(request) = columns.request(row) {
                self.take_server(request, end_ns(row), columns.response_time(row), taken);
            }
        }
        if !clients.is_empty() {
            let of_clients = take(batch, RowSet::Some(&clients), |_| true);
            let ends_ns = clients.iter().map(|row| end_ns(*row as usize)).collect();
            self.take_clients(of_clients, ends_ns, taken);
        }
    }

    fn take_server(
        &mut self,
        request: TapRequest,
        end_ns: i64,
        time: Option<i64>,
        taken: TapRowsStatus,
    ) {
        let is_late = end_ns < self.forgotten_ns();
        let has_room = self.bytes() < self.bytes_max;
        let asked = self
            .requests
            .get_mut(&request)
            .and_then(|sides| sides.client.pop_front());
        match (asked.map(|asked| asked.state), taken) {
            (Some(TapMatchState::Waiting(batch, row)), _) => {
                if let Some(held) = self.held.get_mut(&batch) {
                    held.found[row] = Some(time);
                }
            }
            (Some(TapMatchState::Before), _) => {}
            (Some(TapMatchState::Told), _) => self.counts.server_only += 1,
            (None, TapRowsStatus::New) if is_late => self.counts.server_only += 1,
            (None, _) if !has_room => self.counts.unkept += 1,
            (None, _) => {
                self.requests
                    .entry(request.clone())
                    .or_default()
                    .server
                    .push_back((end_ns, time));
                self.note(end_ns, request);
            }
        }
    }

    fn take_clients(&mut self, batch: Batch, ends_ns: Vec<i64>, taken: TapRowsStatus) {
        let Some(columns) = TapRequestColumns::of(&batch) else {
            return;
        };
        let number = self.next_number();
        let mut found = vec![None; batch.rows()];
        let mut left = Vec::new();
        for (row, &end_ns) in ends_ns.iter().enumerate() {
            let is_given = taken == TapRowsStatus::Again && end_ns < self.through_ns;
            if !is_given {
                left.push(row as u32);
            }
            let Some(request) = columns.request(row) else {
                continue;
            };
            let sides = self.requests.entry(request.clone()).or_default();
            match sides.server.pop_front() {
                Some((_, time)) => found[row] = Some(time),
                None => {
                    let state = if is_given {
                        TapMatchState::Before
                    } else {
                        TapMatchState::Waiting(number, row)
                    };
                    sides.client.push_back(ClientTapRequest { end_ns, state });
                    self.note(end_ns, request);
                }
            }
        }
        if !left.is_empty() {
            let bytes = batch.bytes();
            self.held_bytes += bytes;
            self.held.insert(
                number,
                HeldTapRows {
                    batch,
                    bytes,
                    ends_ns,
                    found,
                    left,
                },
            );
        }
    }

    /// Records the end of a request that waits for the other tap.
    fn note(&mut self, end_ns: i64, request: TapRequest) {
        let number = self.next_number();
        self.ends.insert((end_ns, number), request);
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Advances event time to `watermark_ns`, reached by all taps, and emits the rows that are due, in order.
    pub fn advance(&mut self, watermark_ns: i64, out: &mut dyn FnMut(Batch)) {
        let due = watermark_ns
            .saturating_sub(self.patience_ns)
            .max(self.through_ns);
        self.give(due, due.max(self.crowded_ns()), out);
    }

    /// Ends the input and emits all rows.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        self.give(i64::MAX, i64::MAX, out);
    }

    /// The time up to which rows must be emitted early to reduce memory to half of the limit.
    fn crowded_ns(&self) -> i64 {
        let mut bytes = self.bytes();
        let mut through_ns = i64::MIN;
        if bytes <= self.bytes_max {
            return through_ns;
        }
        for held in self.held.values() {
            if bytes <= self.bytes_max / 2 {
                break;
            }
            bytes = bytes.saturating_sub(held.bytes + held.left.len() * REQUEST_BYTES);
            let last = held
                .left
                .iter()
                .map(|row| held.ends_ns[*row as usize])
                .max();
            through_ns = through_ns.max(last.map_or(i64::MIN, |ns| ns.saturating_add(1)));
        }
        through_ns
    }

    /// Emits rows that ended before `through_ns`; those that ended at or after `due_ns` are early.
    fn give(&mut self, due_ns: i64, through_ns: i64, out: &mut dyn FnMut(Batch)) {
        let mut given = Vec::new();
        let Self {
            held,
            requests,
            counts,
            ..
        } = self;
        for (number, of) in held.iter_mut() {
            let (now, later): (Vec<u32>, Vec<u32>) = of
                .left
                .iter()
                .partition(|row| of.ends_ns[**row as usize] < through_ns);
            if now.is_empty() {
                continue;
            }
            of.left = later;
            for row in now.iter().map(|row| *row as usize) {
                match of.found[row] {
                    Some(_) => counts.joined += 1,
                    None => {
                        counts.client_only += 1;
                        counts.unkept += u64::from(of.ends_ns[row] >= due_ns);
                        tell(requests, &of.batch, *number, row);
                    }
                }
            }
            let found: Vec<ServerResponseTime> =
                now.iter().map(|row| of.found[*row as usize]).collect();
            let rows = take(&of.batch, RowSet::Some(&now), |_| true);
            given.extend(TapRequestColumns::of(&rows).map(|columns| columns.complete(&found)));
        }
        let is_over = |_: &u64, of: &mut HeldTapRows| of.left.is_empty();
        self.held_bytes -= self
            .held
            .extract_if(.., is_over)
            .map(|(_, of)| of.bytes)
            .sum::<usize>();
        self.through_ns = self.through_ns.max(through_ns);
        self.forget();
        in_time_order(given, out);
    }

    /// Drops requests that can have no counterpart.
    fn forget(&mut self) {
        let forgotten_ns = if self.through_ns == i64::MAX {
            i64::MAX
        } else {
            self.forgotten_ns()
        };
        while let Some(entry) = self
            .ends
            .first_entry()
            .filter(|entry| entry.key().0 < forgotten_ns)
        {
            let request = entry.remove();
            let Some(sides) = self.requests.get_mut(&request) else {
                continue;
            };
            while let Some((end_ns, _)) = sides
                .server
                .pop_front_if(|(end_ns, _)| *end_ns < forgotten_ns)
            {
                self.counts.server_only += u64::from(end_ns >= self.counted_ns);
            }
            while sides
                .client
                .pop_front_if(|client| client.end_ns < forgotten_ns)
                .is_some()
            {}
            if sides.server.is_empty() && sides.client.is_empty() {
                self.requests.remove(&request);
            }
        }
    }
}

/// Marks a waiting row as emitted without a join.
fn tell(requests: &mut HashMap<TapRequest, TapPair>, batch: &Batch, number: u64, row: usize) {
    let request = TapRequestColumns::of(batch).and_then(|columns| columns.request(row));
    let sides = request.and_then(|request| requests.get_mut(&request));
    let waiting =
        |client: &&mut ClientTapRequest| client.state == TapMatchState::Waiting(number, row);
    if let Some(client) = sides.and_then(|sides| sides.client.iter_mut().find(waiting)) {
        client.state = TapMatchState::Told;
    }
}

#[cfg(test)]
mod tests;
