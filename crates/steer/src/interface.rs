//! A network interface of this process on which the kernel sends nothing by itself.

use std::fs;
use std::path::Path;
use std::time::Duration;

use capture::TapInterface;

use crate::backend::SwitchError;
use crate::program;

/// Timeout of the tool.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates an interface in the state up. It is removed on drop and at the end of the process.
pub fn make(name: &str) -> Result<TapInterface, SwitchError> {
    let refused = |said: String| SwitchError::Refused {
        program: "the kernel".to_owned(),
        said,
    };
    let tap = TapInterface::new(name).map_err(|e| refused(format!("interface {name}: {e}")))?;
    // Without IPv6 there is nothing to disable.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    let words = ["link", "set", name, "up"].map(str::to_owned);
    program::run(
        "ip",
        &words,
        ("LC_ALL", Path::new("C")),
        program::ProgramInput::Text(""),
        PATIENCE,
    )?;
    Ok(tap)
}
