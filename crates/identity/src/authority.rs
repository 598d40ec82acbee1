//! Signs the certificates of a server and its agents.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use time::OffsetDateTime;

use crate::{IdentityError, unreadable};

/// Longest name of an agent.
const NAME_MAX: usize = 64;

/// A certificate authority: its own certificate, and the key that signs.
pub struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// From when to when a certificate is good, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The first second.
    pub from: i64,
    /// The last.
    pub to: i64,
}

impl Lifetime {
    /// Seconds by which a certificate's validity starts before its creation, to allow for clock differences.
    pub const EARLY: i64 = 300;

    /// A validity of `seconds` from `now` on.
    #[must_use]
    pub fn lasting(now: i64, seconds: i64) -> Lifetime {
        Lifetime { from: now - Lifetime::EARLY, to: now + seconds }
    }

    /// When to ask for the next one: when a third is left of the time since it was made.
    #[must_use]
    pub fn renew_at(self) -> i64 {
        let made = self.from + Lifetime::EARLY;
        made + (self.to - made) * 2 / 3
    }
}

/// The number of an agent's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial {
    /// By which enrolment the agent has it: all certificates that follow from one have the same. What is revoked is this.
    pub enrolment: u64,
    /// Which of those certificates.
    pub number: u64,
}

/// What an agent asks for: its public key. The private one never leaves its host.
pub struct Request {
    /// Private key, PEM.
    pub key_pem: String,
    /// Certificate signing request (PKCS #10, RFC 2986), PEM.
    pub request_pem: String,
}

impl Authority {
    /// A new one, with a key of its own; the second text is that key, PEM.
    ///
    /// # Errors
    /// When the system gives no random numbers, or the times are not of this era.
    pub fn create(name: &str, lifetime: Lifetime) -> Result<(Authority, String), IdentityError> {
        let mut params = of_lifetime(lifetime)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let (key_pem, certificate_pem) = (key.serialize_pem(), params.self_signed(&key)?.pem());
        Ok((Authority { certificate_pem, issuer: Issuer::new(params, key) }, key_pem))
    }

    /// The one that was created before.
    ///
    /// # Errors
    /// When the texts are no certificate and key.
    pub fn load(certificate_pem: &str, key_pem: &str) -> Result<Authority, IdentityError> {
        let key = KeyPair::from_pem(key_pem).map_err(|e| unreadable("the authority's key", e))?;
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key)
            .map_err(|e| unreadable("the authority's certificate", e))?;
        Ok(Authority { certificate_pem: certificate_pem.to_owned(), issuer })
    }

    /// What others have to trust, PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// A certificate for an agent with this name and the key of its request, PEM. Other fields of the request are
    /// ignored.
    ///
    /// # Errors
    /// If the request is invalid or not signed by its own key, or the name is not allowed.
    pub fn sign_agent(
        &self,
        request_pem: &str,
        name: &str,
        serial: Serial,
        lifetime: Lifetime,
    ) -> Result<String, IdentityError> {
        check_name(name)?;
        let asked = CertificateSigningRequestParams::from_pem(request_pem)
            .map_err(|e| unreadable("the certificate signing request", e))?;
        let mut params = of_lifetime(lifetime)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let number = u128::from(serial.enrolment) << 64 | u128::from(serial.number);
        params.serial_number = Some(SerialNumber::from_slice(&number.to_be_bytes()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(&asked.public_key, &self.issuer)?.pem())
    }

    /// A certificate for a server with these host names and addresses, and its key, both PEM.
    ///
    /// # Errors
    /// When a name cannot be one.
    pub fn make_server(
        &self,
        names: &[String],
        lifetime: Lifetime,
    ) -> Result<(String, String), IdentityError> {
        let mut params = CertificateParams::new(names)?;
        (params.not_before, params.not_after) = times(lifetime)?;
        params
            .distinguished_name
            .push(DnType::CommonName, names.first().map_or("netalytics", String::as_str));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }
}

impl Request {
    /// A new key, and a request for it.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn create() -> Result<Request, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        Ok(Request { request_pem: params.serialize_request(&key)?.pem()?, key_pem: key.serialize_pem() })
    }
}

/// Whether an agent may be called that: names go into certificates, files and tables.
///
/// # Errors
/// When it may not.
pub fn check_name(name: &str) -> Result<(), IdentityError> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    match !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_fit) {
        true => Ok(()),
        false => Err(IdentityError::BadName(name.to_owned())),
    }
}

fn of_lifetime(lifetime: Lifetime) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    (params.not_before, params.not_after) = times(lifetime)?;
    Ok(params)
}

fn times(lifetime: Lifetime) -> Result<(OffsetDateTime, OffsetDateTime), IdentityError> {
    let time = |s| {
        OffsetDateTime::from_unix_timestamp(s).map_err(|e| unreadable("the lifetime of a certificate", e))
    };
    Ok((time(lifetime.from)?, time(lifetime.to)?))
}
