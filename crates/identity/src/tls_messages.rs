//! Explains TLS errors for people at either end.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use time::OffsetDateTime;

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The dialing end.
    Client,
    /// The listening end.
    Server,
}

impl ConnectionEnd {
    fn ours(self) -> &'static str {
        match self {
            ConnectionEnd::Client => "this host's certificate",
            ConnectionEnd::Server => "this server's certificate",
        }
    }

    fn theirs(self) -> &'static str {
        match self {
            ConnectionEnd::Client => "the server's certificate",
            ConnectionEnd::Server => "the client's certificate",
        }
    }
}

/// Explanation of a TLS error of this end or an alert of the other end; `None` if the error is not from TLS.
#[must_use]
pub fn in_words(error: &(dyn StdError + 'static), at: ConnectionEnd) -> Option<String> {
    let words = match of_tls(error)? {
        Error::InvalidCertificate(why) => format!("{} {}", at.theirs(), of_certificate(why)),
        Error::AlertReceived(alert) => of_alert(*alert, at),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not use TLS; is the URL http:// instead of https://?".into()
        }
        other => format!("TLS: {other}"),
    };
    Some(words)
}

/// The TLS error in a chain of errors.
fn of_tls<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<Error>() {
            return Some(found);
        }
        // The source of an io::Error is that of its content, not the content.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = held
            .map(|held| held as &(dyn StdError + 'static))
            .or_else(|| error.source());
    }
    None
}

fn of_certificate(why: &CertificateError) -> String {
    let says = |s: u64| time_in_words(i64::try_from(s).unwrap_or(i64::MAX));
    match why {
        CertificateError::ExpiredContext { time, not_after } => format!(
            "has expired: it was valid until {}, and this machine's clock is {}",
            says(not_after.as_secs()),
            says(time.as_secs())
        ),
        CertificateError::Expired => "has expired".into(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "is not valid yet: it is valid from {}, and this machine's clock is {}",
            says(not_before.as_secs()),
            says(time.as_secs())
        ),
        CertificateError::NotValidYet => "is not valid yet: is this machine's clock right?".into(),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "was signed by an authority that is not trusted here".into()
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            format!(
                "is for {}, not for {}",
                presented.join(", "),
                expected.to_str()
            )
        }
        CertificateError::NotValidForName => "is for another name".into(),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            "is not for this use: servers' and agents' certificates differ".into()
        }
        // The library has no variant for this error.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "is an authority's: a certificate for a host is needed (basicConstraints CA:FALSE)"
                .into()
        }
        other => format!("is not accepted: {other}"),
    }
}

/// Explains an alert of the other end.
fn of_alert(alert: AlertDescription, at: ConnectionEnd) -> String {
    let ours = at.ours();
    let whose = if at == ConnectionEnd::Client {
        "the server"
    } else {
        "the client"
    };
    match alert {
        AlertDescription::CertificateExpired => {
            format!("{whose} rejects {ours}: it has expired, or is not valid yet by its clock")
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            format!("{whose} does not trust the authority that signed {ours}")
        }
        AlertDescription::BadCertificate => {
            format!("{whose} rejects {ours}: it is not for the requested name")
        }
        AlertDescription::UnsupportedCertificate => {
            format!("{whose} rejects {ours}: it is not for this use")
        }
        AlertDescription::CertificateRevoked => format!("{whose} rejects {ours}: it was revoked"),
        AlertDescription::ProtocolVersion => "the other end does not support TLS 1.3".into(),
        other => format!("{whose} ends the connection: {other:?}"),
    }
}

/// A time in seconds since the epoch as 2026-11-22T10:00:00Z.
#[must_use]
pub fn time_in_words(seconds: i64) -> String {
    match OffsetDateTime::from_unix_timestamp(seconds) {
        Ok(t) => format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            t.year(),
            u8::from(t.month()),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        ),
        Err(_) => format!("{seconds} s since 1970"),
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    use super::*;

    fn at(s: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(s))
    }

    #[test]
    fn errors_are_explained_at_either_end() {
        let expired = CertificateError::ExpiredContext {
            time: at(86_400),
            not_after: at(60),
        };
        let early = CertificateError::NotValidYetContext {
            time: at(0),
            not_before: at(60),
        };
        for (error, end, words) in [
            (
                Error::from(expired),
                ConnectionEnd::Client,
                "the server's certificate has expired: it was valid until 1970-01-01T00:01:00Z, and this machine's clock is 1970-01-02T00:00:00Z",
            ),
            (
                Error::from(early),
                ConnectionEnd::Server,
                "the client's certificate is not valid yet: it is valid from 1970-01-01T00:01:00Z, and this machine's clock is 1970-01-01T00:00:00Z",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                ConnectionEnd::Client,
                "the server does not trust the authority that signed this host's certificate",
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateExpired),
                ConnectionEnd::Server,
                "the client rejects this server's certificate: it has expired, or is not valid yet by its clock",
            ),
        ] {
            // As returned by a socket, and wrapped once more.
            let told = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(in_words(&told, end).as_deref(), Some(words));
        }
        assert_eq!(
            in_words(&io::Error::other("no TLS"), ConnectionEnd::Client),
            None
        );
    }
}
