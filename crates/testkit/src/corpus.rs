//! Location of the real captures: `shared/data` next to the workspace, never inside it. Without it, tests print a
//! message; with `CI=true` they fail, so that a run without checks is not green.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The directory of captures, or `None` with a visible message.
///
/// # Panics
/// In CI, if it is missing.
#[must_use]
pub fn corpus() -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    nothing_checked(&format!("NO CAPTURES at {}", path.display()));
    None
}

/// Reports that a test has checked nothing, and the reason.
///
/// # Panics
/// In CI.
pub fn nothing_checked(why: &str) {
    let text = format!("{why}: this test has checked NOTHING");
    assert!(!is_ci(std::env::var_os("CI").as_deref()), "{text}");
    loudly(&text);
}

/// Whether the variable `CI` is set to true.
fn is_ci(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|no| value.eq_ignore_ascii_case(no)))
}

/// Prints past the test runner, which shows `eprintln!` only for failed tests.
pub fn loudly(text: &str) {
    // A closed standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "\n*** {text} ***");
}

/// All capture files (pcap, pcapng, also gzipped) directly in `folder` of the corpus, sorted by name.
///
/// # Panics
/// In CI, if the corpus is missing.
#[must_use]
pub fn captures_in(folder: &str) -> Vec<PathBuf> {
    let Some(root) = corpus() else { return Vec::new() };
    let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten();
    let mut found: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| is_capture(p)).collect();
    found.sort();
    if found.is_empty() {
        nothing_checked(&format!("NO CAPTURES in {folder} of the corpus"));
    }
    found
}

/// The directory with the ground truth of a capture: its name without `.gz`, plus `.truth`.
#[must_use]
pub fn truth_of(capture: &Path) -> PathBuf {
    let name = capture.to_string_lossy();
    PathBuf::from(format!("{}.truth", name.strip_suffix(".gz").unwrap_or(&name)))
}

fn is_capture(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    path.is_file() && [".pcap", ".pcapng", ".cap"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ci_is_where_the_environment_says_so() {
        let is_ci = |value: &str| is_ci(Some(OsStr::new(value)));
        assert!(is_ci("true") && is_ci("1"));
        assert!(!is_ci("") && !is_ci("false") && !is_ci("0") && !super::is_ci(None));
    }
}
