//! Requests at a steady rate regardless of responses (so that slow responses do not delay later requests), and live
//! streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Flags of this load.
#[derive(Args)]
pub struct Flags {
    /// Address of the server
    #[arg(long)]
    server: String,
    /// A file with the token
    #[arg(long)]
    token: std::path::PathBuf,
    /// Requests per second
    #[arg(long, default_value_t = 500)]
    rate: u64,
    /// Duration in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Live streams
    #[arg(long, default_value_t = 50)]
    streams: usize,
    /// Requested paths, in turn
    #[arg(long, required = true)]
    path: Vec<String>,
    /// Jobs that the streams follow, as in `?jobs=`
    #[arg(long)]
    jobs: String,
}

/// Runs the load; returns the figures.
pub fn run(flags: &Flags) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(all(flags))
}

async fn connect(server: &str) -> TcpStream {
    let stream = TcpStream::connect(server)
        .await
        .expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    stream
}

async fn all(flags: &Flags) -> Value {
    let token = std::fs::read_to_string(&flags.token)
        .expect("the token's file")
        .trim()
        .to_owned();
    let request = |path: &str| {
        let server = &flags.server;
        format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\n\r\n")
    };
    let streamed = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for _ in 0..flags.streams {
        let mut stream = connect(&flags.server).await;
        let asked = request(&format!("/api/v1/stream?jobs={}", flags.jobs));
        stream
            .write_all(asked.as_bytes())
            .await
            .expect("it listens");
        let streamed = streamed.clone();
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                streamed.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
            }
        });
    }
    // Idle connections; a new one is opened if none is idle.
    let idle: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let mut pace = tokio::time::interval(Duration::from_nanos(1_000_000_000 / flags.rate));
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..flags.rate * flags.seconds {
        let due = pace.tick().await.into_std();
        let path = &flags.path[n as usize % flags.path.len()];
        let idle = idle.clone();
        let server = flags.server.clone();
        let request = request(path);
        asked.spawn(async move {
            let known = idle.lock().await.pop();
            let mut stream = match known {
                Some(stream) => stream,
                None => connect(&server).await,
            };
            stream
                .write_all(request.as_bytes())
                .await
                .expect("it listens");
            let answer = Answer::read(&mut stream).await;
            idle.lock().await.push(stream);
            (
                due.max(Instant::now() - Duration::from_secs(60)).elapsed(),
                answer,
            )
        });
    }
    let mut took = Vec::new();
    let mut failed = 0;
    let mut bytes = 0;
    while let Some(done) = asked.join_next().await {
        let (time, answer) = done.expect("an answer");
        took.push(time.as_secs_f64() * 1e3);
        failed += u64::from(answer.status != 200);
        bytes += answer.bytes;
    }
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    json!({
        "requests": took.len(), "failed": failed, "bytes_per_answer": bytes / took.len(),
        "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0),
        "connections": idle.lock().await.len(),
        "streamed_bytes": streamed.load(std::sync::atomic::Ordering::Relaxed),
    })
}

struct Answer {
    status: u16,
    bytes: usize,
}

impl Answer {
    /// Body with a length, or chunked.
    async fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::with_capacity(4096);
        let (head, status, length) = loop {
            let n = stream.read_buf(&mut bytes).await.expect("an answer");
            assert!(n > 0, "no answer");
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..at]).to_lowercase();
                let length = head
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.lines().next());
                let status = head
                    .split(' ')
                    .nth(1)
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(0);
                break (
                    at + 4,
                    status,
                    length.and_then(|text| text.trim().parse::<usize>().ok()),
                );
            }
        };
        let is_over = |bytes: &[u8]| match length {
            Some(length) => bytes.len() >= head + length,
            None => bytes.ends_with(b"0\r\n\r\n"),
        };
        while !is_over(&bytes) {
            let n = stream
                .read_buf(&mut bytes)
                .await
                .expect("the rest of an answer");
            assert!(n > 0, "the answer is cut");
        }
        Answer {
            status,
            bytes: bytes.len(),
        }
    }
}
