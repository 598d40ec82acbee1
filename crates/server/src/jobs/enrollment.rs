//! Enrollment of agents: an admin creates a one-time token for a name; the host generates a key and requests a
//! certificate with the token, and renews the certificate before it expires. The admin chooses the name; nothing that
//! an agent sends does.

use identity::{CertificateLifetime, CertificateSerial, VerifiedPeer};
use serde::Serialize;
use utoipa::ToSchema;

use crate::store::access::{hash, random_hex};
use crate::store::service_error::ServiceError;
use crate::store::sqlite::{EnrollmentStore, now_ns};
use crate::store::tls::ServerTls;

/// Maximum validity of an invitation.
pub const INVITATION_SECONDS_MAX: u32 = 7 * 86_400;
const SECOND_NS: i64 = 1_000_000_000;

/// A one-time token for the enrollment of a host.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Invitation {
    /// Name of the agent.
    pub agent: String,
    /// The token; not stored, shown only once. If the server's certificate is signed by the server's own authority, the
    /// fingerprint of that authority follows the period.
    pub token: String,
    /// Time of expiration, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub expires_ns: i64,
}

/// A certificate issued to an agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Certified)]
pub struct AgentCertificate {
    /// Name of the agent.
    pub agent: String,
    /// Certificate, PEM.
    pub certificate: String,
    /// Certificate of the issuing authority, PEM.
    pub authority: String,
    /// Time of expiration, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub good_until_ns: i64,
}

/// Requests about the enrollment of agents.
pub struct EnrollmentRequests {
    store: EnrollmentStore,
}

impl EnrollmentRequests {
    /// Accepts requests about the enrollments in `store`.
    pub fn new(store: EnrollmentStore) -> EnrollmentRequests {
        EnrollmentRequests { store }
    }

    /// Creates a one-time token.
    pub fn invite(
        &self,
        tls: &ServerTls,
        agent: &str,
        seconds: u32,
    ) -> Result<Invitation, ServiceError> {
        identity::check_name(agent).map_err(|why| ServiceError::Invalid(why.to_string()))?;
        let secret = format!("nle_{}", random_hex());
        let expires_ns = now_ns() + i64::from(seconds.min(INVITATION_SECONDS_MAX)) * SECOND_NS;
        self.store.invite(agent, &hash(&secret), expires_ns)?;
        let pin = tls.pin().map(|pin| format!(".{pin}")).unwrap_or_default();
        Ok(Invitation {
            agent: agent.to_owned(),
            token: format!("{secret}{pin}"),
            expires_ns,
        })
    }

    /// Name of the agent that a one-time token invites.
    pub fn invited(&self, token: &str) -> Result<Option<String>, ServiceError> {
        Ok(self.store.invited(&secret_hash(token))?)
    }

    /// Issues the first certificate of an agent for a one-time token, which becomes invalid.
    pub fn enroll(
        &self,
        tls: &ServerTls,
        token: &str,
        request: &str,
    ) -> Result<AgentCertificate, ServiceError> {
        let gone = || ServiceError::Forbidden("this token was used or has expired".into());
        let agent = self.invited(token)?.ok_or_else(gone)?;
        // Random, so that enrollments differ even after an older store was restored.
        let enrollment = random();
        let certified = certify(tls, &agent, enrollment, request)?;
        if self
            .store
            .enroll(&secret_hash(token), enrollment, certified.good_until_ns)?
        {
            Ok(certified)
        } else {
            Err(gone())
        }
    }

    /// Issues the next certificate of an agent authenticated by its current one.
    pub fn renew_agent(
        &self,
        tls: &ServerTls,
        peer: &VerifiedPeer,
        request: &str,
    ) -> Result<AgentCertificate, ServiceError> {
        self.is_enrolled(peer)?;
        let certified = certify(tls, &peer.name, peer.enrollment, request)?;
        self.store
            .renew(&peer.name, peer.enrollment, certified.good_until_ns)?;
        Ok(certified)
    }

    /// Checks whether the owner of a certificate verified by TLS may connect and stay connected. An older certificate
    /// remains valid after a renewal.
    pub fn is_enrolled(&self, peer: &VerifiedPeer) -> Result<(), ServiceError> {
        let known = self.store.of_agent(&peer.name)?;
        let refused = |why: String| Err(ServiceError::Forbidden(why));
        match known {
            None => refused(format!(
                "agent {} has not enrolled with this server",
                peer.name
            )),
            Some(known) if known.revoked_ns.is_some() => refused(format!(
                "agent {} was revoked; it can enroll again with a new token",
                peer.name
            )),
            Some(known) if known.enrollment != peer.enrollment => refused(format!(
                "agent {} has enrolled again since this certificate was issued",
                peer.name
            )),
            // The store may be an older, restored one: the presented certificate counts, too.
            Some(known) if known.good_until_ns.max(peer.lifetime.to * SECOND_NS) <= now_ns() => {
                refused(format!(
                    "the certificate of agent {} has expired; it can enroll again with a new token",
                    peer.name
                ))
            }
            Some(_) => Ok(()),
        }
    }

    /// Invalidates all certificates and invitations of an agent.
    pub fn revoke_agent(&self, agent: &str) -> Result<(), ServiceError> {
        if self.store.revoke(agent)? {
            Ok(())
        } else {
            Err(ServiceError::Unknown(format!(
                "agent {agent} has neither a certificate nor a one-time token"
            )))
        }
    }
}

fn secret_hash(token: &str) -> [u8; 32] {
    let token = token.trim();
    hash(token.split_once('.').map_or(token, |(secret, _)| secret))
}

fn certify(
    tls: &ServerTls,
    agent: &str,
    enrollment: u64,
    request: &str,
) -> Result<AgentCertificate, ServiceError> {
    let lifetime = CertificateLifetime::lasting(now_ns() / SECOND_NS, tls.agents_seconds);
    let signed = tls.authority().sign_agent(
        request,
        agent,
        CertificateSerial {
            enrollment,
            number: random(),
        },
        lifetime,
    );
    Ok(AgentCertificate {
        agent: agent.to_owned(),
        certificate: signed.map_err(|why| ServiceError::Invalid(why.to_string()))?,
        authority: tls.authority().certificate_pem().to_owned(),
        good_until_ns: lifetime.to.saturating_mul(SECOND_NS),
    })
}

/// 63 bits: a negative serial number would result from the highest bit.
fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system provides random numbers");
    u64::from_le_bytes(bytes) >> 1
}
