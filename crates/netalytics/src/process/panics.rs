//! Panics as shown to users: one line, whatever `RUST_BACKTRACE` is. Most are caught locally (in workers or the Parquet
//! library) and reported as errors; those of the main thread are reported here.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use tracing::debug;

use crate::process::output;

thread_local! {
    /// Location of this thread's last panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Suppresses the default panic output; `-vv` shows the locations.
pub fn hush() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        debug!(
            "panic at {}: {}",
            place.as_deref().unwrap_or("?"),
            words(panic.payload())
        );
        PLACE.set(place);
    }));
}

/// Runs the program; a panic is reported as an error.
pub fn told(run: impl FnOnce() -> ExitCode) -> ExitCode {
    // No state that may be inconsistent is used afterward.
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let place = PLACE.take().unwrap_or_default();
        let words = words(&*panic);
        output::complain(&format!(
            "error: this is a bug in netalytics; please report it: {words} ({place})"
        ));
        ExitCode::from(1)
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        let code = |run: fn() -> ExitCode| format!("{:?}", told(run));
        assert_eq!(
            code(|| panic!("of a test")),
            format!("{:?}", ExitCode::from(1))
        );
        assert_eq!(
            code(|| ExitCode::from(2)),
            format!("{:?}", ExitCode::from(2))
        );
    }
}
