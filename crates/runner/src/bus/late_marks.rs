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

#[cfg(test)]
mod tests {
    use stream::EngineConfig;

    use super::*;

    fn engine() -> Engine {
        let query = "PARSE http PROCESS (count: w=1s)";
        let checked = query::check(query, &parsers::registry::schemas(), &()).expect("a query");
        Engine::new(&planner::lower(&checked).dataflow, EngineConfig::default())
    }

    /// Start, end, and number of the marks since the last call.
    fn marks(engine: &mut Engine) -> Option<(i64, i64, u64)> {
        let marked = engine.take_limited()?;
        Some((marked.from_ns, marked.to_ns, marked.times))
    }

    #[test]
    fn late_items_mark_the_open_windows_once() {
        let mut engine = engine();
        let lateness = engine.lateness_ns()[0];
        let mut late = LateMarks::new();
        late.come_to(100_000_000_000);
        late.mark(&mut engine, 0);
        assert_eq!(marks(&mut engine), None);
        late.mark(&mut engine, 3);
        let open = (100_000_000_000 - lateness, 100_000_000_000);
        assert_eq!(marks(&mut engine), Some((open.0, open.1, 3)));
        // The same total again, and a smaller one of a restarted job.
        late.mark(&mut engine, 3);
        late.mark(&mut engine, 1);
        assert_eq!(marks(&mut engine), None);
        late.mark(&mut engine, 5);
        assert_eq!(marks(&mut engine).map(|(.., times)| times), Some(2));
    }

    /// Event time of another lane, or of a clock that was set back.
    #[test]
    fn event_time_does_not_go_back() {
        let mut engine = engine();
        let mut late = LateMarks::new();
        late.come_to(9_000_000_000);
        late.come_to(2_000_000_000);
        late.mark(&mut engine, 1);
        assert_eq!(marks(&mut engine).map(|(_, to, _)| to), Some(9_000_000_000));
    }

    #[test]
    fn items_before_any_event_time_are_no_overflow() {
        let mut engine = engine();
        let mut late = LateMarks::new();
        late.mark(&mut engine, u64::MAX);
        assert_eq!(marks(&mut engine), Some((i64::MIN, i64::MIN, u64::MAX)));
    }

    #[test]
    fn limits_of_emitted_windows_extend_to_the_open_ones() {
        let mut engine = engine();
        let lateness = engine.lateness_ns()[0];
        let mut late = LateMarks::new();
        let at = 50_000_000_000;
        late.come_to(at);
        let limit = |from_ns, to_ns| LimitedStretch {
            from_ns,
            to_ns,
            times: 1,
        };
        let first_open = at - lateness;
        for (to, expected) in [
            (first_open - 1, at),
            (first_open, first_open),
            (at + 7, at + 7),
            (5, at),
        ] {
            late.limit(&mut engine, limit(1, to));
            assert_eq!(marks(&mut engine), Some((1, expected, 1)), "{to}");
        }
    }
}
