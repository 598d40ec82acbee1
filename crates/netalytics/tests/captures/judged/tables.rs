//! Files with the truth of a capture.

use crate::captures;

/// Lines of a file in tab-separated columns.
pub fn table(folder: &str, file: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(captures().join(folder).join(file))
        .expect("the truth of the capture");
    text.lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}
