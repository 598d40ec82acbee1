//! Signs the certificates of a server and its agents.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SerialNumber,
};
use time::OffsetDateTime;

use crate::{IdentityError, unreadable};

/// Maximum length of an agent's name.
const NAME_MAX: usize = 64;

/// A certificate authority: its certificate and signing key.
pub struct CertificateAuthority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Validity of a certificate, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateLifetime {
    /// First second.
    pub from: i64,
    /// Last second.
    pub to: i64,
}

impl CertificateLifetime {
    /// Seconds by which a certificate's validity starts before its creation, to allow for clock differences.
    pub const EARLY: i64 = 300;

    /// A validity of `seconds` from `now` on.
    #[must_use]
    pub fn lasting(now: i64, seconds: i64) -> CertificateLifetime {
        CertificateLifetime {
            from: now - CertificateLifetime::EARLY,
            to: now + seconds,
        }
    }

    /// Time of renewal: when a third of the validity remains.
    #[must_use]
    pub fn renew_at(self) -> i64 {
        let made = self.from + CertificateLifetime::EARLY;
        made + (self.to - made) * 2 / 3
    }
}

/// Serial number of an agent's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateSerial {
    /// Enrollment number, shared by all certificates renewed from one enrollment; revocation applies to it.
    pub enrollment: u64,
    /// Number of the certificate.
    pub number: u64,
}

/// A certificate request of an agent with its public key. The private key never leaves the host.
pub struct SigningRequest {
    /// Private key, PEM.
    pub key_pem: String,
    /// Certificate signing request (PKCS #10, RFC 2986), PEM.
    pub request_pem: String,
}

impl CertificateAuthority {
    /// Creates an authority with a new key; the second value is that key, PEM.
    ///
    /// # Errors
    /// `IdentityError::Signing` if no random numbers are available or the times are out of range.
    pub fn create(
        name: &str,
        lifetime: CertificateLifetime,
    ) -> Result<(CertificateAuthority, String), IdentityError> {
        let mut params = of_lifetime(lifetime)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let key_pem = key.serialize_pem();
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok((
            CertificateAuthority {
                certificate_pem,
                issuer: Issuer::new(params, key),
            },
            key_pem,
        ))
    }

    /// Loads an existing authority.
    ///
    /// # Errors
    /// `IdentityError` if the texts are not a certificate and its key.
    pub fn load(
        certificate_pem: &str,
        key_pem: &str,
    ) -> Result<CertificateAuthority, IdentityError> {
        let key = KeyPair::from_pem(key_pem).map_err(|e| unreadable("the authority's key", e))?;
        let issuer = Issuer::from_ca_cert_pem(certificate_pem, key)
            .map_err(|e| unreadable("the authority's certificate", e))?;
        Ok(CertificateAuthority {
            certificate_pem: certificate_pem.to_owned(),
            issuer,
        })
    }

    /// Certificate to be trusted by others, PEM.
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
        serial: CertificateSerial,
        lifetime: CertificateLifetime,
    ) -> Result<String, IdentityError> {
        check_name(name)?;
        let asked = CertificateSigningRequestParams::from_pem(request_pem)
            .map_err(|e| unreadable("the certificate signing request", e))?;
        let mut params = of_lifetime(lifetime)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let number = u128::from(serial.enrollment) << 64 | u128::from(serial.number);
        params.serial_number = Some(SerialNumber::from_slice(&number.to_be_bytes()));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(&asked.public_key, &self.issuer)?.pem())
    }

    /// A certificate for a server with these host names and addresses, and its key, both PEM.
    ///
    /// # Errors
    /// `IdentityError` for an invalid name.
    pub fn make_server(
        &self,
        names: &[String],
        lifetime: CertificateLifetime,
    ) -> Result<(String, String), IdentityError> {
        let mut params = CertificateParams::new(names)?;
        (params.not_before, params.not_after) = times(lifetime)?;
        params.distinguished_name.push(
            DnType::CommonName,
            names.first().map_or("netalytics", String::as_str),
        );
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok((
            params.signed_by(&key, &self.issuer)?.pem(),
            key.serialize_pem(),
        ))
    }
}

impl SigningRequest {
    /// Creates a key and a request for it.
    ///
    /// # Errors
    /// `IdentityError::Signing` if no random numbers are available.
    pub fn create() -> Result<SigningRequest, IdentityError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        Ok(SigningRequest {
            request_pem: params.serialize_request(&key)?.pem()?,
            key_pem: key.serialize_pem(),
        })
    }
}

/// Checks an agent's name, which is used in certificates, files and tables.
///
/// # Errors
/// `IdentityError::BadName`.
pub fn check_name(name: &str) -> Result<(), IdentityError> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_fit) {
        Ok(())
    } else {
        Err(IdentityError::BadName(name.to_owned()))
    }
}

fn of_lifetime(lifetime: CertificateLifetime) -> Result<CertificateParams, IdentityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    (params.not_before, params.not_after) = times(lifetime)?;
    Ok(params)
}

fn times(lifetime: CertificateLifetime) -> Result<(OffsetDateTime, OffsetDateTime), IdentityError> {
    let time = |s| {
        OffsetDateTime::from_unix_timestamp(s)
            .map_err(|e| unreadable("the lifetime of a certificate", e))
    };
    Ok((time(lifetime.from)?, time(lifetime.to)?))
}
