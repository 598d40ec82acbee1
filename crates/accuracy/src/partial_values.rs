//! Values that may be partly known: of NFS the name of a file, learned from other calls, and checksums of blocks; of PostgreSQL
//! the command of a cycle.

use crate::ObservedTuple;
use crate::observed::ObservedValue;

/// Whether a value is a part of the true value, in a field for which parts are correct.
pub fn is_part(
    told: &ObservedTuple,
    field: &str,
    claimed: Option<&ObservedValue>,
    truth: Option<&ObservedValue>,
) -> bool {
    let text = |value: Option<&ObservedValue>| match value {
        Some(ObservedValue::Text(text)) => Some(text.clone()),
        _ => None,
    };
    match (field, text(claimed), text(truth)) {
        // Later messages of the cycle are missing.
        ("command", Some(claimed), Some(_)) if claimed == "extended" => !told.is_exact(),
        ("path", None, Some(_)) => told.value("procedure").is_some(),
        ("path", Some(claimed), Some(truth)) => {
            told.value("procedure").is_some() && truth.ends_with(&format!("/{claimed}"))
        }
        ("block_checksums", Some(claimed), Some(truth)) if !told.is_exact() => {
            let mut truth = truth.split(' ');
            claimed
                .split(' ')
                .all(|block| truth.next().is_some_and(|sum| block == "-" || block == sum))
        }
        _ => false,
    }
}
