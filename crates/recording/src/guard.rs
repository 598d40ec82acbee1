//! Readers of Arrow and Parquet take much of what bytes say for true, and panic where it is not: that is an error like others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a reader of untrusted bytes; a panic is returned as an error.
///
/// # Errors
/// Those of `read`, and its panic.
pub fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What it was about to make is dropped with it.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|panic| Err(format!("it is damaged: {}", words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it cannot be decoded")
}
