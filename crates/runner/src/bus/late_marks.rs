//! Marks for late tuples and cells: the window that they belong to has been emitted, so the windows that are open when they arrive are
//! marked `approximate`.

use stream::{Engine, LimitedStretch};

/// Late items already marked.
pub struct LateMarks {
    marked: u64,
    /// Current event time.
    come_ns: i64,
}

impl LateMarks {
    /// Marks of a run that has had no late items.
    pub fn new() -> LateMarks {
        LateMarks {
            marked: 0,
            come_ns: i64::MIN,
        }
    }

    /// Advances event time.
    pub fn come_to(&mut self, ns: i64) {
        self.come_ns = self.come_ns.max(ns);
    }

    /// Marks the windows in which a publisher's limit took effect; if some of them may have been emitted, the open windows.
    pub fn limit(&self, engine: &mut Engine, limited: LimitedStretch) {
        let lateness_ns = engine.lateness_ns().iter().copied().max().unwrap_or(0);
        let is_late = limited.to_ns < self.come_ns.saturating_sub(lateness_ns);
        let to_ns = if is_late { self.come_ns } else { limited.to_ns };
        engine.add_limited(LimitedStretch { to_ns, ..limited });
    }

    /// Marks the open windows if more was `late` than at the last call. `late` counts from the beginning.
    pub fn mark(&mut self, engine: &mut Engine, late: u64) {
        let times = late.saturating_sub(self.marked);
        self.marked = self.marked.max(late);
        if times > 0 {
            let lateness_ns = engine.lateness_ns().iter().copied().max().unwrap_or(0);
            let from_ns = self.come_ns.saturating_sub(lateness_ns);
            engine.add_limited(LimitedStretch {
                from_ns,
                to_ns: self.come_ns,
                times,
            });
        }
    }
}
