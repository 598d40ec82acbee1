//! Messages of `-v` on standard error, without timestamps.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::process::output;

/// Enables messages: `-v` notable ones, `-vv` and `-vvv` more. `RUST_LOG` takes precedence.
pub fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let messages = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| BestEffortStderr);
    messages.without_time().with_target(false).init();
}

/// Standard error; write failures are ignored because they cannot be reported.
struct BestEffortStderr;

impl Write for BestEffortStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr()
            .write_all(output::visible_lines(&String::from_utf8_lossy(bytes)).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
