//! The fields of a tuple, from the stored forms of its request and response.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tuple::{FieldId, TupleWriter};

use super::columns::{
    ACKS, API, API_VERSION, BASE_OFFSET, CLIENT_ID, COMPRESSION, ERROR, GROUP, HIGH_WATERMARK, LAG,
    LAST_OFFSET, MAX_WAIT_NS, MIN_BYTES, OK, PARTITION, PARTITIONS, RECORD_BYTES, RECORDS,
    THROTTLE_TIME_NS, TOPIC, TOPIC_ID, TOPICS, TRANSACTIONAL_ID,
};
use super::digest::{DigestNumber, DigestText, DigestView};
use super::{errors, header};

const PRODUCE: i64 = 0;
const FETCH: i64 = 1;
const SHARE_FETCH: i64 = 78;
const COMPRESSIONS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
const NANOS: i64 = 1_000_000;

/// Whether the broker waited for records. `elapsed`: time of the response in nanoseconds. `None`: not known.
pub fn waits(
    request: DigestView<'_>,
    response: DigestView<'_>,
    elapsed: Option<i64>,
) -> Option<bool> {
    let longest = request.get(DigestNumber::MaxWait).filter(|ms| *ms > 0);
    let Some(longest) = longest else {
        return Some(false);
    };
    if elapsed.is_some_and(|elapsed| elapsed >= longest.saturating_mul(NANOS / 10 * 9)) {
        return Some(true);
    }
    if response.get(DigestNumber::Error).is_some() {
        return Some(false);
    }
    let bytes = response.get(DigestNumber::RecordBytes).unwrap_or(0);
    let least = request.get(DigestNumber::MinBytes)?;
    (bytes >= least || response.is_whole()).then_some(bytes < least)
}

/// Writes the fields.
pub fn write(
    request: Option<DigestView<'_>>,
    response: Option<DigestView<'_>>,
    w: &mut TupleWriter,
) {
    if let Some(request) = request {
        write_request(request, w);
    }
    if let Some(response) = response {
        write_response(response, w);
    }
    let number = |w: &mut TupleWriter, field: FieldId, value: Option<i64>| {
        if let Some(value) = value {
            w.i64(field, value);
        }
    };
    let mut views = [response, request].into_iter().flatten();
    if let Some(view) = views.find(|view| view.only(DigestNumber::Topics, Some(())).is_some()) {
        write_topic(view, w);
    }
    let mut views = [response, request].into_iter().flatten();
    let partition = views
        .find_map(|view| view.only(DigestNumber::Partitions, view.get(DigestNumber::Partition)));
    number(w, PARTITION, partition);
    let key = request.and_then(|request| request.get(DigestNumber::Key));
    let batches = match key {
        Some(PRODUCE) => request,
        Some(FETCH | SHARE_FETCH) => response,
        _ => None,
    };
    if let Some(batches) = batches {
        write_records(batches, w);
    }
    let offsets = match (key, request, response) {
        (Some(PRODUCE), Some(request), Some(response)) => produced(request, response),
        (Some(FETCH), Some(request), Some(response)) => {
            let lag = fetched_lag(request, response);
            number(w, LAG, lag);
            response.only(DigestNumber::Partitions, Some(())).map(|()| {
                (
                    response.get(DigestNumber::BaseOffset),
                    response.get(DigestNumber::LastOffset),
                )
            })
        }
        _ => None,
    };
    if let Some((base, last)) = offsets {
        number(w, BASE_OFFSET, base);
        number(w, LAST_OFFSET, last);
    }
}

fn write_request(request: DigestView<'_>, w: &mut TupleWriter) {
    if let Some(name) = request
        .get(DigestNumber::Key)
        .and_then(|key| header::name(key as i16))
    {
        w.text(API, name.as_bytes());
    }
    for (field, of) in [
        (API_VERSION, DigestNumber::Version),
        (ACKS, DigestNumber::Acks),
    ] {
        if let Some(value) = request.get(of) {
            w.i64(field, value);
        }
    }
    for (field, of) in [
        (CLIENT_ID, DigestText::Client),
        (GROUP, DigestText::Group),
        (TRANSACTIONAL_ID, DigestText::Transaction),
    ] {
        if let Some(text) = request.text(of) {
            w.text(field, text);
        }
    }
    for (field, of) in [
        (TOPICS, DigestNumber::Topics),
        (PARTITIONS, DigestNumber::Partitions),
        (MIN_BYTES, DigestNumber::MinBytes),
    ] {
        if let Some(value) = request
            .total(of)
            .and_then(|value| u64::try_from(value).ok())
        {
            w.u64(field, value);
        }
    }
    if let Some(wait) = request.get(DigestNumber::MaxWait) {
        w.i64(MAX_WAIT_NS, wait.saturating_mul(NANOS));
    }
}

fn write_response(response: DigestView<'_>, w: &mut TupleWriter) {
    if let Some(code) = response.get(DigestNumber::Error) {
        match errors::name(code) {
            Some(name) => w.text(ERROR, name.as_bytes()),
            None => w.text(ERROR, code.to_string().as_bytes()),
        }
        w.bool(OK, false);
    } else if response.is_whole() {
        w.bool(OK, true);
    }
    if let Some(time) = response.get(DigestNumber::Throttle) {
        w.i64(THROTTLE_TIME_NS, time.saturating_mul(NANOS));
    }
    let high = response.get(DigestNumber::HighWatermark);
    if let Some(offset) = response.only(DigestNumber::Partitions, high) {
        w.i64(HIGH_WATERMARK, offset);
    }
}

fn write_topic(view: DigestView<'_>, w: &mut TupleWriter) {
    let id = view.text(DigestText::TopicId).filter(|id| id.len() == 16);
    let mut text = [0; 22];
    let id = id.and_then(|id| URL_SAFE_NO_PAD.encode_slice(id, &mut text).ok());
    let id = id.map(|length| &text[..length]);
    if let Some(id) = id {
        w.text(TOPIC_ID, id);
    }
    if let Some(topic) = view.text(DigestText::Topic).or(id) {
        w.text(TOPIC, topic);
    }
}

fn write_records(batches: DigestView<'_>, w: &mut TupleWriter) {
    for (field, of) in [
        (RECORDS, DigestNumber::Records),
        (RECORD_BYTES, DigestNumber::RecordBytes),
    ] {
        if let Some(value) = batches.total(of) {
            w.u64(field, value as u64);
        }
    }
    let compression = batches.get(DigestNumber::Compression);
    if let Some(name) = compression.and_then(|of| COMPRESSIONS.get(of as usize)) {
        w.text(COMPRESSION, name.as_bytes());
    }
}

/// First and last offset that a broker assigned.
fn produced(
    request: DigestView<'_>,
    response: DigestView<'_>,
) -> Option<(Option<i64>, Option<i64>)> {
    let base = response
        .get(DigestNumber::BaseOffset)
        .filter(|base| *base >= 0);
    let base = response.only(DigestNumber::Partitions, base)?;
    let records = request.only(DigestNumber::Partitions, request.get(DigestNumber::Records));
    let last = records
        .filter(|records| *records > 0)
        .map(|records| base + records - 1);
    Some((Some(base), last))
}

/// Records behind those fetched; without records, behind the offset of the only partition.
fn fetched_lag(request: DigestView<'_>, response: DigestView<'_>) -> Option<i64> {
    response.total(DigestNumber::Lag).or_else(|| {
        let offset = request.get(DigestNumber::FetchOffset);
        let offset = request.only(DigestNumber::Partitions, offset)?;
        let high = response.get(DigestNumber::HighWatermark);
        let high = response.only(DigestNumber::Partitions, high)?;
        let is_empty = response.get(DigestNumber::RecordBytes).unwrap_or(0) == 0;
        (is_empty && offset >= 0 && response.get(DigestNumber::Error).is_none())
            .then(|| high.saturating_sub(offset).max(0))
    })
}
