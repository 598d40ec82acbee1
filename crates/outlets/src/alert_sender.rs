//! Sends single documents to receivers of alerts: signed webhooks, and Alertmanager.

use std::time::Duration;

use crate::address::{OutletAddress, OutletScheme};
use crate::post::{HttpPoster, authorization};
use crate::webhook::WebhookReceiver;
use crate::worker::DeliveryFault;

/// Path of Alertmanager's API for alerts.
const ALERTS: &str = "/api/v2/alerts";

/// See the module documentation.
pub enum AlertSender {
    /// Sends to a webhook.
    Webhook(WebhookReceiver),
    /// Sends to an Alertmanager.
    Alertmanager(HttpPoster, Option<String>),
}

impl AlertSender {
    /// A sender for this address.
    ///
    /// # Errors
    /// A message if the address does not accept alerts.
    pub fn new(address: &OutletAddress) -> Result<AlertSender, String> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match address.scheme {
            OutletScheme::Webhook | OutletScheme::WebhookTls => {
                Ok(AlertSender::Webhook(WebhookReceiver::new(address)?))
            }
            OutletScheme::Alertmanager | OutletScheme::AlertmanagerTls => {
                Ok(AlertSender::Alertmanager(
                    HttpPoster::new(address, ALERTS)?,
                    authorization(address),
                ))
            }
            other => Err(format!(
                "{}:// does not accept alerts: use webhook+https:// or alertmanager+http://",
                other.name()
            )),
        }
    }

    /// One attempt; `id`: identifier of the document for webhooks, the same in all attempts.
    ///
    /// # Errors
    /// See [`DeliveryFault`].
    pub fn send(&self, id: &str, body: &[u8], patience: Duration) -> Result<(), DeliveryFault> {
        match self {
            AlertSender::Webhook(receiver) => receiver.post(id, body, patience),
            AlertSender::Alertmanager(poster, authorization) => {
                let mut headers = vec![("content-type", "application/json".to_owned())];
                headers.extend(authorization.clone().map(|value| ("authorization", value)));
                poster.post(&headers, body, patience).map(drop)
            }
        }
    }
}
