//! Values of NFS that may be known in part: the name of a file, which other calls told, and check-sums of blocks.

use crate::Observed;
use crate::observed::Value;

/// Whether what is claimed is a part of what is true, in a field of which a part says nothing false.
pub fn is_part(told: &Observed, field: &str, claimed: Option<&Value>, truth: Option<&Value>) -> bool {
    let text = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    match (field, text(claimed), text(truth)) {
        ("path", None, Some(_)) => told.value("procedure").is_some(),
        ("path", Some(claimed), Some(truth)) => {
            told.value("procedure").is_some() && truth.ends_with(&format!("/{claimed}"))
        }
        ("block_checksums", Some(claimed), Some(truth)) if !told.is_exact() => {
            let mut truth = truth.split(' ');
            claimed.split(' ').all(|block| truth.next().is_some_and(|sum| block == "-" || block == sum))
        }
        _ => false,
    }
}
