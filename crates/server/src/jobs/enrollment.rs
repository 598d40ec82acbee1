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
            Some(known)
                if known
                    .good_until_ns
                    .max(peer.lifetime.to.saturating_mul(SECOND_NS))
                    <= now_ns() =>
            {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::ServerStore;

    fn requests(folder: &std::path::Path) -> EnrollmentRequests {
        let store = ServerStore::open(&folder.join("store.sqlite")).expect("a store");
        EnrollmentRequests::new(store.enrollments)
    }

    fn peer(name: &str, enrollment: u64, to: i64) -> VerifiedPeer {
        VerifiedPeer {
            name: name.into(),
            enrollment,
            lifetime: CertificateLifetime { from: 0, to },
        }
    }

    fn refusal(requests: &EnrollmentRequests, peer: &VerifiedPeer) -> Option<String> {
        match requests.is_enrolled(peer) {
            Ok(()) => None,
            Err(ServiceError::Forbidden(why)) => Some(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_certificate_is_that_of_the_current_enrollment() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = requests(folder.path());
        let store = &requests.store;
        let later = now_ns() + 3600 * SECOND_NS;
        let seconds = later / SECOND_NS;
        let why = refusal(&requests, &peer("web1", 1, seconds)).expect("unknown");
        assert!(why.contains("has not enrolled"), "{why}");
        for enrollment in [1, 2] {
            store.invite("web1", &[enrollment], later).expect("invited");
            assert!(
                store
                    .enroll(&[enrollment], enrollment.into(), later)
                    .expect("the store")
            );
        }
        let why = refusal(&requests, &peer("web1", 1, seconds)).expect("an earlier one");
        assert!(why.contains("has enrolled again"), "{why}");
        assert_eq!(refusal(&requests, &peer("web1", 2, seconds)), None);
        requests.revoke_agent("web1").expect("revoked");
        let why = refusal(&requests, &peer("web1", 2, seconds)).expect("revoked");
        assert!(why.contains("was revoked"), "{why}");
        assert!(requests.revoke_agent("web2").is_err());
    }

    /// A restored store may have an earlier end than a renewed certificate, whose end may be far away.
    #[test]
    fn the_later_end_of_a_certificate_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let requests = requests(folder.path());
        let past = now_ns() - SECOND_NS;
        requests
            .store
            .invite("web1", b"a", now_ns() + SECOND_NS)
            .expect("invited");
        requests.store.enroll(b"a", 1, past).expect("enrolled");
        for (to, is_refused) in [
            (0, true),
            (past / SECOND_NS - 1, true),
            (i64::MIN, true),
            (past / SECOND_NS + 3600, false),
            // 9999-12-31, for certificates without an end (RFC 5280 section 4.1.2.5).
            (253_402_300_799, false),
            (i64::MAX, false),
        ] {
            let found = refusal(&requests, &peer("web1", 1, to));
            assert_eq!(
                found.is_some_and(|why| why.contains("has expired")),
                is_refused,
                "{to}"
            );
        }
    }

    /// What follows the secret identifies the server, and spaces come from pasting.
    #[test]
    fn tokens_are_compared_by_their_secret() {
        let expected = hash("nle_1");
        for token in ["nle_1", " nle_1\n", "nle_1.sha256:ab.cd", "nle_1."] {
            assert_eq!(secret_hash(token), expected, "{token:?}");
        }
        for token in ["nle_", "", ".nle_1", "nle_1 .pin"] {
            assert_ne!(secret_hash(token), expected, "{token:?}");
        }
    }
}
