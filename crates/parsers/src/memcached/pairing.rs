//! Which request a response answers.
//!
//! While every byte of both directions is seen: the oldest request that waits (text), the oldest with the same opcode
//! and opaque (binary). Quiet commands before it were not answered, which says how they went.
//!
//! After missing bytes order proves nothing: a request or a response may be among them. A response then belongs to a
//! request only if that was the single one under way: the client has been seen to wait for each answer before it asks
//! again and never not to, or neither end had said anything for a second. Until then responses and requests are halves.
//! A client whose opaques only ever rise is exempt: they prove the pair.

use flow::Place;
use wire::{TcpSeq, Timestamp};

use super::command::{Command, Status};
use super::conversation::{Conversation, SKEW_NS};
use super::emit::Outcome;
use super::reply::{Fit, Kind, Reply};
use super::waiting::{Marks, Request, Waiting};
use crate::{Direction, Output, Quality, heard};

/// So many requests in a row, each sent after the previous answer, make a client that waits.
const TURNS_MIN: u32 = 3;
/// So many opaques that rise make a client that counts.
const OPAQUES_MIN: u8 = 4;
/// After this long without a word from either end nothing is under way.
const SILENCE_NS: i64 = 1_000_000_000;

/// What is known of the order of requests and responses.
pub(super) struct Order {
    /// The next response may belong to none of those that wait.
    doubt: bool,
    /// In doubt, only requests sent after this are candidates.
    since: Timestamp,
    /// Requests may be missing before the next one.
    gap: bool,
    /// The client has sent a request before the previous one was answered.
    pipelined: bool,
    /// It has sent one while only some of the earlier ones were answered.
    overlaps: bool,
    /// The connection was joined midway: that the client waits is supposed until it does not.
    joined: bool,
    /// How often it has sent one after, by pairs that are certain.
    turns: u32,
    /// How often in a row it has done so, as far as can be seen in doubt.
    turns_in_doubt: u32,
    /// When the last answer that was paired ended.
    answered: Timestamp,
    /// What made order doubtful.
    cause: Quality,
    /// What the next pair's tuple says of how it came about.
    quality: Option<Quality>,
    /// When either end last said something.
    heard: Timestamp,
    silence: bool,
    /// What the client had heard when it asked last.
    asked_after: Option<TcpSeq>,
    /// Where what the server has said ends, as far as it was seen.
    pub(super) told_end: Option<TcpSeq>,
    opaques: Opaques,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            doubt: false,
            since: Timestamp::MIN,
            gap: false,
            pipelined: false,
            overlaps: false,
            joined: false,
            turns: 0,
            turns_in_doubt: 0,
            answered: Timestamp::MIN,
            cause: Quality::Resync,
            quality: None,
            heard: Timestamp::MIN,
            silence: false,
            asked_after: None,
            told_end: None,
            opaques: Opaques::default(),
        }
    }
}

/// Whether a client numbers its requests: if the opaques rise, read in either byte order, none comes twice.
#[derive(Default)]
struct Opaques {
    last: Option<u32>,
    seen: u8,
    rises: bool,
    rises_swapped: bool,
}

impl Opaques {
    fn note(&mut self, opaque: u32) {
        match self.last.replace(opaque) {
            None => (self.rises, self.rises_swapped) = (true, true),
            Some(last) => {
                self.seen = self.seen.saturating_add(1);
                self.rises &= opaque > last;
                self.rises_swapped &= opaque.swap_bytes() > last.swap_bytes();
            }
        }
    }

    fn are_unique(&self) -> bool {
        self.seen >= OPAQUES_MIN && (self.rises || self.rises_swapped)
    }
}

impl Order {
    /// Bytes arrived.
    #[inline]
    pub fn note(&mut self, direction: Direction, ts: Timestamp) {
        if direction == Direction::ClientToServer {
            self.silence = self.heard != Timestamp::MIN && ts.since(self.heard) >= SILENCE_NS;
        }
        self.heard = self.heard.max(ts);
    }

    /// The connection was joined midway: its first response may answer a request that was not seen.
    pub fn join_midway(&mut self) {
        (self.doubt, self.joined) = (true, true);
        self.cause = Quality::Midstream;
    }

    /// Nothing is known of where the server's first bytes are in what it said.
    #[inline]
    pub fn lacks_start(&self) -> bool {
        self.joined && self.told_end.is_none()
    }

    /// Requests may be missing.
    pub fn lose_requests(&mut self) {
        self.gap = true;
    }

    /// Responses may be missing; which, will be known when the next one is found.
    pub fn lose_responses(&mut self) {
        self.doubt = true;
        self.since = Timestamp::MAX;
    }

    /// The responses are understood again from here on.
    pub fn find_responses(&mut self, ts: Timestamp) {
        if self.since == Timestamp::MAX {
            self.since = ts;
        }
    }

    /// A response that came at `ts` was not paired: it may have answered any request sent before, delivered or not.
    pub fn pass_over(&mut self, ts: Timestamp) {
        self.since = self.since.max(ts);
    }

    /// Whether the next response cannot be paired by order alone.
    #[inline]
    pub fn is_doubtful(&self) -> bool {
        self.doubt || self.gap
    }

    /// Whether a response that comes now or later may answer this request.
    #[inline]
    pub fn is_candidate(&self, request: &Request) -> bool {
        !self.doubt || request.span.first > self.since
    }

    /// What is to be remembered of a request that begins now.
    #[inline]
    pub fn marks_of_next(&mut self) -> Marks {
        Marks::when(std::mem::take(&mut self.gap), Marks::AFTER_GAP)
            | Marks::when(std::mem::take(&mut self.silence), Marks::AFTER_SILENCE)
    }

    /// A request that will not be answered is gone: what was before it is before the next one.
    #[inline]
    pub fn pass_on(&mut self, marks: Marks) {
        self.gap |= marks.has(Marks::AFTER_GAP);
        self.silence |= marks.has(Marks::AFTER_SILENCE);
    }

    /// A binary request's opaque.
    #[inline]
    pub fn note_opaque(&mut self, opaque: u32) {
        self.opaques.note(opaque);
    }

    /// The quality of a request with its response.
    #[inline]
    pub fn quality_of_pair(&mut self, gap_body: bool) -> Quality {
        self.quality.take().unwrap_or(if gap_body { Quality::GapBody } else { Quality::Exact })
    }

    /// A pair was found; `next` is the request behind it. Learns from it whether the client pipelines.
    pub fn note_pair(&mut self, request: &Request, outcome: &Outcome, next: Option<&Request>) {
        if !request.marks.has(Marks::QUIET) {
            if request.span.first < self.answered {
                self.pipelined = true;
            } else if self.answered != Timestamp::MIN && !self.doubt {
                self.turns = self.turns.saturating_add(1);
            }
            self.answered = self.answered.max(outcome.span.last);
        }
        if let Some(next) = next
            && !request.marks.has(Marks::QUIET)
            && !next.marks.has(Marks::SILENT)
        {
            let sent = next.span.first;
            self.pipelined |= sent < outcome.span.last || sent == request.span.first;
        }
        let refused = matches!(outcome.status, Status::Error | Status::ClientError | Status::ServerError);
        if refused && request.marks.has(Marks::SUSPECT) {
            // Old servers take the value for commands and answer each line of it, new ones swallow it.
            self.distrust(outcome.span.last);
        }
    }

    /// From here on order proves nothing; only requests sent later than `ts` can be paired again.
    pub fn distrust(&mut self, ts: Timestamp) {
        self.doubt = true;
        self.since = ts;
    }

    /// Whether the client is known to wait for each answer before it asks again; `n` requests are under way, as far as
    /// is known.
    fn client_waits(&mut self, n: u32) -> bool {
        let turns = if self.joined { TURNS_MIN } else { self.turns.max(self.turns_in_doubt) };
        self.turns_in_doubt = if n == 1 { self.turns_in_doubt.saturating_add(1) } else { 0 };
        !self.pipelined && !self.overlaps && turns >= TURNS_MIN
    }

    /// A pair was found although order proved nothing: from here on it does again.
    fn trust(&mut self) {
        self.doubt = false;
        self.quality = Some(std::mem::replace(&mut self.cause, Quality::Resync));
    }
}

/// Where the request of a text reply is, if nothing is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InOrder {
    At(usize),
    /// None waits that was sent before the reply.
    Nowhere,
    /// Several quiet commands could have caused it.
    Several,
    /// The one that must be answered next cannot get such a reply.
    Mismatch,
    /// Requests may be missing before the next one.
    BehindGap,
}

impl Conversation {
    /// The request that a text reply, whose first byte came at `first`, answers.
    #[inline]
    pub(super) fn attribute_reply(
        &mut self,
        reply: &Reply<'_>,
        first: Timestamp,
        out: &mut Output<'_>,
    ) -> Option<u64> {
        if !self.order.doubt {
            match self.find_in_order(reply, first) {
                InOrder::At(place) => return Some(self.settle_before(place, out)),
                InOrder::Nowhere => return None,
                InOrder::Several => self.mark_uncertain(reply),
                InOrder::Mismatch => {
                    out.counters.malformed_messages += 1;
                    self.order.distrust(first);
                }
                InOrder::BehindGap => self.order.doubt = true,
            }
        }
        let fits = |w: &Waiting, r: &Request| fit(w, r, reply) != Fit::No && may_have_asked_for(w, r, reply);
        if self.order.doubt { self.recover(first, fits, out) } else { None }
    }

    /// Notes whether the client had heard anything since the request before `request`, which it sends now.
    pub(super) fn note_place(&mut self, request: &mut Request) {
        if request.marks.has(Marks::SILENT) {
            return;
        }
        let heard = request.place.and_then(|place| place.ack);
        let again = heard.is_some() && heard == std::mem::replace(&mut self.order.asked_after, heard);
        request.marks.set(Marks::when(again, Marks::PIPELINED));
        let before = self.waiting.newest_answerable().is_some_and(|r| !r.marks.has(Marks::QUIET));
        self.order.pipelined |= again && before;
        // What it had heard may be missing.
        let all_seen = heard.is_some() && heard == self.order.told_end;
        self.order.overlaps |= !again && before && all_seen && !self.order.is_doubtful();
    }

    /// Whether an answer can begin where the server is: where the client has heard everything before. For all that is
    /// known, if that is not known.
    #[inline]
    pub(super) fn may_begin_answer(&self, told: Option<Place>) -> bool {
        let Some(told) = told else { return true };
        self.waiting.iter().any(|r| r.place.is_some_and(|asked| heard::fit(asked, told) == heard::Fit::Next))
    }

    /// Whether the server's bytes at `told` are what the client heard first after its oldest request.
    pub(super) fn begins_first_answer(&self, told: Option<Place>) -> bool {
        let asked = self.waiting.get(0).and_then(|r| r.place);
        asked.zip(told).is_none_or(|(asked, told)| heard::fit(asked, told) == heard::Fit::Next)
    }

    /// The request whose sender heard the answer at hand next, if it is known to wait for everything before.
    fn heard_next(&self) -> Option<usize> {
        let told = self.told.place?;
        let none = Marks::SILENT | Marks::QUIET | Marks::GONE | Marks::ANSWERED;
        let next = self.waiting.iter().position(|r| {
            !r.marks.has(none) && r.place.is_some_and(|asked| heard::fit(asked, told) == heard::Fit::Next)
        })?;
        let Order { turns, turns_in_doubt, joined, pipelined, overlaps, .. } = self.order;
        let begins_batch = !self.waiting.get(next)?.marks.has(Marks::PIPELINED | Marks::AFTER_GAP);
        let has_waited = turns.max(turns_in_doubt) >= 1;
        // A request that is missing just before may have been sent together with this one.
        let waits = !pipelined && (turns >= TURNS_MIN || begins_batch && joined);
        (waits || has_waited && begins_batch).then_some(next).filter(|_| !overlaps)
    }

    /// Looks from the front over quiet commands up to the first that must be answered.
    #[inline]
    fn find_in_order(&self, reply: &Reply<'_>, first: Timestamp) -> InOrder {
        let mut found = InOrder::Nowhere;
        for (place, request) in self.waiting.iter().enumerate() {
            if request.marks.has(Marks::SILENT | Marks::GONE | Marks::ANSWERED) {
                continue;
            }
            if request.marks.has(Marks::AFTER_GAP) {
                return if found == InOrder::Nowhere { InOrder::BehindGap } else { InOrder::Several };
            }
            if request.span.first.since(first) > SKEW_NS || !may_answer(request, self.told.place) {
                return found;
            }
            let quiet = request.marks.has(Marks::QUIET);
            found = match (fit(&self.waiting, request, reply), found) {
                (Fit::Sure, _) => return InOrder::At(place),
                (Fit::Maybe, InOrder::Nowhere) => InOrder::At(place),
                (Fit::Maybe, _) => InOrder::Several,
                (Fit::No, InOrder::Nowhere) if !quiet => InOrder::Mismatch,
                (Fit::No, found) => found,
            };
            if !quiet {
                return found;
            }
        }
        found
    }

    /// The request that a binary response answers.
    #[inline]
    pub(super) fn attribute_binary(
        &mut self,
        opcode: u8,
        opaque: u32,
        key: &[u8],
        first: Timestamp,
        out: &mut Output<'_>,
    ) -> Option<u64> {
        let unique = self.order.opaques.are_unique();
        let fits = |w: &Waiting, r: &Request| {
            r.command == Command::Binary(opcode)
                && r.opaque == opaque
                && (key.is_empty() || r.keys() == 0 || w.key(r, 0).0 == key)
        };
        if !unique && (self.order.doubt || self.reaches_gap(fits)) {
            self.order.doubt = true;
            let named = if key.is_empty() { None } else { self.only_one_asked(fits) };
            return named.or_else(|| self.recover(first, fits, out));
        }
        let open = |r: &Request| !r.marks.has(Marks::SILENT | Marks::GONE | Marks::ANSWERED);
        let told = self.told.place;
        let sent = |r: &Request| r.span.first.since(first) <= SKEW_NS && may_answer(r, told);
        let place =
            self.waiting.iter().take_while(|r| sent(r)).position(|r| open(r) && fits(&self.waiting, r))?;
        let serial = self.waiting.serial(place);
        let after_gap = self.waiting.get(place).is_some_and(|r| r.marks.has(Marks::AFTER_GAP));
        if self.order.doubt || after_gap {
            // What was asked before was answered in what is missing.
            self.settle_before(place, out);
            self.order.trust();
        } else if place > 0 {
            self.settle_quiet_before(place, out);
        }
        Some(serial)
    }

    /// The single request that fits what a response says it answers, where responses may be missing but no requests.
    #[cold]
    fn only_one_asked(&mut self, fits: impl Fn(&Waiting, &Request) -> bool) -> Option<u64> {
        let told = self.told.place?;
        if self.order.gap || self.waiting.iter().any(|r| r.marks.has(Marks::AFTER_GAP)) {
            return None;
        }
        let can_be = |r: &Request| {
            !r.marks.has(Marks::SILENT | Marks::GONE | Marks::ANSWERED)
                && may_answer(r, Some(told))
                && fits(&self.waiting, r)
        };
        let mut places = (0..self.waiting.len()).filter(|place| self.waiting.get(*place).is_some_and(can_be));
        let place = places.next().filter(|_| places.next().is_none())?;
        self.order.quality = Some(self.order.cause);
        Some(self.waiting.serial(place))
    }

    /// Whether requests may be missing before the first that fits.
    #[inline]
    fn reaches_gap(&self, fits: impl Fn(&Waiting, &Request) -> bool) -> bool {
        for request in self.waiting.iter() {
            if request.marks.has(Marks::AFTER_GAP) {
                return true;
            }
            if fits(&self.waiting, request) {
                return false;
            }
        }
        false
    }

    /// The single request under way when a response comes whose place in the order is not known.
    #[cold]
    fn recover(
        &mut self,
        first: Timestamp,
        fits: impl Fn(&Waiting, &Request) -> bool,
        out: &mut Output<'_>,
    ) -> Option<u64> {
        let none = Marks::SILENT | Marks::QUIET | Marks::GONE | Marks::ANSWERED;
        let (mut live, mut after_silence, mut n) = (None, None, 0);
        for (place, request) in self.waiting.iter().enumerate() {
            let sent = request.span;
            if request.marks.has(none) || sent.first <= self.order.since {
                continue;
            }
            if sent.last > first {
                break;
            }
            n += 1;
            live = Some(place);
            if request.marks.has(Marks::AFTER_SILENCE) {
                after_silence = Some(place);
            }
        }
        let next = self.heard_next();
        self.order.pipelined |= n > 1 && next.is_none();
        // A request that is missing just before may have been sent together with this one.
        let alone =
            live.and_then(|live| self.waiting.get(live)).is_some_and(|r| !r.marks.has(Marks::AFTER_GAP));
        let waits = self.order.client_waits(n) && (alone || self.order.turns >= TURNS_MIN);
        let place = next.or(if waits { live } else { after_silence })?;
        if !fits(&self.waiting, self.waiting.get(place)?) {
            return None;
        }
        let serial = self.settle_before(place, out);
        self.order.trust();
        if let Some(request) = self.waiting.get_mut(0) {
            request.marks.clear(Marks::AFTER_GAP);
        }
        Some(serial)
    }

    /// Takes out the requests before `place`: quiet ones, which were not answered, and in doubt also others, whose
    /// responses were not seen. Returns the serial number of the request at `place`, now in front.
    fn settle_before(&mut self, place: usize, out: &mut Output<'_>) -> u64 {
        let serial = self.waiting.serial(place);
        for _ in 0..place {
            if let Some(request) = self.waiting.get(0).copied().filter(|r| !r.marks.has(Marks::GONE)) {
                // In doubt, too, no response is missing since then.
                self.emit_without_answer(&request, self.order.is_candidate(&request), out);
            }
            self.waiting.pop_front();
        }
        serial
    }

    /// Takes out the quiet requests before `place`; others may still be answered, out of order.
    fn settle_quiet_before(&mut self, place: usize, out: &mut Output<'_>) {
        for before in 0..place {
            let Some(request) = self.waiting.get(before).copied() else { continue };
            if request.marks.has(Marks::QUIET) && !request.marks.has(Marks::GONE) {
                if let Some(request) = self.waiting.get_mut(before) {
                    request.marks.set(Marks::GONE);
                }
                self.emit_without_answer(&request, self.order.is_candidate(&request), out);
            }
        }
        while self.waiting.get(0).is_some_and(|r| r.marks.has(Marks::GONE)) {
            self.waiting.pop_front();
        }
    }

    /// A reply came that several quiet requests could have caused: none of them is known any more.
    #[cold]
    fn mark_uncertain(&mut self, reply: &Reply<'_>) {
        for place in 0..self.waiting.len() {
            let Some(request) = self.waiting.get(place).copied() else { break };
            if !request.marks.has(Marks::QUIET) {
                break;
            }
            if fit(&self.waiting, &request, reply) != Fit::No
                && let Some(request) = self.waiting.get_mut(place)
            {
                request.marks.set(Marks::UNCERTAIN);
            }
        }
    }
}

/// Whether what begins at `told` can answer a request, by what each side had heard.
#[inline]
fn may_answer(request: &Request, told: Option<Place>) -> bool {
    request.place.zip(told).is_none_or(|(asked, told)| heard::fit(asked, told) != heard::Fit::Impossible)
}

/// Whether the key that a reply begins with is among those that a request asks for.
fn may_have_asked_for(waiting: &Waiting, request: &Request, reply: &Reply<'_>) -> bool {
    reply.kind != Kind::Value || (0..request.keys()).any(|i| waiting.key(request, i).0 == reply.key)
}

/// Whether a reply can be the first line of a request's answer.
#[inline]
fn fit(waiting: &Waiting, request: &Request, reply: &Reply<'_>) -> Fit {
    let quiet = request.marks.has(Marks::QUIET);
    if !reply.answers(request.class) || quiet && reply.is_hushed(request.class) {
        return Fit::No;
    }
    if !reply.flags.0.is_empty() {
        return fit_flags(waiting, request, reply);
    }
    // Where the request has a token or asks for its key back, only an error comes without.
    if quiet && request.marks.has(Marks::TAGGED | Marks::KEYED) && !reply.is_error() {
        Fit::No
    } else {
        Fit::Maybe
    }
}

fn fit_flags(waiting: &Waiting, request: &Request, reply: &Reply<'_>) -> Fit {
    let mut same = false;
    for word in reply.flags {
        let expected = match word[0] {
            b'O' => waiting.tag(request),
            b'k' if request.marks.has(Marks::KEYED) => Some(waiting.key(request, 0).0),
            b'k' => None,
            _ => continue,
        };
        if expected != Some(&word[1..]) {
            return Fit::No;
        }
        same = true;
    }
    match same {
        true => Fit::Sure,
        false if request.marks.has(Marks::QUIET) && request.marks.has(Marks::TAGGED | Marks::KEYED) => {
            Fit::No
        }
        false => Fit::Maybe,
    }
}
