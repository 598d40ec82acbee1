//! Takes what is to stand, as how many replicas something is to have, to who makes it so: a signed webhook, which says that it has, or Redis,
//! from where others read it. In Redis all of it changes at once, and only where what is there is older: the same again changes nothing.

use std::time::Duration;

use crate::address::{Address, Scheme};
use crate::redis::Server;
use crate::webhook::Receiver;
use crate::worker::{Body, Fault, Message, Transport};

/// `PREFIX:OF` has the newest document, its number and whose it is; `…:servers` and `…:replicas` the same for programs that read no JSON.
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

/// What is to stand.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Of what.
    pub of: String,
    /// Whose numbers these are: of another life they are no measure.
    pub run: u64,
    /// Its number.
    pub version: u64,
    /// The servers that are to be used.
    pub servers: Vec<String>,
    /// How many of them, from the first on, each group is to have that has more than the least.
    pub replicas: Vec<(String, u32)>,
    /// All of it, as JSON.
    pub document: String,
}

enum Way {
    Webhook(Box<Receiver>),
    Redis(Box<Server>, String),
}

/// See the module's text.
pub struct Steward(Way);

impl Steward {
    /// A steward for this address.
    ///
    /// # Errors
    /// A message if the address has no support for desired states.
    pub fn new(address: &Address) -> Result<Steward, String> {
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Steward(match address.scheme {
            Scheme::Webhook | Scheme::WebhookTls if address.secret.is_none() => {
                return Err(
                    "what is decided is signed: say with #secret-file=FILE or #secret-env=NAME by which key"
                        .into(),
                );
            }
            Scheme::Webhook | Scheme::WebhookTls => Way::Webhook(Box::new(Receiver::new(address)?)),
            Scheme::Redis | Scheme::RedisTls => {
                Way::Redis(Box::new(Server::new(address)?), address.text("prefix", "netalytics").to_owned())
            }
            other => {
                return Err(format!(
                    "{}:// carries nothing out: webhook+https:// and redis:// do",
                    other.name()
                ));
            }
        }))
    }

    /// One attempt. `Ok`: it stands there, or something newer does.
    ///
    /// # Errors
    /// Why it does not.
    pub fn give(&mut self, wanted: &Wanted, patience: Duration) -> Result<(), Fault> {
        match &mut self.0 {
            Way::Webhook(receiver) => {
                let id = format!("action_{:x}_{}_{}", wanted.run, wanted.of, wanted.version);
                receiver.post(&id, wanted.document.as_bytes(), patience)
            }
            Way::Redis(server, prefix) => set(server, prefix, wanted, "newer", patience),
        }
    }

    /// One attempt. `Ok`: what it was given last stands there, or something else does, also where it had been forgotten; a webhook keeps it for
    /// itself.
    ///
    /// # Errors
    /// Why it does not.
    pub fn remind(&mut self, wanted: &Wanted, patience: Duration) -> Result<(), Fault> {
        match &mut self.0 {
            Way::Webhook(_) => Ok(()),
            Way::Redis(server, prefix) => set(server, prefix, wanted, "missing", patience),
        }
    }
}

fn set(
    server: &mut Server,
    prefix: &str,
    wanted: &Wanted,
    when: &str,
    patience: Duration,
) -> Result<(), Fault> {
    let body = Body::Commands(commands(prefix, wanted, when));
    server.send(&Message { body, rows: 0, number: wanted.version }, patience)
}

fn commands(prefix: &str, wanted: &Wanted, when: &str) -> redis::Pipeline {
    let key = format!("{prefix}:{}", wanted.of);
    let mut commands = redis::pipe();
    let command = commands.cmd("EVAL").arg(SCRIPT).arg(3);
    command.arg(&key).arg(format!("{key}:servers")).arg(format!("{key}:replicas"));
    command.arg(format!("{:x}", wanted.run)).arg(wanted.version).arg(&wanted.document).arg(when);
    command.arg(wanted.servers.len());
    for server in &wanted.servers {
        command.arg(server);
    }
    for (group, n) in &wanted.replicas {
        command.arg(group).arg(*n);
    }
    commands
}
