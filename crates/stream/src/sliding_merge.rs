//! Sliding windows without merging every pane for every window: the two-stack algorithm. The front stores, for every
//! pane up to a boundary, the merge of this pane and all later ones up to the boundary. The back is the merge of all
//! panes after the boundary. A window is the merge of the front's top and the back, so that a pane is merged about
//! three times, regardless of the number of windows it belongs to.
//!
//! The merges have at most [`FRONT_FACTOR`] times the groups of the panes, and a bounded size. Beyond that, panes
//! have few common groups and are merged for each window, which costs no more than the output of the window.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::pane::{Pane, PaneLayout};

/// Maximum size of the front relative to the panes.
const FRONT_FACTOR: usize = 2;
/// Number of groups that the front may have regardless of the panes' size.
const FRONT_MIN: usize = 4096;

/// Merges shared by later windows.
pub struct SlidingMerge {
    /// Memory limit.
    bytes_max: usize,
    /// First pane of each merge; the last entry covers the most panes.
    front: Vec<(i64, Pane)>,
    back: Option<Pane>,
    /// The last pane in front or back.
    end: i64,
    /// No front is built up to this pane because it would be too large.
    without_until: Option<i64>,
}

impl SlidingMerge {
    /// Creates an empty state with a memory limit of `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: usize) -> SlidingMerge {
        SlidingMerge {
            bytes_max,
            front: Vec::new(),
            back: None,
            end: 0,
            without_until: None,
        }
    }

    /// Merges the panes from `first` to `last`; neither may decrease without a call of [`SlidingMerge::forget`].
    pub fn window(
        &mut self,
        panes: &BTreeMap<i64, Pane>,
        (first, last): (i64, i64),
        layout: &PaneLayout,
        level: u8,
    ) -> Cow<'_, Pane> {
        while self.front.last().is_some_and(|(pane, _)| *pane < first) {
            self.front.pop();
        }
        let skips = self.without_until.is_some_and(|until| first <= until);
        if skips || (self.front.is_empty() && !self.turn(panes, (first, last), layout, level)) {
            return Cow::Owned(Pane::merged(
                panes.range(first..=last).map(|(_, pane)| pane),
                layout,
                level,
            ));
        }
        if self.end < last {
            let new = panes.range(self.end + 1..=last).map(|(_, pane)| pane);
            let parts = self.back.iter().chain(new);
            self.back = parts
                .clone()
                .next()
                .is_some()
                .then(|| Pane::merged(parts, layout, level));
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

    /// Invalidates the merges that contain `pane`.
    pub fn forget_from(&mut self, pane: i64) {
        if pane <= self.end {
            self.forget();
        }
    }

    /// Invalidates all merges.
    pub fn forget(&mut self) {
        self.front.clear();
        self.back = None;
    }

    /// Rebuilds the front from all panes; false if it would be too large.
    fn turn(
        &mut self,
        panes: &BTreeMap<i64, Pane>,
        (first, last): (i64, i64),
        layout: &PaneLayout,
        level: u8,
    ) -> bool {
        self.forget();
        let groups: usize = panes
            .range(first..=last)
            .map(|(_, pane)| pane.keys().len())
            .sum();
        let mut room = FRONT_FACTOR * groups + FRONT_MIN;
        let mut bytes = self.bytes_max;
        for (at, pane) in panes.range(first..=last).rev() {
            let before = self.front.last().map(|(_, pane)| pane);
            let merged = Pane::merged([pane].into_iter().chain(before), layout, level);
            let left = room
                .checked_sub(merged.keys().len())
                .zip(bytes.checked_sub(merged.bytes()));
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
