//! An interface of this process, on which the kernel sends nothing on its own.

use std::fs;
use std::path::Path;
use std::time::Duration;

use capture::Tap;

use crate::backend::Failed;
use crate::tool;

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes one that is up. It is gone when this is dropped, and when the process ends.
pub fn make(name: &str) -> Result<Tap, Failed> {
    let refused = |said: String| Failed::Refused { program: "the kernel".to_owned(), said };
    let tap = Tap::new(name).map_err(|e| refused(format!("interface {name}: {e}")))?;
    // Where there is no IPv6 there is nothing to be switched off.
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    let words = ["link", "set", name, "up"].map(str::to_owned);
    tool::run("ip", &words, ("LC_ALL", Path::new("C")), tool::Input::Text(""), PATIENCE)?;
    Ok(tap)
}
