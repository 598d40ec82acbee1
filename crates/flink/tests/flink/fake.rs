//! An HTTP server with scripted responses, one per connection.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Response to a method and path; may use the whole request.
pub enum Reply {
    /// JSON with a status.
    Json(u16, String),
    /// A response of exactly these bytes.
    Raw(Vec<u8>),
    /// An endless body.
    Endless,
    /// A byte per 100 ms.
    Slow,
    /// No response, and no close.
    Silence,
}

pub struct Fake {
    pub url: String,
    is_over: Arc<AtomicBool>,
}

/// A response with status 200.
pub fn fine(json: &str) -> Reply {
    Reply::Json(200, json.to_owned())
}

impl Fake {
    pub fn start(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let is_over = Arc::new(AtomicBool::new(false));
        let answer = Arc::new(answer);
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let answer = Arc::clone(&answer);
                let over = Arc::clone(&over);
                thread::spawn(move || serve(stream, &*answer, &over));
            }
        });
        Fake { url, is_over }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&str, &str) -> Reply, is_over: &AtomicBool) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let Some((asked, whole)) = request(&mut stream) else {
        return;
    };
    let mut write =
        |bytes: &[u8]| stream.write_all(bytes).is_ok() && !is_over.load(Ordering::Relaxed);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    match answer(&asked, &whole) {
        Reply::Json(status, json) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                json.len()
            );
            write(format!("{head}{json}").as_bytes());
        }
        Reply::Raw(bytes) => {
            write(&bytes);
        }
        Reply::Endless => {
            let mut goes_on = write(head.as_bytes());
            while goes_on {
                goes_on = write(&[b' '; 65536]);
            }
        }
        Reply::Slow => {
            let mut goes_on = write(head.as_bytes());
            while goes_on {
                thread::sleep(Duration::from_millis(100));
                goes_on = write(b" ");
            }
        }
        // Until the client disconnects.
        Reply::Silence => while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {},
    }
}

/// `GET /path`, and the whole request.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let n = stream.read(&mut more).ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&more[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse::<usize>()
                .ok()
        });
        if body.len() >= length.unwrap_or(0) {
            let first = head.lines().next()?.rsplit_once(' ')?.0;
            return Some((first.to_owned(), text.clone().into_owned()));
        }
    }
}
