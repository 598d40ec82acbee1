//! Values of NFS that may be partly known: the name of a file, learned from other calls, and checksums of blocks.

use crate::Observed;
use crate::observed::Value;

/// Whether a value is a part of the true value, in a field for which parts are correct.
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
