//! Preliminary results of open windows. Nothing is closed, counted, or changed.

use std::collections::BTreeMap;

use tuple::Batch;

use super::{PipelineShare, PipelineState};
use crate::pane::Pane;
use crate::results::EmittedWindow;

/// Number of windows shown: of consecutive windows the one that waits for late tuples and the next one, of
/// overlapping windows the most complete ones.
const WINDOWS_MAX: usize = 2;

impl PipelineState {
    /// Copies the open panes.
    #[must_use]
    pub fn peek(&self) -> PipelineShare {
        self.panes
            .iter()
            .map(|(at, pane)| (*at, pane.clone()))
            .collect()
    }

    /// Approximate memory of the open panes.
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        self.room.bytes
    }

    /// Emits the rows of open windows, merged with the copies of workers.
    pub fn open_rows<'a>(
        &mut self,
        peeks: impl Iterator<Item = &'a PipelineShare>,
        out: &mut dyn FnMut(Batch),
    ) {
        let mut panes: BTreeMap<i64, Vec<&Pane>> = BTreeMap::new();
        let of_workers = peeks.flatten().map(|(at, pane)| (*at, pane));
        for (at, pane) in self
            .panes
            .iter()
            .map(|(at, pane)| (*at, pane))
            .chain(of_workers)
        {
            if !self.is_late(at) {
                panes.entry(at).or_default().push(pane);
            }
        }
        let layout = &self.layout;
        let level = self.room.level;
        let mut merged = Vec::new();
        match self.windows {
            None => {
                let mut pane = Pane::merged(panes.values().flatten().copied(), layout, level);
                if self.group.is_empty() {
                    pane.ensure_single_group(layout);
                }
                let seconds = pane.seconds();
                merged.push((pane, None, seconds));
            }
            Some(windows) => {
                let next = self.next.unwrap_or(i128::MIN);
                let mut window = next;
                for _ in 0..WINDOWS_MAX {
                    // The next window with a tuple.
                    let first = panes.keys().find(|at| windows.last_of(**at) >= window);
                    let Some(first) = first else { break };
                    window = windows.first_of(*first).max(window);
                    let (from, to) = windows.panes(window);
                    let pane = Pane::merged(
                        panes.range(from..=to).flat_map(|(_, panes)| panes).copied(),
                        layout,
                        level,
                    );
                    let bounds = Some(windows.bounds(window));
                    let seconds = windows.seconds();
                    merged.push((pane, bounds, seconds));
                    window += 1;
                }
            }
        }
        let results = &mut self.results;
        results.uncounted(|results| {
            merged.iter().for_each(|(pane, bounds, seconds)| {
                results.write(
                    &EmittedWindow {
                        pane,
                        layout,
                        bounds: *bounds,
                        seconds: *seconds,
                    },
                    out,
                );
            });
            results.finish().into_iter().for_each(out);
        });
    }
}
