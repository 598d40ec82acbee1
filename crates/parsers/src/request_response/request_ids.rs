//! Outstanding requests by correlation id, and what is known of ids that were used again.

use hashbrown::HashMap;
use wire::TcpSeq;

/// Entries from which stale ones are removed.
const PURGED_FROM: usize = 64;
/// Losses of client bytes, while requests are outstanding, after which none of these is paired.
const LOSSES_MAX: usize = 64;

/// Outstanding requests by id; entries of requests that are no longer held are removed from time to time.
#[derive(Default)]
pub struct RequestIds {
    requests: HashMap<u64, NamedRequest>,
    /// Number of entries at which stale ones are removed.
    purged_at: usize,
    /// Positions of missing client bytes, oldest first: requests that were not seen may have used ids again.
    requests_lost: Vec<TcpSeq>,
    /// Number of losses of server bytes.
    response_losses: u32,
}

/// A request that has an id.
#[derive(Clone, Copy)]
pub struct NamedRequest {
    /// Number in the queue of transactions.
    pub number: u64,
    /// The response to an earlier request with the same id may still come.
    pub is_ambiguous: bool,
    /// Value of [`RequestIds::response_losses`] when the request began.
    response_losses: u32,
}

impl RequestIds {
    /// Records that responses may be missing.
    pub fn lose_responses(&mut self) {
        self.response_losses = self.response_losses.wrapping_add(1);
    }

    /// Records that requests may be missing from `from` on; `is_idle`: no request is outstanding.
    pub fn lose_requests(&mut self, from: TcpSeq, is_idle: bool) {
        if is_idle {
            self.requests_lost.clear();
        }
        if self.requests_lost.len() == LOSSES_MAX {
            self.requests.clear();
            self.requests_lost.clear();
        }
        self.requests_lost.push(from);
    }

    /// Position of the first missing client byte after `seq`.
    pub fn first_loss_after(&self, seq: TcpSeq) -> Option<TcpSeq> {
        let is_after = |lost: &&TcpSeq| lost.distance(seq) > 0;
        self.requests_lost.iter().find(is_after).copied()
    }

    /// The request with this id.
    pub fn get(&self, id: u64) -> Option<NamedRequest> {
        self.requests.get(&id).copied()
    }

    /// Adds request `number`. `earlier`: a request with the same id that waits. If no response was lost since, its client
    /// has given up, and its response may still come.
    pub fn add(&mut self, id: u64, number: u64, earlier: Option<NamedRequest>) {
        let response_losses = self.response_losses;
        let named = NamedRequest {
            number,
            is_ambiguous: earlier.is_some_and(|of| of.response_losses == response_losses),
            response_losses,
        };
        self.requests.insert(id, named);
    }

    /// Replaces the id of a request whose response goes on under the id `next`, if any; otherwise removes it.
    pub fn replace(&mut self, id: u64, named: NamedRequest, next: Option<u64>) {
        if next != Some(id) {
            self.requests.remove(&id);
        }
        if let Some(next) = next {
            self.requests.insert(next, named);
        }
    }

    /// Changes the number of request `old`, unless a later request has its id.
    pub fn renumber(&mut self, id: u64, old: u64, new: u64) {
        if let Some(named) = self.requests.get_mut(&id)
            && named.number == old
        {
            named.number = new;
        }
    }

    /// Removes entries of requests that are not held, once there are many entries.
    pub fn purge(&mut self, is_held: impl Fn(u64) -> bool) {
        if self.requests.len() > self.purged_at.max(PURGED_FROM) {
            self.requests.retain(|_, named| is_held(named.number));
            self.purged_at = 2 * self.requests.len();
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Too many losses end the pairing of outstanding requests; their ids then belong to later ones.
    #[test]
    fn ids_of_later_requests_are_kept() {
        let mut ids = RequestIds::default();
        ids.add(7, 1, None);
        (0..=LOSSES_MAX).for_each(|n| ids.lose_requests(TcpSeq(n as u32), false));
        assert!(ids.get(7).is_none());
        ids.add(7, 2, None);
        ids.renumber(7, 1, 3);
        assert_eq!(ids.get(7).map(|named| named.number), Some(2));
        ids.renumber(7, 2, 4);
        assert_eq!(ids.get(7).map(|named| named.number), Some(4));
    }
}
