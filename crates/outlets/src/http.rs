//! Minimal HTTP/1.1 server for scrapes: one short request and response per connection, with limits of size, time and
//! connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum bytes of a request's head.
const HEAD_MAX: usize = 8 << 10;
/// Maximum connections; further ones are closed.
const CONNECTIONS_MAX: usize = 8;
/// Time for a client to send its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrapeRequest {
    /// `GET`
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Header `Accept`.
    pub accept: String,
    /// Header `Host`.
    pub host: String,
}

/// A response.
pub struct ScrapeResponse {
    /// Status code and reason.
    pub status: &'static str,
    /// Media type.
    pub content_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// Called after the response was sent.
    pub when_sent: Option<Box<dyn FnOnce()>>,
}

impl ScrapeResponse {
    /// A plain text response.
    pub fn text(status: &'static str, text: String) -> ScrapeResponse {
        ScrapeResponse {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.into_bytes(),
            when_sent: None,
        }
    }
}

/// A listening socket that is not served yet.
pub struct ScrapeListener(TcpListener);

/// A running server; ends on drop.
pub struct ScrapeServer {
    at: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl ScrapeListener {
    /// Uses this socket.
    pub fn new(listener: TcpListener) -> ScrapeListener {
        ScrapeListener(listener)
    }

    /// Starts to serve on separate threads.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create threads.
    pub fn start(
        self,
        answer: impl Fn(&ScrapeRequest) -> ScrapeResponse + Send + Sync + 'static,
    ) -> io::Result<ScrapeServer> {
        let running = ScrapeServer {
            at: self.0.local_addr()?,
            is_over: Arc::default(),
        };
        let is_over = running.is_over.clone();
        let answer = Arc::new(answer);
        let open = Arc::new(AtomicUsize::new(0));
        thread::Builder::new()
            .name("scrapes".into())
            .spawn(move || {
                for connection in self.0.incoming() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let Ok(connection) = connection else {
                        // For example, no descriptors: transient, and must not busy-wait.
                        thread::sleep(Duration::from_millis(10));
                        continue;
                    };
                    if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
                        open.fetch_sub(1, Ordering::Relaxed);
                        continue;
                    }
                    let answer = answer.clone();
                    let of_thread = open.clone();
                    let spawned = thread::Builder::new().spawn(move || {
                        let _ = serve(connection, &*answer);
                        of_thread.fetch_sub(1, Ordering::Relaxed);
                    });
                    if spawned.is_err() {
                        open.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            })?;
        Ok(running)
    }
}

impl Drop for ScrapeServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect_timeout(&self.at, Duration::from_millis(100));
    }
}

fn serve(
    mut connection: TcpStream,
    answer: &dyn Fn(&ScrapeRequest) -> ScrapeResponse,
) -> io::Result<()> {
    connection.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut connection)?;
    let is_local = connection.local_addr()?.ip().is_loopback();
    let answer = match parse(&head) {
        None => ScrapeResponse::text("400 Bad Request", "no request\n".into()),
        // DNS rebinding: a page of another origin whose name was resolved to this machine.
        Some(request) if is_local && !is_loopback(&request.host) => {
            ScrapeResponse::text("421 Misdirected Request", "unknown host name\n".into())
        }
        Some(request) => answer(&request),
    };
    let ScrapeResponse {
        status,
        content_type,
        body,
        when_sent,
    } = answer;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(&body)?;
    connection.shutdown(Shutdown::Write)?;
    if let Some(tell) = when_sent {
        tell();
    }
    Ok(())
}

fn read_head(connection: &mut TcpStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut some)? {
            0 => break,
            n => head.extend_from_slice(&some[..n]),
        }
    }
    Ok(head)
}

fn parse(head: &[u8]) -> Option<ScrapeRequest> {
    let head = std::str::from_utf8(head).ok()?;
    let (head, _) = head.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let method = words.next()?;
    let target = words.next()?;
    let version = words.next()?;
    if !version.starts_with("HTTP/1.") || words.next().is_some() {
        return None;
    }
    let path = target.split('?').next().unwrap_or_default();
    let mut request = ScrapeRequest {
        method: method.into(),
        path: path.into(),
        ..ScrapeRequest::default()
    };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        match name.to_ascii_lowercase().as_str() {
            "accept" => request.accept = value.trim().into(),
            "host" => request.host = value.trim().into(),
            _ => {}
        }
    }
    Some(request)
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request = |path: &str, accept: &str, host: &str| {
            Some(ScrapeRequest {
                method: "GET".into(),
                path: path.into(),
                accept: accept.into(),
                host: host.into(),
            })
        };
        for (head, expected) in [
            (
                "GET /metrics?x=1 HTTP/1.1\r\nHost: a:1\r\nACCEPT:  text/plain\r\n\r\n",
                request("/metrics", "text/plain", "a:1"),
            ),
            ("GET / HTTP/1.0\r\n\r\n", request("/", "", "")),
            ("GET / HTTP/1.0\r\n", None),
            ("GET / HTTP/2\r\n\r\n", None),
            ("GET  / HTTP/1.1\r\n\r\n", None),
            ("\r\n\r\n", None),
            ("\u{0}", None),
        ] {
            assert_eq!(parse(head.as_bytes()), expected, "{head:?}");
        }
        for (host, is) in [
            ("localhost:9464", true),
            ("127.0.0.1", true),
            ("[::1]:1", true),
            ("evil.example:9464", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), is, "{host}");
        }
    }
}
