//! One client and one server: both byte streams cut into messages, requests paired with responses, tuples out.
//!
//! What a message looks like is told in `text.rs` and `binary.rs`, which response belongs to which request in
//! `pairing.rs`. Values are skipped by arithmetic; only a head that is split over segments is copied (bounded).

use flow::Place;
use wire::Timestamp;

use super::command::{Class, Command, Status};
use super::emit::{self, Outcome};
use super::pairing::Order;
use super::recognise::Search;
use super::waiting::{Marks, Request, Waiting};
use crate::resync::Resync;
use crate::{Direction, Output, Quality, Segment, Span};

/// How much earlier than its request a response may be captured: two directions of a mirrored link are not always in
/// order.
pub(super) const SKEW_NS: i64 = 1_000_000;
/// Most bytes of responses that wait for their requests to come.
const HELD_BYTES_MAX: usize = 64 * 1024;
/// Most pieces of them.
const HELD_MAX: usize = 1024;
/// Most keys of one response that no request asked for.
const STRAYS_MAX: usize = 1024;

/// Which protocol the connection speaks; its first byte tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Text,
    Binary,
}

/// Where one direction stands in its byte stream.
#[derive(Default)]
pub(super) struct Reader {
    /// The part of a head that has come.
    pub head: Vec<u8>,
    /// The head is longer than the limit; the rest of its line is not kept.
    pub cut: bool,
    /// When the message being read was on the wire.
    pub span: Option<Span>,
    /// Where it begins in what both sides say.
    pub place: Option<Place>,
    /// Bytes of a value still to pass over.
    pub skip: u64,
    /// Looking for the next plausible head.
    pub scanning: bool,
    resync: Resync,
}

impl Reader {
    fn reset(&mut self) {
        self.head.clear();
        self.resync = Resync::default();
        (self.cut, self.span, self.place, self.skip, self.scanning) = (false, None, None, 0, false);
    }
}

/// The response being read.
#[derive(Default)]
pub(super) struct Answer {
    /// There is one.
    pub active: bool,
    /// The serial number of its request.
    pub target: Option<u64>,
    /// The class of that request.
    pub class: Option<Class>,
    /// What the response itself says it answers (binary).
    pub command: Option<Command>,
    /// The number it repeats (binary).
    pub opaque: u32,
    /// It ends with the value being passed over.
    pub ends_with_value: bool,
    /// What is known of it.
    pub outcome: Option<Outcome>,
    /// The key that is most likely to come next.
    pub cursor: usize,
    /// Comparisons of keys left: bounds the work for keys in another order.
    pub budget: u32,
    strays: Vec<u8>,
    stray_ends: Vec<(usize, Option<u64>)>,
}

/// What the server said while nothing waited.
enum Held {
    Bytes(Timestamp, Vec<u8>, Option<Place>),
    Gap(Timestamp, u64),
}

/// Both directions.
#[derive(Default)]
pub struct Conversation {
    form: Form,
    pub(super) asked: Reader,
    pub(super) told: Reader,
    pub(super) waiting: Waiting,
    pub(super) answer: Answer,
    pub(super) order: Order,
    /// The outcome of the newest request, which is not complete yet.
    early: Option<Outcome>,
    /// Server bytes that came while nothing waited: their request may come a moment later.
    held: Vec<Held>,
    held_bytes: usize,
    /// Nothing is to be held: the requests will not come.
    unheld: bool,
    server_ended: bool,
    /// The server sends log lines until the end.
    pub(super) watching: bool,
}

impl Conversation {
    /// The next bytes of one direction.
    pub fn on_bytes(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        if self.form == Form::Unknown {
            self.begin_connection(bytes, out);
        }
        self.order.note(direction, ts);
        match direction {
            Direction::ClientToServer => {
                // What the server said before this is read first, but for what stands a moment too early in the
                // capture. What it said later has to wait: between them the client may have said more.
                if !self.held.is_empty() {
                    let place = out.place_of(bytes);
                    self.read_held(ts.plus(-SKEW_NS), out);
                    out.set_chunk(bytes, place);
                }
                self.read(direction, bytes, ts, out);
                if !self.held.is_empty() {
                    self.read_held(ts, out);
                }
            }
            Direction::ServerToClient => {
                let place = out.place_of(bytes);
                if self.order.lacks_start() && !self.begins_first_answer(place) {
                    self.lose(direction, out);
                }
                self.order.told_end = place.and_then(|place| place.behind(bytes.len() as u64));
                match () {
                    () if self.watching => {}
                    () if !self.held.is_empty() => self.hold(bytes, ts, out),
                    () => self.read(direction, bytes, ts, out),
                }
            }
        }
    }

    /// `len` bytes of one direction are missing; that showed at `ts`.
    pub fn on_gap(&mut self, direction: Direction, len: u64, ts: Timestamp, out: &mut Output<'_>) {
        if direction == Direction::ServerToClient && !self.held.is_empty() {
            return self.held.push(Held::Gap(ts, len));
        }
        self.pass_gap(direction, len, ts, out);
    }

    fn pass_gap(&mut self, direction: Direction, len: u64, ts: Timestamp, out: &mut Output<'_>) {
        let reader = self.reader(direction);
        let inside = reader.skip.min(len);
        reader.skip -= inside;
        let beyond = len - inside;
        if inside > 0 {
            self.mark_gap_in_value(direction, ts);
            let ends = self.reader(direction).skip == 0;
            self.value_passed(direction, Timestamp::MIN, ends, out);
        }
        if beyond > 0 && !(direction == Direction::ServerToClient && self.ends_in_gap(beyond, ts, out)) {
            self.lose(direction, out);
        }
    }

    /// One direction is complete.
    pub fn on_end(&mut self, direction: Direction) {
        self.server_ended |= direction == Direction::ServerToClient;
    }

    /// No more bytes will come: everything is written.
    pub fn close(&mut self, out: &mut Output<'_>) {
        self.release_held(out);
        if self.answer.active {
            self.finish_answer(false, out);
        }
        let certain = self.server_ended && !self.order.is_doubtful();
        while let Some(request) = self.waiting.get(0).copied() {
            if !request.marks.has(Marks::GONE) {
                let certain = certain && request.marks.has(Marks::COMPLETE);
                self.emit_without_answer(&request, certain, out);
            }
            self.waiting.pop_front();
        }
    }

    /// Whether nothing is under way: no request waits, no response is half read.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.answer.active && self.held.is_empty()
    }

    /// Whether nothing but responses has come.
    pub fn awaits_request(&self) -> bool {
        self.waiting.is_empty() && !self.answer.active && !self.held.is_empty()
    }

    /// Makes a closed conversation ready for another one; keeps its buffers.
    pub fn reset(&mut self) {
        self.form = Form::Unknown;
        self.asked.reset();
        self.told.reset();
        self.order = Order::default();
        self.early = None;
        (self.unheld, self.server_ended, self.watching) = (false, false, false);
    }

    fn begin_connection(&mut self, bytes: &[u8], out: &Output<'_>) {
        self.form = if matches!(bytes[0], 0x80 | 0x81) { Form::Binary } else { Form::Text };
        if out.flow.midstream {
            self.order.join_midway();
            self.asked.scanning = true;
            self.told.scanning = true;
        }
    }

    fn read(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        match self.form {
            Form::Binary => self.read_binary(direction, bytes, ts, out),
            _ => self.read_text(direction, bytes, ts, out),
        }
    }

    /// Looks for the next message; returns what is left of `bytes` from there on.
    #[cold]
    pub(super) fn search<'b>(
        &mut self,
        direction: Direction,
        bytes: &'b [u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> &'b [u8] {
        let mut resync = std::mem::take(&mut self.reader(direction).resync);
        let heads = Search { conversation: self, direction, is_binary: self.form == Form::Binary };
        let found =
            resync.find(&heads, Segment { bytes, ts, place: out.place_of(bytes).unwrap_or_default() }, out);
        self.reader(direction).resync = resync;
        let Some(found) = found else { return &[] };
        let began = found.ts;
        self.reader(direction).scanning = false;
        match direction {
            Direction::ServerToClient => self.order.find_responses(began),
            // What was passed over may be the end of a request.
            Direction::ClientToServer if found.skipped => self.order.lose_requests(),
            Direction::ClientToServer => {}
        }
        let unheld = std::mem::replace(&mut self.unheld, true);
        let place = out.place_of(bytes);
        let used = found.replay(|held| {
            out.set_chunk(held.bytes, Some(held.place));
            self.read(direction, held.bytes, held.ts, out);
        });
        out.set_chunk(bytes, place);
        self.unheld = unheld;
        &bytes[used..]
    }

    #[inline]
    pub(super) fn reader(&mut self, direction: Direction) -> &mut Reader {
        match direction {
            Direction::ClientToServer => &mut self.asked,
            Direction::ServerToClient => &mut self.told,
        }
    }

    /// Passes over the value at the start of `bytes`; returns what is behind it.
    #[inline]
    pub(super) fn skip_value<'b>(
        &mut self,
        direction: Direction,
        bytes: &'b [u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> &'b [u8] {
        let reader = self.reader(direction);
        let n = reader.skip.min(bytes.len() as u64);
        reader.skip -= n;
        let ends = reader.skip == 0;
        if let (Direction::ServerToClient, Some(outcome)) = (direction, &mut self.answer.outcome) {
            outcome.last_lost = false;
        } else if let (Direction::ClientToServer, Some(request)) = (direction, self.waiting.newest_mut()) {
            request.marks.clear(Marks::LAST_LOST);
        }
        self.value_passed(direction, ts, ends, out);
        &bytes[n as usize..]
    }

    #[inline]
    fn value_passed(&mut self, direction: Direction, ts: Timestamp, ends: bool, out: &mut Output<'_>) {
        match direction {
            Direction::ClientToServer if ends => self.end_request(ts, out),
            Direction::ClientToServer => {
                if let Some(request) = self.waiting.newest_mut() {
                    request.span.extend(ts);
                }
            }
            Direction::ServerToClient => {
                if let Some(outcome) = &mut self.answer.outcome {
                    outcome.span.extend(ts);
                }
                if ends && self.answer.ends_with_value {
                    self.finish_answer(true, out);
                }
            }
        }
    }

    fn mark_gap_in_value(&mut self, direction: Direction, ts: Timestamp) {
        match direction {
            Direction::ClientToServer => {
                if let Some(request) = self.waiting.newest_mut() {
                    request.marks.set(Marks::GAP_BODY);
                    request.marks.set(Marks::when(ts != request.span.last, Marks::LAST_LOST));
                }
            }
            Direction::ServerToClient => {
                if let Some(outcome) = &mut self.answer.outcome {
                    (outcome.gap_body, outcome.last_lost) = (true, ts != outcome.span.last);
                }
            }
        }
    }

    /// Bytes that may have held heads are missing: nothing is known of what was in them.
    pub(super) fn lose(&mut self, direction: Direction, out: &mut Output<'_>) {
        let reader = self.reader(direction);
        if !reader.scanning {
            out.counters.resyncs += 1;
        }
        out.counters.skipped_bytes += reader.head.len() as u64;
        reader.resync.start_anew(out);
        reader.reset();
        reader.scanning = true;
        match direction {
            Direction::ClientToServer => self.order.lose_requests(),
            Direction::ServerToClient => {
                if self.answer.active {
                    self.finish_answer(false, out);
                }
                self.order.lose_responses();
            }
        }
    }

    /// A new request. Its keys and then its value follow.
    #[inline]
    pub(super) fn begin_request(&mut self, mut request: Request, out: &mut Output<'_>) {
        while self.waiting.is_full() {
            self.evict(out);
        }
        request.marks.set(self.order.marks_of_next());
        request.place = self.asked.place;
        self.note_place(&mut request);
        self.waiting.push(request);
    }

    #[cold]
    fn evict(&mut self, out: &mut Output<'_>) {
        let Some(request) = self.waiting.get(0).copied() else { return };
        if !request.marks.has(Marks::GONE) {
            out.counters.evicted_requests += 1;
            self.emit_without_answer(&request, false, out);
        }
        self.waiting.pop_front();
    }

    /// A key of the newest request, or another text it keeps.
    #[inline]
    pub(super) fn keep_text(&mut self, text: &[u8], out: &mut Output<'_>) {
        if !self.waiting.push_text(text) {
            out.counters.oversized_heads += 1;
        }
    }

    /// The newest request is complete.
    #[inline]
    pub(super) fn end_request(&mut self, ts: Timestamp, out: &mut Output<'_>) {
        let Some(request) = self.waiting.newest_mut() else { return };
        request.span.extend(ts);
        request.marks.set(Marks::COMPLETE);
        if request.marks.has(Marks::SILENT) {
            let request = *request;
            let quality = if request.marks.has(Marks::GAP_BODY) { Quality::GapBody } else { Quality::Exact };
            emit::unanswered(&self.waiting, &request, Status::Unknown, quality, out);
            self.waiting.pop_newest();
            self.order.pass_on(request.marks);
        } else if request.marks.has(Marks::ANSWERED)
            && let Some(outcome) = self.early.take()
        {
            self.emit_pair(self.waiting.len() - 1, &outcome, out);
        }
    }

    /// The first line or head of a response that answers the request `target` has come.
    #[inline]
    pub(super) fn begin_answer(&mut self, target: Option<u64>, outcome: Outcome) {
        if target.is_none() {
            self.order.pass_over(outcome.span.first);
        }
        let request = target.and_then(|serial| self.waiting.place(serial)).and_then(|p| self.waiting.get(p));
        self.answer.class = request.map(|r| r.class);
        self.answer.budget = 1 << 16;
        self.answer.active = true;
        self.answer.target = target;
        self.answer.command = None;
        self.answer.ends_with_value = true;
        self.answer.outcome = Some(outcome);
        self.answer.cursor = 0;
    }

    /// The response names `key`, with the length of its value if there is one.
    #[inline]
    pub(super) fn value_came(&mut self, key: &[u8], bytes: Option<u64>) {
        let place = self.answer.target.and_then(|serial| self.waiting.place(serial));
        if let Some(place) = place
            && let Some(i) = self.find_key(place, key)
        {
            self.answer.cursor = i + 1;
            return self.waiting.found(place, i, bytes.unwrap_or(0));
        }
        if self.answer.stray_ends.len() < STRAYS_MAX {
            self.answer.strays.extend_from_slice(&key[..key.len().min(250)]);
            self.answer.stray_ends.push((self.answer.strays.len(), bytes));
        }
    }

    /// Which of the keys asked for this is. Servers answer in the order asked, proxies in any.
    fn find_key(&mut self, place: usize, key: &[u8]) -> Option<usize> {
        let request = self.waiting.get(place)?;
        let n = request.keys();
        for step in 0..n {
            let i = self.answer.cursor + step;
            let i = if i < n { i } else { i - n };
            self.answer.budget = self.answer.budget.checked_sub(1)?;
            let (asked, found) = self.waiting.key(request, i);
            if found.is_none() && asked == key {
                return Some(i);
            }
        }
        None
    }

    /// The response being read ends here (or, if not `ended`, what is left of it will not be seen).
    pub(super) fn finish_answer(&mut self, ended: bool, out: &mut Output<'_>) {
        self.answer.active = false;
        let Some(mut outcome) = self.answer.outcome.take() else { return };
        outcome.ended = ended;
        if !ended {
            outcome.gap_body = true;
        }
        let strays = self.emit_strays(&outcome, out);
        let place = self.answer.target.take().and_then(|serial| self.waiting.place(serial));
        let Some((place, request)) = place.and_then(|p| Some((p, *self.waiting.get(p)?))) else {
            if !strays {
                self.emit_unasked(&outcome, out);
            }
            return;
        };
        self.watching |= request.class == Class::Watch && outcome.status == Status::Ok;
        self.order.note_pair(&request, &outcome, self.waiting.get(place + 1));
        if request.marks.has(Marks::COMPLETE) {
            self.emit_pair(place, &outcome, out);
        } else if let Some(request) = self.waiting.get_mut(place) {
            request.marks.set(Marks::ANSWERED);
            self.early = Some(outcome);
        }
    }

    fn emit_pair(&mut self, place: usize, outcome: &Outcome, out: &mut Output<'_>) {
        let Some(request) = self.waiting.get(place).copied() else { return };
        let quality = self.order.quality_of_pair(outcome.gap_body || request.marks.has(Marks::GAP_BODY));
        emit::answered(&self.waiting, &request, outcome, quality, out);
        self.waiting.remove(place);
    }

    /// Values that came without being asked for, as far as was seen.
    #[inline]
    fn emit_strays(&mut self, outcome: &Outcome, out: &mut Output<'_>) -> bool {
        let any = !self.answer.stray_ends.is_empty();
        if any {
            self.emit_each_stray(outcome, out);
        }
        any
    }

    #[cold]
    fn emit_each_stray(&mut self, outcome: &Outcome, out: &mut Output<'_>) {
        let mut start = 0;
        let command = self.answer.command.unwrap_or(Command::Unseen);
        for &(end, bytes) in &self.answer.stray_ends {
            let status = if self.answer.command.is_some() { outcome.status } else { Status::Hit };
            let outcome = Outcome { status, value_bytes: bytes, ..*outcome };
            emit::unasked(self.answer.strays.get(start..end), &outcome, out, command);
            start = end;
        }
        self.answer.strays.clear();
        self.answer.stray_ends.clear();
    }

    fn emit_unasked(&mut self, outcome: &Outcome, out: &mut Output<'_>) {
        emit::unasked(None, outcome, out, self.answer.command.unwrap_or(Command::Unseen));
    }

    /// A request that gets no answer any more. `certain`: had there been one, it would have been seen.
    pub(super) fn emit_without_answer(&mut self, request: &Request, certain: bool, out: &mut Output<'_>) {
        if let Some(outcome) = self.early.take_if(|_| request.marks.has(Marks::ANSWERED)) {
            let quality = self.order.quality_of_pair(true);
            return emit::answered(&self.waiting, request, &outcome, quality, out);
        }
        let hushed = certain && request.marks.has(Marks::QUIET) && !request.marks.has(Marks::UNCERTAIN);
        let (status, quality) = match hushed {
            true if request.marks.has(Marks::GAP_BODY) => (request.command.silence(), Quality::GapBody),
            true => (request.command.silence(), Quality::Exact),
            false => (Status::Unknown, Quality::Half),
        };
        emit::unanswered(&self.waiting, request, status, quality, out);
    }

    /// Whether a response that begins now should wait for its request: captured in the wrong order, it may be a
    /// moment late.
    #[inline]
    pub(super) fn must_hold(&self) -> bool {
        !self.answer.active
            && !self.unheld
            && !self.told.scanning
            && self.told.head.is_empty()
            && !self.may_pair()
    }

    /// Whether any request waits that a response to come may answer.
    #[inline]
    fn may_pair(&self) -> bool {
        self.waiting.newest_answerable().is_some_and(|r| self.order.is_candidate(r))
    }

    pub(super) fn hold(&mut self, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        self.held_bytes += bytes.len();
        self.held.push(Held::Bytes(ts, bytes.to_vec(), out.place_of(bytes)));
        if self.held_bytes > HELD_BYTES_MAX || self.held.len() > HELD_MAX {
            // Their requests may still come; they must not get the responses to later ones.
            self.order.distrust(ts);
            self.release_held(out);
        }
    }

    /// Reads what is held; nobody is waited for any more.
    fn release_held(&mut self, out: &mut Output<'_>) {
        self.unheld = true;
        self.read_held(Timestamp::MAX, out);
        self.unheld = false;
    }

    /// Reads what is held from up to `until`.
    #[cold]
    fn read_held(&mut self, until: Timestamp, out: &mut Output<'_>) {
        self.held_bytes = 0;
        for item in std::mem::take(&mut self.held) {
            match item {
                Held::Bytes(ts, bytes, place) if self.held.is_empty() && ts <= until => {
                    out.set_chunk(&bytes, place);
                    self.read(Direction::ServerToClient, &bytes, ts, out);
                }
                Held::Bytes(ts, bytes, place) => {
                    out.set_chunk(&bytes, place);
                    self.hold(&bytes, ts, out);
                }
                Held::Gap(ts, len) if self.held.is_empty() => {
                    self.pass_gap(Direction::ServerToClient, len, ts, out);
                }
                gap => self.held.push(gap),
            }
        }
    }
}
