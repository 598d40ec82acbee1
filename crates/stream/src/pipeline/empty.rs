//! Windows without tuples. A pipeline without groups emits a row of zeros for each; one with groups counts and lists
//! them.

use tuple::Batch;

use super::PipelineState;
use crate::pane::Pane;
use crate::results::EmittedWindow;
use crate::window::WindowLayout;

impl PipelineState {
    /// Event time covers `from_ns`, or the first tuple, to `now_ns`, with or without tuples. Closed windows without
    /// tuples get rows. To be called after [`PipelineState::advance`].
    pub fn pass(&mut self, from_ns: Option<i64>, now_ns: i64, out: &mut dyn FnMut(Batch)) {
        let Some(windows) = self.windows else { return };
        let Some(open) = self.first_open(now_ns) else {
            return;
        };
        self.latest = self
            .latest
            .or(from_ns.map(|from_ns| windows.first_of(windows.pane(from_ns)) - 1));
        self.passed = Some(now_ns);
        self.emit_empty(&windows, open, out);
        self.results.finish().into_iter().for_each(out);
    }

    /// Emits the empty windows up to the current event time.
    pub(super) fn emit_last_empty(&mut self, out: &mut dyn FnMut(Batch)) {
        if let (Some(windows), Some(now_ns)) = (self.windows, self.passed) {
            // A window that begins exactly now has not begun.
            let last_ns = now_ns.saturating_sub(1);
            self.emit_empty(&windows, windows.last_of(windows.pane(last_ns)) + 1, out);
        }
    }

    /// Emits the empty windows between the last emitted window and `end`. In a long sequence only the first ones have
    /// rows, regardless of the steps in which time advances.
    pub(super) fn emit_empty(
        &mut self,
        windows: &WindowLayout,
        end: i128,
        out: &mut dyn FnMut(Batch),
    ) {
        let Some(latest) = self.latest.filter(|latest| end - 1 > *latest) else {
            return;
        };
        self.latest = Some(end - 1);
        let n = u64::try_from(end - latest - 1).unwrap_or(u64::MAX);
        if !self.group.is_empty() {
            self.results.record_empty(windows, latest + 1, n);
            self.silence
                .add(n, (windows.bounds(latest + 1).0, windows.bounds(end - 1).1));
            return;
        }
        let shown = n.min(self.empty_max.saturating_sub(self.empty_run));
        self.empty_run = self.empty_run.saturating_add(n);
        self.empty_skipped = self.empty_skipped.saturating_add(n - shown);
        let mut pane = Pane::new(self.room.level);
        pane.ensure_single_group(&self.layout);
        for empty in (latest + 1..).take(shown as usize) {
            let bounds = Some(windows.bounds(empty));
            let emitted = EmittedWindow {
                pane: &pane,
                layout: &self.layout,
                bounds,
                seconds: windows.seconds(),
            };
            self.results.write(&emitted, out);
        }
    }
}
