//! Access control: tokens with a role and networks. The secret of a token is shown once, at creation; only its SHA-256
//! is stored. A plain hash suffices because a secret is 256 random bits.

use std::net::IpAddr;

use plan::{AddressMatch, MonitorSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::store::sqlite::{StoreError, StoredToken, TokenStore};

/// Role of a token; each includes the permissions of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[schema(as = Role)]
#[serde(rename_all = "lowercase")]
pub enum AccessRole {
    /// Connect as the agent named by the token; nothing else.
    Agent,
    /// View jobs, their rows, and agents.
    View,
    /// Start jobs, and stop own jobs.
    Run,
    /// Read raw tuples and unredacted texts.
    Raw,
    /// Everything: tokens, the audit log, jobs of others.
    Admin,
}

impl AccessRole {
    /// Name of the role.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AccessRole::Agent => "agent",
            AccessRole::View => "view",
            AccessRole::Run => "run",
            AccessRole::Raw => "raw",
            AccessRole::Admin => "admin",
        }
    }

    fn of(word: &str) -> AccessRole {
        let known = [
            AccessRole::View,
            AccessRole::Run,
            AccessRole::Raw,
            AccessRole::Admin,
        ];
        known
            .into_iter()
            .find(|role| role.word() == word)
            .unwrap_or(AccessRole::Agent)
    }
}

/// Networks to which a token is restricted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkScope(Vec<(IpAddr, u8)>);

impl NetworkScope {
    /// Reads networks in CIDR notation, in any order; none: no restriction.
    ///
    /// # Errors
    /// The first text that is not a network.
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<NetworkScope, String> {
        let mut networks: Vec<_> = texts.into_iter().map(network).collect::<Result<_, _>>()?;
        networks.sort_unstable();
        networks.dedup();
        Ok(NetworkScope(networks))
    }

    /// Whether a query stays within these networks: its conditions restrict all clients or all servers to them.
    #[must_use]
    pub fn allows(&self, asked: &MonitorSpec) -> bool {
        let within =
            |ends: &[AddressMatch]| !ends.is_empty() && ends.iter().all(|end| self.holds(end));
        self.0.is_empty() || within(&asked.clients) || within(&asked.servers)
    }

    /// Whether an address lies within these networks.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        self.0.is_empty() || self.0.iter().any(|net| lies_in((address, whole), *net))
    }

    fn holds(&self, end: &AddressMatch) -> bool {
        end.net
            .is_some_and(|inner| self.0.iter().any(|net| lies_in(inner, *net)))
    }

    fn text(&self) -> String {
        let texts: Vec<_> = self
            .0
            .iter()
            .map(|(net, length)| format!("{net}/{length}"))
            .collect();
        texts.join(" ")
    }
}

/// Reads a network in CIDR notation, or an address.
pub(crate) fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let read = || {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = if length.is_empty() {
            most
        } else {
            length.parse().ok().filter(|n| *n <= most)?
        };
        Some((address, length))
    };
    read().ok_or_else(|| format!("`{text}` is not a network, such as 10.1.0.0/16 or 2001:db8::/32"))
}

/// Whether the first network is contained in the second.
pub(crate) fn lies_in((address, length): (IpAddr, u8), (net, prefix): (IpAddr, u8)) -> bool {
    let both = (octets(net), octets(address));
    net.is_ipv4() == address.is_ipv4() && length >= prefix && same_bits(both, usize::from(prefix))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn same_bits((a, b): (Vec<u8>, Vec<u8>), bits: usize) -> bool {
    let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (7 - i % 8) & 1;
    (0..bits).all(|i| bit(&a, i) == bit(&b, i))
}

/// A token without its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub struct AccessToken {
    /// Identifier.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Role.
    pub role: AccessRole,
    /// Networks to which it is restricted; empty: none.
    pub networks: Vec<String>,
    /// Time of creation, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub created_ns: i64,
    /// Time of expiration, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub expires_ns: Option<i64>,
}

impl From<StoredToken> for AccessToken {
    fn from(stored: StoredToken) -> AccessToken {
        AccessToken {
            id: stored.id,
            role: AccessRole::of(&stored.role),
            networks: stored
                .networks
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            name: stored.name,
            created_ns: stored.created_ns,
            expires_ns: stored.expires_ns,
        }
    }
}

/// A new token with its secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: AccessToken,
    /// The secret; not stored, shown only once.
    pub secret: String,
}

/// Identity and permissions of a client.
#[derive(Clone, Debug)]
pub struct ClientAccess {
    /// Token identifier.
    pub id: i64,
    /// Token name.
    pub name: String,
    /// Role.
    pub role: AccessRole,
    /// Networks to which the client is restricted.
    pub scope: NetworkScope,
}

impl ClientAccess {
    /// Whether the client is restricted to networks.
    #[must_use]
    pub fn is_scoped(&self) -> bool {
        self.scope != NetworkScope::default()
    }

    /// Whether the client may see and change everything: an admin without restriction to networks.
    #[must_use]
    pub fn is_admin_of_all(&self) -> bool {
        self.role >= AccessRole::Admin && !self.is_scoped()
    }

    fn of(token: StoredToken) -> Option<ClientAccess> {
        // Unreadable networks deny access instead of lifting the restriction.
        let scope = NetworkScope::of(token.networks.split_whitespace()).ok()?;
        Some(ClientAccess {
            id: token.id,
            role: AccessRole::of(&token.role),
            name: token.name,
            scope,
        })
    }
}

/// Creates a token; `None` if the name exists.
pub fn make(
    store: &TokenStore,
    name: &str,
    role: AccessRole,
    scope: &NetworkScope,
    expires_ns: Option<i64>,
) -> Result<Option<NewToken>, StoreError> {
    let secret = format!("nl_{}", random_hex());
    let made = store.add(
        (name, role.word(), &scope.text()),
        &hash(&secret),
        expires_ns,
    )?;
    Ok(made.map(|token| NewToken {
        token: token.into(),
        secret,
    }))
}

/// Finds the token with this hash.
pub fn find_hash(store: &TokenStore, hash: &[u8]) -> Result<Option<ClientAccess>, StoreError> {
    Ok(store.find(hash)?.and_then(ClientAccess::of))
}

/// Hash of a secret, as stored.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// 256 random bits in hexadecimal.
pub fn random_hex() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system provides random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(scope: &[&str], from: &[&str], to: &[&str]) -> bool {
        let ends = |texts: &[&str]| -> Vec<AddressMatch> {
            let end = |text: &&str| {
                let NetworkScope(nets) =
                    NetworkScope::of((*text != "*").then_some(*text)).expect("a network");
                AddressMatch {
                    net: nets.first().copied(),
                    port: Some(80),
                }
            };
            texts.iter().map(end).collect()
        };
        let spec = MonitorSpec {
            clients: ends(from),
            servers: ends(to),
            ..MonitorSpec::default()
        };
        NetworkScope::of(scope.iter().copied())
            .expect("networks")
            .allows(&spec)
    }

    #[test]
    fn a_scope_holds_queries_to_its_networks() {
        for (scope, from, to, allowed) in [
            (&[][..], &[][..], &[][..], true),
            (&["10.1.0.0/16"], &[], &[], false),
            (&["10.1.0.0/16"], &[], &["10.1.2.3"], true),
            (&["10.1.0.0/16"], &["10.1.2.0/24"], &[], true),
            (&["10.1.0.0/16"], &[], &["10.0.0.0/8"], false),
            (&["10.1.0.0/16"], &[], &["10.1.0.0/16"], true),
            (&["10.1.0.0/16"], &[], &["10.1.2.3", "10.2.0.1"], false),
            (&["10.1.0.0/16"], &[], &["*"], false),
            (&["10.1.0.0/16"], &["*"], &["10.1.2.3"], true),
            (&["10.1.0.0/17"], &[], &["10.1.128.1"], false),
            (
                &["10.1.0.0/16", "2001:db8::/32"],
                &[],
                &["2001:db8:1::/48"],
                true,
            ),
            (&["2001:db8::/32"], &[], &["10.1.2.3"], false),
            (&["0.0.0.0/0"], &[], &["2001:db8::1"], false),
        ] {
            assert_eq!(
                allows(scope, from, to),
                allowed,
                "{scope:?} {from:?} {to:?}"
            );
        }
    }

    #[test]
    fn invalid_networks_are_rejected() {
        for text in ["10.0.0.0/33", "x", "10.0.0.0/-1", "::/129", ""] {
            assert!(NetworkScope::of([text]).is_err(), "{text}");
        }
    }
}
