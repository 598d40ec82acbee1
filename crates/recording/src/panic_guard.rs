//! Guards against panics: Arrow and Parquet readers trust much of their input and panic on inconsistencies, which are
//! reported as errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a reader of untrusted bytes; a panic is returned as an error.
///
/// # Errors
/// Those of `read`, and its panic.
pub fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // Unwind safe: partial results are dropped.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|panic| Err(format!("it is damaged: {}", words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it cannot be decoded")
}
