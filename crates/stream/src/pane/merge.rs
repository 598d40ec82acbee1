//! Merges panes as if one pane had received all tuples, and cuts them to the limits.

use std::cmp::Reverse;

use super::{GroupBudget, GroupOverflow, Pane, PaneLayout};
use crate::sketch::SpaceSaving;

impl Pane {
    /// Merges panes as if one pane had received all tuples.
    #[must_use]
    pub fn merged<'a>(
        panes: impl Iterator<Item = &'a Pane> + Clone,
        layout: &PaneLayout,
        level: u8,
    ) -> Pane {
        let mut all = Pane::new(level);
        let maps: Vec<Vec<u32>> = panes.clone().map(|pane| all.adopt(pane, layout)).collect();
        all.merge_overflow(panes.zip(&maps), layout);
        all
    }

    /// Merges two panes of the same period.
    #[must_use]
    pub fn joined(mine: Option<Pane>, theirs: Pane, layout: &PaneLayout, level: u8) -> Pane {
        match mine {
            None if level == 0 => theirs,
            None => Pane::merged([&theirs].into_iter(), layout, level),
            Some(mine) if theirs.is_overflowed() => {
                Pane::merged([&mine, &theirs].into_iter(), layout, level)
            }
            Some(mut mine) => {
                mine.take_in(&theirs, layout);
                mine
            }
        }
    }

    /// Cuts a merged pane to the limits. A ranking keeps the groups with the largest weights, otherwise groups are
    /// pooled. Since this sorts all groups, it is delayed until a limit is exceeded by half.
    #[must_use]
    pub fn cut(self, layout: &PaneLayout, room: &mut GroupBudget) -> Pane {
        let is_within = |held: usize, max: usize| held <= max.saturating_add(max / 2);
        if is_within(room.groups, room.groups_max) && is_within(room.key_bytes, room.key_bytes_max)
        {
            return self;
        }
        let listed: Vec<u32> = self.by_weight(layout);
        let others = (
            room.groups - listed.len(),
            room.key_bytes - self.keys.bytes(),
        );
        let groups_max = room
            .groups_max
            .saturating_sub(others.0)
            .max(room.groups_min);
        let mut key_room = room.key_bytes_max.saturating_sub(others.1);
        let fits = |group: &&u32| match key_room.checked_sub(self.keys.key(**group).len()) {
            Some(left) => {
                key_room = left;
                true
            }
            None => false,
        };
        let kept = listed
            .iter()
            .take(groups_max)
            .take_while(fits)
            .count()
            .max(1);
        if kept >= listed.len() {
            return self;
        }
        self.leave(room);
        let mut pane = self.keep(&listed[..kept], layout, room.level);
        room.overflowed += (listed.len() - kept) as u64;
        pane.enter(room);
        pane
    }

    /// Merges a pane without overflow. Groups new to this pane may have pooled tuples here; see
    /// [`Pane::merge_overflow`].
    fn take_in(&mut self, other: &Pane, layout: &PaneLayout) {
        let before = self.keys.len();
        let map = self.adopt(other, layout);
        if self.has_pooled() {
            self.partial.resize(before, false);
            self.partial.resize(self.keys.len(), true);
        }
        if let Some(saving) = &mut self.saving {
            let floor = saving.least();
            for (to, group) in map.into_iter().zip(0..) {
                let (weight, error) = other.weight_and_error(group, layout);
                saving.merge(to, (weight, error), floor);
            }
        }
    }

    /// Merges the groups of another pane without its overflow state; returns their group numbers here.
    fn adopt(&mut self, other: &Pane, layout: &PaneLayout) -> Vec<u32> {
        let map: Vec<u32> = (0..other.keys.len() as u32)
            .map(|group| {
                if other.pool == Some(group) {
                    return self.pooled();
                }
                let hash = other.keys.hash(group);
                let key = other.keys.key(group);
                let found = self.keys.find(hash, |held| held == key);
                found.unwrap_or_else(|| self.keys.insert(hash, key))
            })
            .collect();
        let n = layout.replicates;
        self.sketch_bytes += self.merge_cells(other, layout, |cell| {
            Some(map[cell / n] as usize * n + cell % n)
        });
        self.tuples += other.tuples;
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (mine, theirs) => mine.or(theirs),
        };
        map
    }

    fn merge_cells(
        &mut self,
        other: &Pane,
        layout: &PaneLayout,
        to: impl Fn(usize) -> Option<usize>,
    ) -> usize {
        let mut grown = 0;
        for theirs in &other.strata {
            let stratum = self.stratum(theirs.rate, layout);
            self.resize(layout);
            grown += self.strata[stratum].cells.merge(&theirs.cells, &to);
        }
        grown
    }

    /// The listed groups, in a ranking by descending weight.
    fn by_weight(&self, layout: &PaneLayout) -> Vec<u32> {
        let mut listed: Vec<u32> = self.listed().collect();
        if layout.overflow != GroupOverflow::Pool {
            listed.sort_by_cached_key(|group| {
                let (weight, error) = self.weight_and_error(*group, layout);
                (Reverse(weight), error)
            });
        }
        listed
    }

    /// Copies the pane with only the listed groups in `kept`.
    fn keep(&self, kept: &[u32], layout: &PaneLayout, level: u8) -> Pane {
        let mut pane = Pane {
            span_ns: self.span_ns,
            tuples: self.tuples,
            ..Pane::new(level)
        };
        let mut map: Vec<Option<u32>> = vec![None; self.keys.len()];
        for &group in kept {
            map[group as usize] = Some(
                pane.keys
                    .insert(self.keys.hash(group), self.keys.key(group)),
            );
        }
        let is_saved = layout.overflow != GroupOverflow::Pool;
        let pool = (self.pool.is_some() || !is_saved).then(|| pane.pooled());
        let is_dropped = |group| is_saved && Some(group) != self.pool;
        for (group, to) in (0..)
            .zip(&mut map)
            .filter(|(group, to)| to.is_none() && !is_dropped(*group))
        {
            debug_assert!(Some(group) == self.pool || !is_saved);
            *to = pool;
        }
        if !self.partial.is_empty() {
            pane.partial = vec![false; pane.keys.len()];
            kept.iter()
                .zip(&mut pane.partial)
                .for_each(|(group, partial)| *partial = self.is_partial(*group));
        }
        if is_saved {
            let parts = kept.iter().chain(&self.pool).map(|group| {
                if Some(*group) == self.pool {
                    (u128::MAX, 0)
                } else {
                    self.weight_and_error(*group, layout)
                }
            });
            let (weights, errors) = parts.unzip();
            let negative = self.saving.as_ref().map_or(0, SpaceSaving::negative);
            pane.saving = Some(SpaceSaving::from_parts(weights, errors, negative));
        }
        let n = layout.replicates;
        let cell = |cell: usize| map[cell / n].map(|group| group as usize * n + cell % n);
        pane.sketch_bytes = pane.merge_cells(self, layout, cell);
        pane
    }

    /// Accounts for groups missing from an overflowed part: their weight there is at most the smallest listed weight
    /// (Agarwal et al. 2012, "Mergeable summaries"), or their tuples are in its pool.
    fn merge_overflow<'a, 'm>(
        &mut self,
        parts: impl Iterator<Item = (&'a Pane, &'m Vec<u32>)> + Clone,
        layout: &PaneLayout,
    ) {
        if parts.clone().any(|(pane, _)| pane.has_pooled()) {
            self.partial = vec![false; self.keys.len()];
            for (pane, map) in parts.clone().filter(|(pane, _)| pane.has_pooled()) {
                let mut there = vec![false; self.keys.len()];
                map.iter()
                    .zip(0..)
                    .for_each(|(to, g)| there[*to as usize] = !pane.is_partial(g));
                self.partial
                    .iter_mut()
                    .zip(there)
                    .for_each(|(partial, there)| *partial |= !there);
            }
        }
        if parts.clone().any(|(pane, _)| pane.saving.is_some()) {
            let least = |pane: &Pane| pane.saving.as_ref().map_or(0, SpaceSaving::least);
            let floor = parts
                .clone()
                .map(|(pane, _)| least(pane))
                .fold(0u128, u128::saturating_add);
            let mut weights = vec![floor; self.keys.len()];
            let mut errors = weights.clone();
            let mut negative = 0u128;
            for (pane, map) in parts {
                let floor = least(pane);
                for (to, g) in map.iter().map(|to| *to as usize).zip(0..) {
                    let (weight, error) = pane.weight_and_error(g, layout);
                    weights[to] = weights[to].saturating_sub(floor).saturating_add(weight);
                    errors[to] = errors[to].saturating_sub(floor).saturating_add(error);
                }
                let theirs = pane.saving.as_ref().map_or(0, SpaceSaving::negative);
                negative = negative.saturating_add(theirs);
            }
            self.saving = Some(SpaceSaving::from_parts(weights, errors, negative));
        }
    }
}
