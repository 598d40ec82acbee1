//! Connection to the server: dialed by the agent, it starts as HTTP on the API's port and is upgraded to the link
//! protocol (`Upgrade: netalytics/1`, RFC 9110, section 7.8). So users and agents share one port, certificate and
//! proxy.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use identity::ConnectionEnd;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Path of the upgrade.
pub const PATH: &str = "/api/v1/agent";
/// Protocol of the upgraded connection.
pub const PROTOCOL: &str = "netalytics/1";

/// Maximum bytes of a response.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Timeout of each step of a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server with the agent's credentials.
#[derive(Clone)]
pub struct ServerEndpoint {
    uri: Uri,
    /// For `https`; replaced after a renewal of the certificate.
    tls: Option<Arc<RwLock<Arc<ClientConfig>>>>,
    /// Used without a certificate.
    token: Option<String>,
}

/// Failure to connect to the server.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Not a valid URL of a server.
    #[error("{0}")]
    BadUrl(String),
    /// No response.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// URL of the server.
        url: String,
        /// The system's reason.
        why: io::Error,
    },
    /// One end rejects the other's certificate.
    #[error("{url}: {why}")]
    Untrusted {
        /// URL of the server.
        url: String,
        /// Reason.
        why: String,
    },
    /// The other end is not a netalytics server, or rejects the connection.
    #[error("{url} answers {status}: {why}")]
    Refused {
        /// URL of the server.
        url: String,
        /// HTTP status.
        status: StatusCode,
        /// Message of the server, or a suggestion.
        why: String,
    },
    /// The other end does not speak HTTP.
    #[error("{url} does not respond like a netalytics server: {why}")]
    Strange {
        /// URL of the server.
        url: String,
        /// Protocol error.
        why: hyper::Error,
    },
}

/// Both directions of a connection.
pub trait DuplexStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> DuplexStream for T {}

impl ServerEndpoint {
    /// A server by its URL: `https://HOST[:PORT]` with `tls`, or `http://HOST[:PORT]`, which sends the token as plain
    /// text and is allowed on this machine only.
    ///
    /// # Errors
    /// `DialError::BadUrl`.
    pub fn new(
        url: &str,
        tls: Option<ClientConfig>,
        token: Option<String>,
    ) -> Result<ServerEndpoint, DialError> {
        let bad = |why: &str| DialError::BadUrl(format!("{url:?} is not a server URL: {why}"));
        let uri: Uri = url
            .parse()
            .map_err(|e: hyper::http::uri::InvalidUri| bad(&e.to_string()))?;
        if uri.host().is_none() {
            return Err(bad(
                "a URL needs a host, as in https://netalytics.example:7878",
            ));
        }
        if uri.path() != "/" && !uri.path().is_empty() || uri.query().is_some() {
            return Err(bad("a server's URL ends with its host and port"));
        }
        match (uri.scheme_str(), &tls) {
            (Some("https"), Some(_)) => {}
            (Some("https"), None) => return Err(bad("https needs the authority's certificate")),
            (Some("http"), _) if travels_in_clear(&uri) => return Err(bad(IN_CLEAR)),
            (Some("http"), _) => {}
            _ => return Err(bad("it must start with https:// or http://")),
        }
        let tls = tls
            .filter(|_| uri.scheme_str() == Some("https"))
            .map(Arc::new);
        let tls = tls.map(|config| Arc::new(RwLock::new(config)));
        Ok(ServerEndpoint { uri, tls, token })
    }

    /// URL for messages.
    #[must_use]
    pub fn url(&self) -> String {
        self.uri.to_string().trim_end_matches('/').to_owned()
    }

    /// Sets the certificate for further connections.
    pub fn bear(&self, config: ClientConfig) {
        if let Some(tls) = &self.tls {
            *tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        }
    }

    /// Opens a connection for the link's frames.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn dial(&self) -> Result<Box<dyn DuplexStream>, DialError> {
        self.in_time(async { self.upgrade(self.connect().await?).await })
            .await
    }

    /// Sends a JSON body; returns the response if it has the expected status.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn post(
        &self,
        path: &str,
        body: String,
        expected: StatusCode,
    ) -> Result<Bytes, DialError> {
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body));
        let asked = async {
            let response = self.ask(self.connect().await?, request).await?;
            if response.status() == expected {
                self.body(response).await
            } else {
                Err(self.refused(response).await)
            }
        };
        self.in_time(asked).await
    }

    async fn in_time<T>(
        &self,
        act: impl Future<Output = Result<T, DialError>>,
    ) -> Result<T, DialError> {
        let late = || {
            self.unreachable(io::Error::new(
                io::ErrorKind::TimedOut,
                "no response in 10 s",
            ))
        };
        tokio::time::timeout(PATIENCE, act)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn connect(&self) -> Result<Box<dyn DuplexStream>, DialError> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self
            .uri
            .port_u16()
            .unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = TcpStream::connect((host, port))
            .await
            .map_err(|e| self.unreachable(e))?;
        tcp.set_nodelay(true).map_err(|e| self.unreachable(e))?;
        match &self.tls {
            None => Ok(Box::new(tcp)),
            Some(config) => {
                let config = config
                    .read()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|e| self.unreachable(io::Error::other(e)))?;
                let connector = tokio_rustls::TlsConnector::from(config);
                Ok(Box::new(
                    connector
                        .connect(name, tcp)
                        .await
                        .map_err(|e| self.unreachable(e))?,
                ))
            }
        }
    }

    async fn upgrade(
        &self,
        stream: Box<dyn DuplexStream>,
    ) -> Result<Box<dyn DuplexStream>, DialError> {
        let mut request = Request::get(PATH)
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, PROTOCOL);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = self.ask(stream, request.body(Full::default())).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refused(response).await);
        }
        let upgraded = hyper::upgrade::on(response)
            .await
            .map_err(|e| self.strange(e))?;
        Ok(Box::new(TokioIo::new(upgraded)))
    }

    async fn ask(
        &self,
        stream: Box<dyn DuplexStream>,
        request: Result<Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<Response<Incoming>, DialError> {
        let mut request =
            request.map_err(|e| DialError::BadUrl(format!("the token cannot be sent: {e}")))?;
        let host = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(host).map_err(|e| DialError::BadUrl(e.to_string()))?;
        request.headers_mut().insert(HOST, host);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| self.strange(e))?;
        // Ends with the upgrade or the response.
        tokio::spawn(connection.with_upgrades());
        sender
            .send_request(request)
            .await
            .map_err(|e| self.strange(e))
    }

    async fn body(&self, response: Response<Incoming>) -> Result<Bytes, DialError> {
        let cannot =
            |why: Box<dyn std::error::Error + Send + Sync>| self.unreachable(io::Error::other(why));
        Ok(Limited::new(response.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(cannot)?
            .to_bytes())
    }

    /// Error with the server's message, or else a suggestion.
    async fn refused(&self, response: Response<Incoming>) -> DialError {
        let status = response.status();
        let said = self.body(response).await.ok().and_then(|body| {
            let answer: serde_json::Value = serde_json::from_slice(&body).ok()?;
            answer["message"].as_str().map(str::to_owned)
        });
        DialError::Refused {
            url: self.url(),
            status,
            why: said.unwrap_or_else(|| hint(status).to_owned()),
        }
    }

    /// Error after the TLS handshake: a server that rejects the client certificate reports it only then.
    fn strange(&self, why: hyper::Error) -> DialError {
        match identity::in_words(&why, ConnectionEnd::Client) {
            Some(why) => DialError::Untrusted {
                url: self.url(),
                why,
            },
            None => DialError::Strange {
                url: self.url(),
                why,
            },
        }
    }

    fn unreachable(&self, why: io::Error) -> DialError {
        match identity::in_words(&why, ConnectionEnd::Client) {
            Some(why) => DialError::Untrusted {
                url: self.url(),
                why,
            },
            None => DialError::Unreachable {
                url: self.url(),
                why,
            },
        }
    }
}

/// Error for a server to which a token would be sent as plain text.
pub const IN_CLEAR: &str = "without TLS (https://) the server must be on this machine";

/// Whether others could read data sent to this address.
#[must_use]
pub fn travels_in_clear(uri: &Uri) -> bool {
    uri.scheme_str() != Some("https") && !uri.host().is_some_and(is_this_machine)
}

fn is_this_machine(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unknown token or certificate of this agent",
        StatusCode::FORBIDDEN => "the token does not have the role agent",
        StatusCode::NOT_FOUND | StatusCode::UPGRADE_REQUIRED | StatusCode::OK => {
            "is it netalytics serve of a version that supports agents?"
        }
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        _ => "no further details",
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to a listener that sends `answer`; returns the result and the request that it received.
    async fn knock(answer: &'static [u8]) -> (Result<String, DialError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = vec![0; 4096];
            let n = stream.read(&mut asked).await.expect("a request");
            stream.write_all(answer).await.expect("an answer");
            String::from_utf8_lossy(&asked[..n]).into_owned()
        });
        let server = ServerEndpoint::new(&url, None, Some("t0ken".into())).expect("a server");
        let said = match server.dial().await {
            Err(error) => Err(error),
            Ok(mut stream) => {
                let mut text = String::new();
                stream.read_to_string(&mut text).await.expect("the rest");
                Ok(text)
            }
        };
        (said, answering.await.expect("it answered"))
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(future)
    }

    #[test]
    fn http_becomes_the_link() {
        let switch =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: netalytics/1\r\n\r\nframes";
        let (said, asked) = run(knock(switch));
        assert_eq!(said.expect("a connection"), "frames");
        for line in [
            "GET /api/v1/agent HTTP/1.1\r\n",
            "upgrade: netalytics/1\r\n",
            "authorization: Bearer t0ken\r\n",
        ] {
            assert!(asked.contains(line), "{asked}");
        }
    }

    #[test]
    fn rejected_connections_are_reported() {
        for (answer, words) in [
            (
                &b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"[..],
                "answers 401 Unauthorized: unknown token",
            ),
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                "is it netalytics serve",
            ),
            (
                b"SSH-2.0-OpenSSH_9.2\r\n",
                "does not respond like a netalytics server",
            ),
            (b"", "does not respond like a netalytics server"),
        ] {
            let error = run(knock(answer)).0.expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
        let nobody = ServerEndpoint::new("http://127.0.0.1:9", None, None).expect("a server");
        let error = run(nobody.dial()).err().expect("no server").to_string();
        assert!(
            error.starts_with("http://127.0.0.1:9 cannot be reached: "),
            "{error}"
        );
    }

    #[test]
    fn a_token_does_not_travel_in_clear() {
        for (url, words) in [
            ("http://10.0.0.1:80", "without TLS"),
            ("https://server.test", "needs the authority's certificate"),
            ("server.test:80", "it must start with"),
            ("ftp://server.test", "it must start with"),
            ("http://localhost/path", "ends with its host and port"),
            ("", "is not a server URL"),
        ] {
            let error = ServerEndpoint::new(url, None, None)
                .err()
                .expect(url)
                .to_string();
            assert!(error.contains(words), "{url}: {error}");
        }
        for url in ["http://localhost:1", "http://127.1.2.3", "http://[::1]:80/"] {
            assert!(ServerEndpoint::new(url, None, None).is_ok(), "{url}");
        }
    }
}
