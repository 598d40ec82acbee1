//! Tuples, or parts of results, that were found before or by others, and the engine that they go to.

use monitor::Step;
use monitor::pressure::History;
use stream::{Engine, TakeOutput};

use crate::summary::{Fed, InputError};

/// See the module's text.
pub trait Feed {
    /// Takes what is next, and waits a little for it where it may still come; rows that are complete go to `out`.
    fn next(&mut self, out: &mut dyn TakeOutput) -> Step;

    /// Ends it here: what is known by now goes to `out`.
    fn finish(&mut self, out: &mut dyn TakeOutput);

    /// Nothing has been taken yet: it goes on where another had come to `watermark_ns`, and had told of each pipeline the window that
    /// began then last ([`Engine::begin_at`]).
    fn begin_at(&mut self, _watermark_ns: i64, _latest_ns: &[Option<i64>]) {}

    /// Nothing more will be published: the feed ends after all existing records.
    ///
    /// # Errors
    /// The reason why the end is not known yet; the call may be repeated.
    fn come_to_the_end(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Why it was done before its end, if it was; also among [`Feed::problems`].
    fn cut_short(&self) -> Option<String> {
        None
    }

    /// Whether it has no end, so that stopping it loses nothing.
    fn is_endless(&self) -> bool {
        false
    }

    /// The engine.
    fn engine(&self) -> &Engine;

    /// What it was fed so far.
    fn fed(&self) -> Fed;

    /// Notes for the user, one sentence each.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Limitations of the answer due to its source, one sentence each.
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    /// How those who find what it brings have changed the share of flows that they look at.
    fn sampling(&self) -> History {
        History::default()
    }

    /// What went wrong with what it reads.
    fn problems(&self) -> Vec<InputError>;
}
