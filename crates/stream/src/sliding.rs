//! Sliding windows without merging every pane again for every window: the two-stack algorithm. The front holds, for
//! every pane up to a boundary, the merge of it and all after it up to the boundary; the back is the merge of the panes
//! after the boundary. A window is the front's top with the back: a pane is merged about three times in all, however
//! many windows it is part of.
//!
//! The merges together hold at most [`FRONT_FACTOR`] times the groups of the panes, and take a bounded memory; where they would hold
//! more, panes have few groups in common and are merged for each window, which costs no more than printing it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::pane::{Layout, Pane};

/// How much larger than the panes the front may be.
const FRONT_FACTOR: usize = 2;
/// Groups that the front may hold in any case.
const FRONT_MIN: usize = 4096;

/// Merges that serve the windows to come.
pub struct Sliding {
    /// How much memory they may take.
    bytes_max: usize,
    /// The first pane of each merge; the latest at the end reaches back farthest.
    front: Vec<(i64, Pane)>,
    back: Option<Pane>,
    /// The last pane that front or back holds.
    end: i64,
    /// Up to this pane there is no front: it would be too large.
    without_until: Option<i64>,
}

impl Sliding {
    /// No merged slides yet; they may take `bytes_max` together.
    #[must_use]
    pub fn new(bytes_max: usize) -> Sliding {
        Sliding { bytes_max, front: Vec::new(), back: None, end: 0, without_until: None }
    }

    /// The panes from `first` to `last` in one; both never go back while nothing is forgotten.
    pub fn window(
        &mut self,
        panes: &BTreeMap<i64, Pane>,
        (first, last): (i64, i64),
        layout: &Layout,
        level: u8,
    ) -> Cow<'_, Pane> {
        while self.front.last().is_some_and(|(pane, _)| *pane < first) {
            self.front.pop();
        }
        let skips = self.without_until.is_some_and(|until| first <= until);
        if skips || (self.front.is_empty() && !self.turn(panes, (first, last), layout, level)) {
            return Cow::Owned(Pane::merged(panes.range(first..=last).map(|(_, pane)| pane), layout, level));
        }
        if self.end < last {
            let new = panes.range(self.end + 1..=last).map(|(_, pane)| pane);
            let parts = self.back.iter().chain(new);
            self.back = parts.clone().next().is_some().then(|| Pane::merged(parts, layout, level));
            self.end = last;
        }
        match (self.front.last(), &self.back) {
            (Some((_, front)), None) => Cow::Borrowed(front),
            (front, back) => {
                let parts = front.map(|(_, pane)| pane).into_iter().chain(back);
                Cow::Owned(Pane::merged(parts, layout, level))
            }
        }
    }

    /// A pane changed: what holds it is no longer true.
    pub fn forget_from(&mut self, pane: i64) {
        if pane <= self.end {
            self.forget();
        }
    }

    /// Everything changed.
    pub fn forget(&mut self) {
        self.front.clear();
        self.back = None;
    }

    /// Makes the front anew of all panes; false when it would be too large.
    fn turn(
        &mut self,
        panes: &BTreeMap<i64, Pane>,
        (first, last): (i64, i64),
        layout: &Layout,
        level: u8,
    ) -> bool {
        self.forget();
        let groups: usize = panes.range(first..=last).map(|(_, pane)| pane.keys().len()).sum();
        let (mut room, mut bytes) = (FRONT_FACTOR * groups + FRONT_MIN, self.bytes_max);
        for (at, pane) in panes.range(first..=last).rev() {
            let before = self.front.last().map(|(_, pane)| pane);
            let merged = Pane::merged([pane].into_iter().chain(before), layout, level);
            let left = room.checked_sub(merged.keys().len()).zip(bytes.checked_sub(merged.bytes()));
            let Some(left) = left else {
                self.forget();
                self.without_until = Some(last);
                return false;
            };
            (room, bytes) = left;
            self.front.push((*at, merged));
        }
        self.end = last;
        true
    }
}
