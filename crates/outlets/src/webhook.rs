//! Sends a window's rows as JSON to a webhook, signed according to Standard Webhooks: an identifier that is the same in
//! retries, the time of the attempt, and an HMAC-SHA-256 of both and the body.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;
use serde_json::{Value, json};
use sinks::ResultHead;

use crate::address::OutletAddress;
use crate::lines::lines;
use crate::post::HttpPoster;
use crate::queue::OutletItem;
use crate::windows::{OpenWindows, RowWindow};
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport, RowMapping};

/// Maximum rows per message.
const ROWS_MAX: usize = 1000;

/// Converts a window to one or several messages.
#[derive(Default)]
pub struct WebhookMapping {
    windows: OpenWindows,
    number: u64,
}

impl WebhookMapping {
    fn make(&mut self, windows: Vec<RowWindow>, out: &mut Vec<OutletMessage>) {
        for window in windows {
            let Some(heads) = self.windows.heads() else {
                continue;
            };
            for (body, rows) in messages(heads, &window) {
                self.number += 1;
                out.push(OutletMessage {
                    body: MessageBody::Bytes(body),
                    rows,
                    number: self.number,
                });
            }
        }
    }
}

/// `{"processor":…,"window_start":…,"window_end":…,"part":1,"rows":[{…},…]}`; for tuples without the first three.
fn messages(heads: &[ResultHead], window: &RowWindow) -> Vec<(Vec<u8>, u64)> {
    let mut rows: Vec<Vec<u8>> = Vec::new();
    for batch in &window.batches {
        let text = lines(heads, window.result, batch);
        rows.extend(
            text.split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(<[u8]>::to_vec),
        );
    }
    let mut about = serde_json::Map::new();
    if let Some(processor) = heads
        .get(window.result)
        .and_then(|head| head.processor.clone())
    {
        about.insert("processor".into(), processor.into());
    }
    if let Some((start, end)) = window.bounds {
        about.insert("window_start".into(), start.into());
        about.insert("window_end".into(), end.into());
    }
    let parts = rows.len().div_ceil(ROWS_MAX);
    let message = |(part, rows): (usize, &[Vec<u8>])| {
        let mut about = about.clone();
        about.insert("part".into(), json!(part + 1));
        about.insert("parts".into(), json!(parts));
        let mut body = Value::Object(about).to_string().into_bytes();
        body.pop();
        body.extend_from_slice(b",\"rows\":[");
        body.extend_from_slice(&rows.join(&b','));
        body.extend_from_slice(b"]}");
        (body, rows.len() as u64)
    };
    rows.chunks(ROWS_MAX).enumerate().map(message).collect()
}

impl RowMapping for WebhookMapping {
    fn take(&mut self, item: OutletItem, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.take(item);
        self.make(windows, out);
    }

    fn finish(&mut self, out: &mut Vec<OutletMessage>) {
        let windows = self.windows.finish();
        self.make(windows, out);
    }
}

/// A webhook receiver.
pub struct WebhookReceiver {
    poster: HttpPoster,
    key: Option<hmac::Key>,
    /// Prefix of the identifiers of its messages.
    run: u64,
}

impl WebhookReceiver {
    /// The receiver at this address.
    ///
    /// # Errors
    /// A message.
    pub fn new(address: &OutletAddress) -> Result<WebhookReceiver, String> {
        let key = address
            .secret
            .as_ref()
            .map(|secret| key(secret.reveal()))
            .transpose()?;
        Ok(WebhookReceiver {
            poster: HttpPoster::new(address, "/")?,
            key,
            run: RandomState::new().hash_one("run"),
        })
    }
}

impl WebhookReceiver {
    /// Sets the prefix of identifiers to `run`.
    pub fn of_run(self, run: u64) -> WebhookReceiver {
        WebhookReceiver { run, ..self }
    }
}

/// `whsec_` and the key in base64, or the key as plain text.
fn key(secret: &str) -> Result<hmac::Key, String> {
    let bytes = match secret.strip_prefix("whsec_") {
        Some("") => return Err("the key after whsec_ is empty".into()),
        Some(text) => base64(text).ok_or("the key after whsec_ must be base64")?,
        None => secret.as_bytes().to_vec(),
    };
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

/// `v1,` and the signature in base64.
fn sign(key: &hmac::Key, id: &str, seconds: u64, body: &[u8]) -> String {
    use base64::Engine as _;
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{id}.{seconds}.").as_bytes());
    context.update(body);
    format!(
        "v1,{}",
        base64::engine::general_purpose::STANDARD.encode(context.sign())
    )
}

impl OutletTransport for WebhookReceiver {
    fn send(&mut self, message: &OutletMessage, patience: Duration) -> Result<(), DeliveryFault> {
        let id = format!("msg_{:016x}_{}", self.run, message.number);
        self.post(&id, message.body.bytes(), patience)
    }
}

impl WebhookReceiver {
    /// Posts JSON with this identifier, signed with the current time.
    pub(crate) fn post(
        &self,
        id: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<(), DeliveryFault> {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("idempotency-key", id.to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
        ];
        headers.extend(
            self.key
                .as_ref()
                .map(|key| ("webhook-signature", sign(key, id, seconds, body))),
        );
        self.poster.post(&headers, body, patience).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{head, result};

    /// Example of the Standard Webhooks specification.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(super::key("whsec_!").is_err());
    }

    #[test]
    fn a_window_is_a_message() {
        let mut batches = WebhookMapping::default();
        let mut made = Vec::new();
        let rows = result(&[(0, "/a", 2), (0, "/b", 1), (10, "/b", 3)]);
        for item in [
            OutletItem::Heads([head()].into()),
            OutletItem::Rows(0, rows),
            OutletItem::Complete,
        ] {
            batches.take(item, &mut made);
        }
        batches.finish(&mut made);
        let bodies: Vec<Value> = made
            .iter()
            .map(|message| serde_json::from_slice(message.body.bytes()).expect("JSON"))
            .collect();
        assert_eq!(bodies.len(), 2);
        assert_eq!(bodies[0]["processor"], "group-count");
        assert_eq!(
            (&bodies[1]["window_start"], &bodies[1]["parts"]),
            (&json!(10_000_000_000_i64), &json!(1))
        );
        assert_eq!(bodies[0]["rows"][1]["url_template"], "/b");
        assert_eq!(bodies[0]["rows"].as_array().map(Vec::len), Some(2));
    }
}
