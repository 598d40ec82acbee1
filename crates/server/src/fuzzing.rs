//! Entry points of the fuzz targets: decoding of the server's own files and of requests.

use bytes::Bytes;

use crate::results::delivery;
use crate::rules::alerts::AlertSilence;
use crate::{api, gateway};

pub use crate::job::columns::every_type;

/// Decodes stored jobs, lanes and silences.
pub fn saved(text: &str) {
    if let Some(job) = gateway::job_codec::read(1, text, Bytes::new()) {
        assert_eq!(
            gateway::job_codec::read(1, &gateway::job_codec::write(&job), Bytes::new()),
            Some(job)
        );
    }
    if let Some(key) = gateway::lanes::LaneKey::read(text) {
        assert_eq!(gateway::lanes::LaneKey::read(&key.text()), Some(key));
    }
    let _ = serde_json::from_str::<gateway::lanes::LaneFacts>(text);
    if let Ok(silence) = serde_json::from_str::<AlertSilence>(text) {
        let _ = crate::rules::alerts::CompiledSilence::new(silence);
    }
}

/// Decodes URLs, headers and bodies of requests.
pub fn asked(text: &str) {
    let _ = api::read_position(text);
    let _ = api::read_time(text);
    let _ = delivery::shown_address(text);
}
