//! Sends single documents to receivers of alerts: signed webhooks, and Alertmanager.

use std::time::Duration;

use crate::address::{Address, Scheme};
use crate::post::{Poster, authorization};
use crate::webhook::Receiver;
use crate::worker::Fault;

/// Path of Alertmanager's API for alerts.
const ALERTS: &str = "/api/v2/alerts";

/// See the module documentation.
pub enum Courier {
    /// Sends to a webhook.
    Webhook(Receiver),
    /// Sends to an Alertmanager.
    Alertmanager(Poster, Option<String>),
}

impl Courier {
    /// A sender for this address.
    ///
    /// # Errors
    /// A message if the address does not accept alerts.
    pub fn new(address: &Address) -> Result<Courier, String> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match address.scheme {
            Scheme::Webhook | Scheme::WebhookTls => Ok(Courier::Webhook(Receiver::new(address)?)),
            Scheme::Alertmanager | Scheme::AlertmanagerTls => {
                Ok(Courier::Alertmanager(Poster::new(address, ALERTS)?, authorization(address)))
            }
            other => Err(format!(
                "{}:// takes no alerts: webhook+https:// and alertmanager+http:// do",
                other.name()
            )),
        }
    }

    /// One attempt; `id`: identifier of the document for webhooks, the same in all attempts.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn send(&self, id: &str, body: &[u8], patience: Duration) -> Result<(), Fault> {
        match self {
            Courier::Webhook(receiver) => receiver.post(id, body, patience),
            Courier::Alertmanager(poster, authorization) => {
                let mut headers = vec![("content-type", "application/json".to_owned())];
                headers.extend(authorization.clone().map(|value| ("authorization", value)));
                poster.post(&headers, body, patience).map(drop)
            }
        }
    }
}
