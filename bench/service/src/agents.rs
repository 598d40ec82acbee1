//! Many agents on one thread, all with the same jobs.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::dial::ServerEndpoint;
use clap::Args;
use identity::{TrustedServers, client_config};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::agent::Life;
use crate::said::{Keys, Said, Size, plan_of, reports};

/// Flags of this load.
#[derive(Args)]
pub struct Flags {
    #[command(flatten)]
    size: Size,
    /// The job's query
    #[arg(long)]
    query: String,
    /// The server's URL
    #[arg(long)]
    server: String,
    /// The authority that signed the certificate of an https server, PEM
    #[arg(long)]
    ca: Option<std::path::PathBuf>,
    /// A file with the name and the token of each agent, one per line
    #[arg(long)]
    tokens: std::path::PathBuf,
    /// Number of jobs, all with this query
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Window interval in milliseconds; 0: as fast as they are acknowledged
    #[arg(long, default_value_t = 1000)]
    pace_ms: u64,
}

/// Runs the load; returns the figures.
pub fn run(flags: &Flags) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, all(flags))
}

async fn all(flags: &Flags) -> Value {
    let size = &flags.size;
    let plan = plan_of(&flags.query);
    let own = if size.keys == Keys::Own {
        size.agents
    } else {
        1
    };
    let said: Vec<Arc<Vec<Said>>> = (0..own)
        .map(|agent| Arc::new(reports(&plan, size, agent)))
        .collect();
    let bytes: usize = said
        .iter()
        .flat_map(|said| said.iter().map(|(_, bytes)| bytes.len()))
        .sum();
    let tokens = std::fs::read_to_string(&flags.tokens).expect("the file of tokens");
    let tokens: Vec<(String, String)> = tokens
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, token)| (name.to_owned(), token.to_owned()))
        .collect();
    assert!(tokens.len() >= size.agents, "a token for each agent");
    let authority = flags
        .ca
        .as_ref()
        .map(|file| std::fs::read_to_string(file).expect("the authority"));
    let server = |token: String| {
        let trusting =
            |pem: &String| client_config(TrustedServers::Of(pem), None).expect("an authority");
        ServerEndpoint::new(&flags.server, authority.as_ref().map(trusting), Some(token))
            .expect("a server")
    };
    let (allow, allowed) = watch::channel(0);
    let (taken, mut steps) = mpsc::channel(size.agents * flags.jobs);
    let mut lives = tokio::task::JoinSet::new();
    for (n, (name, token)) in tokens.into_iter().take(size.agents).enumerate() {
        let said = said[n % own].clone();
        let server = server(token);
        let ids = (1 + n as u64, flags.jobs);
        let life = Life::new(name, ids.0, said, allowed.clone());
        let taken = taken.clone();
        lives.spawn_local(life.live(server, ids, taken));
    }
    eprintln!("connected");
    for _ in 0..size.agents * flags.jobs {
        steps.recv().await.expect("all get their jobs");
    }
    eprintln!("begin");
    let begun = Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(flags.pace_ms.max(1)));
    for window in 0..size.windows {
        if flags.pace_ms > 0 {
            pace.tick().await;
        }
        allow.send(window + 1).expect("they listen");
    }
    for _ in 0..size.agents {
        steps.recv().await.expect("all is acknowledged");
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("said");
    // Agents stay until the caller has seen the job's end.
    let stay = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(stay)
        .await
        .expect("it only reads")
        .expect("standard input");
    let sent = bytes * size.agents / own * flags.jobs;
    json!({ "groups": size.total() * flags.jobs, "seconds": seconds, "bytes": sent })
}
