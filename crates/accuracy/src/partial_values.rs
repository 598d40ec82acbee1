//! Values that may be partly known: of NFS the name of a file, learned from other calls, and checksums of blocks; of PostgreSQL
//! the command of a cycle; of Kafka the name of a topic.

use crate::observed::ObservedValue;
use crate::{ObservedTuple, PacketRecording};

/// Length of NFSv3's attributes.
const ATTRIBUTE_BYTES: usize = 84;

/// Whether a value is a part of the true value, in a field for which parts are correct; or a path that is longer by a name stated in the
/// recording.
pub fn is_part(
    recording: &PacketRecording,
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
        // The response that names the topic is missing.
        ("topic", Some(claimed), Some(_))
            if text(told.value("topic_id")).as_ref() == Some(&claimed) =>
        {
            true
        }
        // An error whose code is cut off.
        ("error_code", Some(claimed), Some(_)) if claimed == "?" => !told.is_exact(),
        // A Query without its results, whose number is unknown: all of its statements.
        ("query" | "fingerprint" | "summary", Some(claimed), Some(truth)) if told.is_half() => {
            text(told.value("command")).as_deref() == Some("query") && claimed.contains(&truth)
        }
        ("path", None, Some(_)) => told.value("procedure").is_some(),
        ("path", Some(claimed), truth) => {
            told.value("procedure").is_some()
                && (truth
                    .as_ref()
                    .is_some_and(|truth| truth.ends_with(&format!("/{claimed}")))
                    || is_named(recording, told, &claimed, truth.as_deref()))
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

/// Whether a path is longer than the true one by the name of its directory, and an entry of a READDIRPLUS has this name and the
/// directory's handle. A client may reuse its port within the time by which packets are late: then names of the connection before are
/// known, too.
fn is_named(
    recording: &PacketRecording,
    told: &ObservedTuple,
    claimed: &str,
    truth: Option<&str>,
) -> bool {
    let text = |field: &str| match told.value(field) {
        Some(ObservedValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let directory = match truth {
        None => Some(claimed),
        Some(truth) if text("name") == Some(truth) => claimed
            .strip_suffix(truth)
            .and_then(|front| front.strip_suffix('/')),
        Some(_) => None,
    };
    let handle = text("file_handle").map(|digits| {
        let pairs = digits.as_bytes().chunks(2);
        let pairs = pairs.filter_map(|pair| std::str::from_utf8(pair).ok());
        pairs
            .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
            .collect::<Vec<u8>>()
    });
    let Some((name, handle)) = directory.zip(handle) else {
        return false;
    };
    let opaque = |bytes: &[u8]| {
        let padding = bytes.len().wrapping_neg() % 4;
        [
            &(bytes.len() as u32).to_be_bytes(),
            bytes,
            &[0; 3][..padding],
        ]
        .concat()
    };
    let name = opaque(name.as_bytes());
    let end = [&[0, 0, 0, 1][..], &opaque(&handle)].concat();
    // Between name and handle: the cookie, and the attributes, which may be absent.
    let is_entry = |bytes: &[u8], at: usize| {
        [0, ATTRIBUTE_BYTES].into_iter().any(|attributes| {
            at.checked_sub(8 + 4 + attributes)
                .is_some_and(|to| bytes[..to].ends_with(&name))
        })
    };
    (0..recording.len()).any(|packet| {
        let bytes = recording.bytes_of(packet);
        let mut places = bytes.windows(end.len()).enumerate();
        places.any(|(at, window)| window == end && is_entry(bytes, at))
    })
}
