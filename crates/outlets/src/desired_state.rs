//! Sends a desired state, such as numbers of replicas, to a receiver: a signed webhook, which acknowledges it, or
//! Redis, from which others read it. In Redis it changes atomically, and only if the stored version is older:
//! repetition has no effect.

use std::time::Duration;

use crate::address::{OutletAddress, OutletScheme};
use crate::redis::RedisServer;
use crate::webhook::WebhookReceiver;
use crate::worker::{DeliveryFault, MessageBody, OutletMessage, OutletTransport};

/// `PREFIX:OF` has the newest document, its version and its run; `…:servers` and `…:replicas` have the same data for
/// programs without JSON.
const SCRIPT: &str = "\
local known = redis.call('HMGET', KEYS[1], 'run', 'version')
if known[1] and ARGV[4] == 'missing' then return 0 end
if known[1] == ARGV[1] and tonumber(known[2]) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'version', ARGV[2], 'document', ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3])
local servers = tonumber(ARGV[5])
for i = 6, 5 + servers do redis.call('RPUSH', KEYS[2], ARGV[i]) end
for i = 6 + servers, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
redis.call('PUBLISH', KEYS[1], ARGV[3])
return 1";

/// A desired state.
#[derive(Clone, Debug)]
pub struct DesiredState {
    /// Name of the object.
    pub of: String,
    /// Identifies the series of versions; versions of different runs are not comparable.
    pub run: u64,
    /// Version.
    pub version: u64,
    /// Servers to use.
    pub servers: Vec<String>,
    /// Groups with more than the minimum of replicas: name and number of servers from the first on.
    pub replicas: Vec<(String, u32)>,
    /// Complete state as JSON.
    pub document: String,
}

enum DesiredStateTarget {
    Webhook(Box<WebhookReceiver>),
    Redis(Box<RedisServer>, String),
}

/// See the module documentation.
pub struct DesiredStateSender(DesiredStateTarget);

impl DesiredStateSender {
    /// A sender for this address.
    ///
    /// # Errors
    /// A message if the address does not support desired states.
    pub fn new(address: &OutletAddress) -> Result<DesiredStateSender, String> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(DesiredStateSender(match address.scheme {
            OutletScheme::Webhook | OutletScheme::WebhookTls if address.secret.is_none() => {
                return Err(
                    "decisions are signed: give the key by #secret-file=FILE or #secret-env=NAME"
                        .into(),
                );
            }
            OutletScheme::Webhook | OutletScheme::WebhookTls => {
                DesiredStateTarget::Webhook(Box::new(WebhookReceiver::new(address)?))
            }
            OutletScheme::Redis | OutletScheme::RedisTls => DesiredStateTarget::Redis(
                Box::new(RedisServer::new(address)?),
                address.text("prefix", "netalytics").to_owned(),
            ),
            other => {
                return Err(format!(
                    "{}:// cannot execute decisions: use webhook+https:// or redis://",
                    other.name()
                ));
            }
        }))
    }

    /// One attempt. `Ok`: the state, or a newer one, is stored.
    ///
    /// # Errors
    /// See [`DeliveryFault`].
    pub fn give(&mut self, wanted: &DesiredState, patience: Duration) -> Result<(), DeliveryFault> {
        match &mut self.0 {
            DesiredStateTarget::Webhook(receiver) => {
                let id = format!("action_{:x}_{}_{}", wanted.run, wanted.of, wanted.version);
                receiver.post(&id, wanted.document.as_bytes(), patience)
            }
            DesiredStateTarget::Redis(server, prefix) => {
                set(server, prefix, wanted, "newer", patience)
            }
        }
    }

    /// One attempt to restore a state that Redis may have lost. `Ok`: the last state, or another one, is stored;
    /// webhooks store it themselves.
    ///
    /// # Errors
    /// See [`DeliveryFault`].
    pub fn remind(
        &mut self,
        wanted: &DesiredState,
        patience: Duration,
    ) -> Result<(), DeliveryFault> {
        match &mut self.0 {
            DesiredStateTarget::Webhook(_) => Ok(()),
            DesiredStateTarget::Redis(server, prefix) => {
                set(server, prefix, wanted, "missing", patience)
            }
        }
    }
}

fn set(
    server: &mut RedisServer,
    prefix: &str,
    wanted: &DesiredState,
    when: &str,
    patience: Duration,
) -> Result<(), DeliveryFault> {
    let body = MessageBody::Commands(commands(prefix, wanted, when));
    server.send(
        &OutletMessage {
            body,
            rows: 0,
            number: wanted.version,
        },
        patience,
    )
}

fn commands(prefix: &str, wanted: &DesiredState, when: &str) -> redis::Pipeline {
    let key = format!("{prefix}:{}", wanted.of);
    let mut commands = redis::pipe();
    let command = commands.cmd("EVAL").arg(SCRIPT).arg(3);
    command
        .arg(&key)
        .arg(format!("{key}:servers"))
        .arg(format!("{key}:replicas"));
    command
        .arg(format!("{:x}", wanted.run))
        .arg(wanted.version)
        .arg(&wanted.document)
        .arg(when);
    command.arg(wanted.servers.len());
    for server in &wanted.servers {
        command.arg(server);
    }
    for (group, n) in &wanted.replicas {
        command.arg(group).arg(*n);
    }
    commands
}
