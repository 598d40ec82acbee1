//! Input of an engine other than packets: recorded or published tuples, or parts of results.

use monitor::MonitorProgress;
use monitor::sampling_control::RateHistory;
use stream::{Engine, OutputConsumer};

use crate::summary::{FedInput, InputError};

/// See the module documentation.
pub trait TupleFeed {
    /// Reads the next input, waiting briefly if more may arrive; complete rows go to `out`.
    fn next(&mut self, out: &mut dyn OutputConsumer) -> MonitorProgress;

    /// Ends the input; emits the results so far to `out`.
    fn finish(&mut self, out: &mut dyn OutputConsumer);

    /// Before any input: continues where another run had reached `watermark_ns`, and had emitted the window of each
    /// pipeline with this start ([`Engine::begin_at`]).
    fn begin_at(&mut self, _watermark_ns: i64, _latest_ns: &[Option<i64>]) {}

    /// Nothing more will be published: the feed ends after all existing records.
    ///
    /// # Errors
    /// The reason why the end is not known yet; the call may be repeated.
    fn come_to_the_end(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Reason of an early end, if any; also in [`TupleFeed::problems`].
    fn cut_short(&self) -> Option<String> {
        None
    }

    /// Whether it has no end, so that stopping it loses nothing.
    fn is_endless(&self) -> bool {
        false
    }

    /// The engine.
    fn engine(&self) -> &Engine;

    /// Counters of the input.
    fn fed(&self) -> FedInput;

    /// Notes for the user, one sentence each.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Limitations of the answer due to its source, one sentence each.
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Changes of the sampling rate at the source.
    fn sampling(&self) -> RateHistory {
        RateHistory::default()
    }

    /// Problems with the input.
    fn problems(&self) -> Vec<InputError>;
}
