//! Where the real captures lie: in `shared/data` beside the workspace, never inside it. Tests that want them ask
//! here and are told loudly where they are absent.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder of captures, or `None` with a loud message.
#[must_use]
pub fn corpus() -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    loudly(&format!("NO CAPTURES at {}: this test has checked NOTHING", path.display()));
    None
}

/// Past the test runner, which shows what `eprintln!` says of failed tests only.
pub fn loudly(text: &str) {
    // A closed standard error has nobody to tell.
    let _ = writeln!(std::io::stderr(), "\n*** {text} ***");
}

/// Every capture file (pcap, pcapng, also gzipped) right inside `folder` of the corpus, sorted by name.
#[must_use]
pub fn captures_in(folder: &str) -> Vec<PathBuf> {
    let Some(root) = corpus() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        loudly(&format!("NO CAPTURES in {folder} of the corpus"));
        return Vec::new();
    };
    let mut found: Vec<PathBuf> =
        entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| is_capture(p)).collect();
    found.sort();
    found
}

/// The folder with the ground truth of a capture: its name without `.gz`, then `.truth`.
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
