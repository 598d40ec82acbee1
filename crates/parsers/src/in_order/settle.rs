//! Damaged batches: held until the client asks again, and then put together by counting from both ends.
//!
//! What a client had heard when it asks divides the server's stream: if it never asks while it waits for a part of what it
//! has asked, the responses to a batch are the bytes between what was heard before it and before the next one. As long
//! as that habit is not known the pairs are held, too, until so many batches in a row have fitted.

use std::ops::Range;

use flow::Place;
use wire::TcpSeq;

use super::batch::{self, Hole};
use super::exchange::{Exchange, is};
use super::{APART_MAX, Attributed, InOrder};
use crate::Direction;
use crate::heard::{Fit, fit};

impl<Q: Default, R: Default> InOrder<Q, R> {
    /// Whether damaged batches are held until they are over: the client may be one that asks when it has heard everything.
    pub(super) fn holds_batches(&self) -> bool {
        self.heard_before.is_some() && !self.habit.waits() && !self.habit.overlaps()
    }

    /// A response of a damaged batch, which begins at `told`.
    pub(super) fn attribute_to_batch(&mut self, told: Place) -> Attributed {
        let hole = self.hole_before(Direction::ServerToClient, told.seq);
        let apart = self.apart.get_or_insert_default();
        if self.ambiguous || apart.len() >= APART_MAX {
            self.ambiguous = true;
            return Attributed::Nobody;
        }
        let number = self.next_response;
        let first = hole == Hole::NONE && !apart.has_unsettled();
        if first && self.habit.asks_in_batches() && self.is_waiting() && self.request_breaks.is_empty() {
            // What was lost was of the batch before.
            self.responses_lost = false;
            self.next_response += 1;
            return Attributed::To(number, true);
        }
        Attributed::ToTheBatch(hole)
    }

    /// Responses are missing: what is left of the batches before the present one lies in that.
    pub(super) fn settle_batches_before(&mut self) {
        if self.next_response < self.batch
            && let Some(heard) = self.heard_before
        {
            self.settle_batch(self.batch, heard, self.unseen(heard));
        }
    }

    /// Bytes behind the last response that was seen, up to what the client had `heard`.
    fn unseen(&self, heard: TcpSeq) -> Option<i32> {
        self.ends[Direction::ServerToClient as usize].map(|end| heard.distance(end))
    }

    /// Request `number`, asked at `asked` after `heard` had been heard, begins a batch: what that says of the one before.
    pub(super) fn begin_batch(&mut self, number: u64, asked: Place, heard: TcpSeq) {
        let unseen = self.unseen(heard);
        let certain = self.certain();
        if !certain && self.holds_batches() {
            self.settle_batch(number, heard, unseen);
        }
        let whole = self.certain()
            && unseen == Some(0)
            && self.hole_before(Direction::ClientToServer, asked.seq) == Hole::NONE;
        if whole && certain && self.batch_begins_whole {
            self.habit.asks_again(self.next_response == number);
        }
        (self.batch, self.batch_begins_whole, self.heard_before) =
            (number, whole && self.next_response == number, Some(heard));
    }

    /// What may be missing in so many bytes between two messages.
    fn hole_of(&self, bytes: Option<i32>) -> Hole {
        match bytes {
            Some(bytes @ 0..) => Hole::of_whole_messages(bytes.unsigned_abs(), self.message_bytes_min),
            _ => Hole::ANY,
        }
    }

    /// What may be missing in `direction` before a message that begins at `seq`.
    pub(super) fn hole_before(&self, direction: Direction, seq: TcpSeq) -> Hole {
        self.hole_of(self.ends[direction as usize].map(|end| seq.distance(end)))
    }

    /// Request `number` was asked after everything up to `heard` had been heard, of which `unseen` bytes are behind the last
    /// response that was seen: puts together what is left of the batch before.
    #[cold]
    fn settle_batch(&mut self, number: u64, heard: TcpSeq, unseen: Option<i32>) {
        let from = self.next_response.min(number);
        let new = if self.ambiguous { Some(Vec::new()) } else { self.pair_batch(from..number, unseen) };
        self.habit.settles_batch(new.as_ref().map(Vec::len));
        let fits = new.is_some();
        let apart = self.apart.get_or_insert_default();
        apart.settle(new.unwrap_or_default());
        let known = self.habit.asks_in_batches();
        if known || !fits || apart.len() > APART_MAX / 2 {
            let pairs = apart.take_pairs();
            for (request, response) in pairs {
                self.decide(request, response, known && fits);
            }
            self.give_up(from, number);
        } else {
            let paired: Vec<u64> = apart.pairs().iter().map(|pair| pair.0).collect();
            (from..number).filter(|n| !paired.contains(n)).for_each(|n| self.give_up(n, n + 1));
        }
        self.next_response = self.next_response.max(number);
        self.request_breaks.retain(|b| b.0 >= number);
        (self.responses_lost, self.ambiguous) = (!known, false);
        self.ends(Direction::ServerToClient, Some(heard));
    }

    /// The pairs of the batch whose requests without a response are these; `None`: it is no batch.
    fn pair_batch(&self, requests: Range<u64>, unseen: Option<i32>) -> Option<Vec<(u64, u64)>> {
        let apart = self.apart.as_ref().map_or(Vec::new(), |apart| apart.unsettled());
        if unseen.is_some_and(|bytes| bytes < 0) || requests.start < self.base {
            return None;
        }
        let lost_before = |number: u64| {
            let lost = self.request_breaks.iter().find(|b| b.0 == number).map_or(Hole::NONE, |b| b.1);
            // At its ends there may be requests of the neighbours.
            if number == self.batch || number == requests.end { lost.in_part() } else { lost }
        };
        let asked: Vec<Hole> = (requests.start..=requests.end).map(lost_before).collect();
        let told: Vec<Hole> = apart.iter().map(|response| response.1).chain([self.hole_of(unseen)]).collect();
        let pairs = batch::pairs(&asked, &told)?;
        let pairs =
            pairs.into_iter().map(|(q, r)| (requests.start + q as u64, apart[r].0)).collect::<Vec<_>>();
        let can_be = |(request, response): &(u64, u64)| {
            let place = |exchange: Option<&Exchange<Q, R>>| exchange.and_then(|e| e.asked);
            let asked = place(self.index(*request).and_then(|i| self.exchanges.get(i)));
            let told = place(self.apart.as_ref().and_then(|apart| apart.get(*response)));
            asked.zip(told).is_none_or(|(asked, told)| fit(asked, told) != Fit::Impossible)
        };
        pairs.iter().all(can_be).then_some(pairs)
    }

    /// Whether `response`, which is held apart, answers `request` is known now.
    fn decide(&mut self, request: u64, response: u64, yes: bool) {
        let index = self.index(request);
        let exchange = index.and_then(|i| self.exchanges.get_mut(i));
        let Some(apart) = &mut self.apart else { return };
        let Some(alone) = apart.get_mut(response) else { return };
        match exchange {
            Some(exchange) if yes && exchange.has(is::ASKED) && !exchange.has(is::ANSWERED) => {
                std::mem::swap(&mut exchange.response, &mut alone.response);
                exchange.response_first = alone.response_first;
                exchange.is |= alone.is & (is::ANSWERED | is::RESPONSE_OVER) | is::RESYNC;
                alone.is = is::FORCED;
                if !exchange.has(is::RESPONSE_OVER) {
                    apart.moved = Some((response, request));
                }
            }
            exchange => {
                alone.is |= is::GIVEN_UP;
                if let Some(exchange) = exchange {
                    exchange.is |= is::GIVEN_UP;
                }
            }
        }
    }

    /// Hands out the responses that are held for their requests.
    pub(super) fn give_up_apart(&mut self) {
        let Some(apart) = &mut self.apart else { return };
        apart.settle(Vec::new());
        for (request, response) in apart.take_pairs() {
            self.decide(request, response, false);
        }
    }
}
