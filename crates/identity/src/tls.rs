//! TLS 1.3 for both ends. Sessions are never resumed: a resumed session does not check the client's certificate again,
//! so a revoked one would continue.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::pin::PinnedVerifier;
use crate::{AuthorityPin, IdentityError, unreadable};

/// Certificates of servers accepted by a client.
#[derive(Clone, Debug)]
pub enum TrustedServers<'a> {
    /// Signed by the authorities in a text (PEM).
    Of(&'a str),
    /// Signed by the authority with this fingerprint, which the server sends as well.
    Pinned(AuthorityPin),
    /// Signed by one of these, such as the system's.
    AnyOf(Vec<CertificateDer<'static>>),
}

/// Certificates of clients accepted by a server.
#[derive(Clone, Copy, Debug)]
pub enum TrustedClients<'a> {
    /// No client certificate is requested.
    Anonymous,
    /// Signed by this authority (PEM); clients without a certificate are anonymous.
    Of(&'a str),
}

/// Configuration of a server with this certificate chain and key, both PEM.
///
/// # Errors
/// `IdentityError` if the texts are invalid or do not match.
pub fn server_config(
    chain_pem: &str,
    key_pem: &str,
    clients: TrustedClients<'_>,
) -> Result<ServerConfig, IdentityError> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let builder = match clients {
        TrustedClients::Anonymous => builder.with_no_client_auth(),
        TrustedClients::Of(authority) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(authority)?.into(), provider())
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| unreadable("the authority's certificate", e))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain(chain_pem)?, key(key_pem)?)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// Configuration of a client; `bears`: its certificates and key, PEM.
///
/// # Errors
/// As [`server_config`].
pub fn client_config(
    trusts: TrustedServers<'_>,
    bears: Option<(&str, &str)>,
) -> Result<ClientConfig, IdentityError> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
    let builder = match trusts {
        TrustedServers::Of(authorities) => builder.with_root_certificates(roots(authorities)?),
        TrustedServers::Pinned(pin) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedVerifier::new(pin, provider()))),
        TrustedServers::AnyOf(all) => builder.with_root_certificates(parsable(all)),
    };
    let mut config = match bears {
        None => builder.with_no_client_auth(),
        Some((chain_pem, key_pem)) => {
            builder.with_client_auth_cert(chain(chain_pem)?, key(key_pem)?)?
        }
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Configuration of a client of other programs' servers, which may support only TLS 1.2.
///
/// # Errors
/// `IdentityError::Tls`.
pub fn public_client_config(
    authorities: Vec<CertificateDer<'static>>,
) -> Result<ClientConfig, IdentityError> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder
        .with_root_certificates(parsable(authorities))
        .with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    const WHAT: &str = "a certificate";
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| unreadable(WHAT, e))?;
    if all.is_empty() {
        Err(unreadable(WHAT, "the text contains no certificate"))
    } else {
        Ok(all)
    }
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|e| unreadable("a private key", e))
}

/// Unreadable certificates of the system are skipped.
fn parsable(all: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(all);
    roots
}

fn roots(pem: &str) -> Result<RootCertStore, IdentityError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, Connection, ServerConnection};

    use super::*;
    use crate::{
        CertificateAuthority, CertificateLifetime, CertificateSerial, SigningRequest, VerifiedPeer,
    };

    const SERIAL: CertificateSerial = CertificateSerial {
        enrollment: 0x0012_3456_789a_bcde,
        number: u64::MAX,
    };

    /// Certificates are checked against the machine's clock.
    fn now() -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.expect("after the epoch").as_secs() as i64
    }

    fn lasting(from: i64, to: i64) -> CertificateLifetime {
        CertificateLifetime {
            from: now() + from,
            to: now() + to,
        }
    }

    struct TestAuthority {
        authority: CertificateAuthority,
        chain: String,
        key: String,
    }

    fn house() -> TestAuthority {
        let (made, key) =
            CertificateAuthority::create("test", lasting(-60, 600)).expect("an authority");
        // As after a restart.
        let authority =
            CertificateAuthority::load(made.certificate_pem(), &key).expect("the same authority");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let (chain, key) = authority
            .make_server(&names, lasting(-60, 600))
            .expect("a server");
        TestAuthority {
            authority,
            chain,
            key,
        }
    }

    /// Errors of both ends of a handshake; the server's view of its client.
    fn shake(
        server: ServerConfig,
        client: ClientConfig,
        host: &str,
    ) -> Result<Option<VerifiedPeer>, String> {
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let mut server =
            Connection::from(ServerConnection::new(Arc::new(server)).expect("a server"));
        let mut client =
            Connection::from(ClientConnection::new(Arc::new(client), name).expect("a client"));
        for _ in 0..4 {
            carry(&mut client, &mut server)?;
            carry(&mut server, &mut client)?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        let shown = server.peer_certificates().and_then(<[_]>::first);
        Ok(shown.map(|certificate| VerifiedPeer::of(certificate).expect("a name")))
    }

    fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), String> {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes)
                .expect("writing to memory cannot fail");
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            to.read_tls(&mut rest).expect("memory gives all");
            to.process_new_packets().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn check(
        house: &TestAuthority,
        agent: Option<(&CertificateAuthority, CertificateLifetime)>,
        host: &str,
    ) -> Result<Option<VerifiedPeer>, String> {
        let bears = agent.map(|(authority, lifetime)| {
            let request = SigningRequest::create().expect("a request");
            let signed = authority
                .sign_agent(&request.request_pem, "web-1", SERIAL, lifetime)
                .expect("signed");
            (signed, request.key_pem)
        });
        let bears = bears
            .as_ref()
            .map(|(chain, key)| (chain.as_str(), key.as_str()));
        let trusted = house.authority.certificate_pem();
        let server =
            server_config(&house.chain, &house.key, TrustedClients::Of(trusted)).expect("a server");
        shake(
            server,
            client_config(TrustedServers::Of(trusted), bears).expect("a client"),
            host,
        )
    }

    #[test]
    fn a_name_comes_from_the_authority() {
        let house = house();
        let good = lasting(-60, 300);
        let peer = check(&house, Some((&house.authority, good)), "localhost")
            .expect("both agree")
            .expect("shown");
        assert_eq!(
            peer,
            VerifiedPeer {
                name: "web-1".into(),
                enrollment: SERIAL.enrollment,
                lifetime: good
            }
        );
        assert_eq!(check(&house, None, "127.0.0.1"), Ok(None));
    }

    #[test]
    fn strangers_and_bygones_are_refused() {
        let ours = house();
        let theirs = house();
        for (what, agent, host, why) in [
            (
                "another authority's",
                Some((&theirs.authority, lasting(-60, 300))),
                "localhost",
                "BadSignature",
            ),
            (
                "expired",
                Some((&ours.authority, lasting(-300, -60))),
                "localhost",
                "expired",
            ),
            (
                "not yet",
                Some((&ours.authority, lasting(60, 300))),
                "localhost",
                "not valid yet",
            ),
            ("another host", None, "elsewhere.test", "not valid for name"),
        ] {
            let said = check(&ours, agent, host).expect_err(what);
            assert!(
                said.contains(why) || said.contains("UnknownIssuer"),
                "{what}: {said}"
            );
        }
        // A server's certificate is not valid for a client.
        let trusted = ours.authority.certificate_pem();
        let server =
            server_config(&ours.chain, &ours.key, TrustedClients::Of(trusted)).expect("a server");
        let client = client_config(TrustedServers::Of(trusted), Some((&ours.chain, &ours.key)))
            .expect("a client");
        let said = shake(server, client, "localhost").expect_err("it is for servers");
        assert!(
            said.contains("purpose") || said.contains("usage") || said.contains("UnsupportedCert"),
            "{said}"
        );
    }

    #[test]
    fn unusable_certificates_and_keys_are_reported() {
        let house = house();
        let request = SigningRequest::create().expect("a request");
        let sign = |request: &str, name: &str| {
            house
                .authority
                .sign_agent(request, name, SERIAL, lasting(0, 60))
        };
        for (result, why) in [
            (
                sign("nonsense", "a"),
                "certificate signing request cannot be read",
            ),
            (sign(&request.request_pem, "a b"), "is not an agent name"),
            (sign(&request.request_pem, ""), "is not an agent name"),
            (
                sign(&request.request_pem, &"a".repeat(65)),
                "is not an agent name",
            ),
        ] {
            assert!(result.expect_err(why).to_string().contains(why));
        }
        let other = SigningRequest::create().expect("a request");
        for (chain, key, why) in [
            ("", house.key.as_str(), "the text contains no certificate"),
            (&house.chain, "", "a private key cannot be read"),
            (&house.chain, &other.key_pem, "TLS: "),
        ] {
            let error = server_config(chain, key, TrustedClients::Anonymous).expect_err(why);
            assert!(error.to_string().contains(why), "{error}");
        }
        // A request signed by another key.
        let mut forged = request.request_pem.clone().into_bytes();
        let at = forged.len() - 60;
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        assert!(sign(&String::from_utf8(forged).expect("text"), "a").is_err());
    }
}
