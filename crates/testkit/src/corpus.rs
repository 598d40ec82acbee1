//! Location of the large corpus of captures: `shared/data` next to the workspace, never inside it.

use std::path::{Path, PathBuf};

/// The directory of captures; `None` if it is missing and `ALLOW_MISSING` names `corpus`.
///
/// # Panics
/// If it is missing otherwise.
#[must_use]
pub fn corpus() -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    crate::require!("corpus" => path.is_dir().then_some(path).ok_or_else(|| format!("no folder {}", path.display())));
    Some(path.to_path_buf())
}

/// All capture files (pcap, pcapng, also gzipped) directly in `folder` of the corpus, sorted by name.
///
/// # Panics
/// If the corpus is missing and `ALLOW_MISSING` does not name it, or the folder has no captures.
#[must_use]
pub fn captures_in(folder: &str) -> Vec<PathBuf> {
    let Some(root) = corpus() else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| is_capture(p))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no captures in {folder} of the corpus");
    found
}

/// The directory with the ground truth of a capture: its name without `.gz`, plus `.truth`.
#[must_use]
pub fn truth_of(capture: &Path) -> PathBuf {
    let name = capture.to_string_lossy();
    PathBuf::from(format!(
        "{}.truth",
        name.strip_suffix(".gz").unwrap_or(&name)
    ))
}

fn is_capture(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    path.is_file()
        && [".pcap", ".pcapng", ".cap"]
            .iter()
            .any(|end| name.ends_with(end))
}
