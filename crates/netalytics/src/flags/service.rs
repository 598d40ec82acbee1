//! Flags of the service, and of the verbs that ask one.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand};

use super::bus::{Bus, FlinkFlags, KafkaClientFlags, Merging};
use super::{Format, limits};

/// Flags of `serve`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeFlags {
    /// Something else than to serve
    #[command(subcommand)]
    pub what: Option<ServeVerb>,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7979")]
    pub listen: SocketAddr,

    /// Where jobs, tokens and results are kept; made if it is missing [default: /var/lib/netalytics for root, else
    /// ~/.local/state/netalytics]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Show it at work: an agent of its own plays the shop's capture again and again, and six standing jobs watch that. The data
    /// go with the server, unless --data says where they are kept
    #[arg(long)]
    pub demo: bool,

    /// Play this capture instead of the shop's: for those who test what the page makes of it
    #[arg(long, value_name = "FILE", requires = "demo", hide = true)]
    pub demo_capture: Option<PathBuf>,

    /// Show the page of this folder, as web/build.sh makes it, instead of the one that is built in: for those who work on it
    #[arg(long, value_name = "DIR", hide = true)]
    pub page: Option<PathBuf>,

    /// Additional host name of this server for clients; repeatable
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,

    /// A proxy, or a network of proxies, whose header X-Forwarded-For names the client: the address that the limit of wrong tokens and the
    /// audit log use; may be given several times
    #[arg(long = "trusted-proxy", value_name = "CIDR")]
    pub trusted_proxies: Vec<String>,

    /// Connections from trusted proxies begin with a header of the PROXY protocol (version 1 or 2), which names the client; without a
    /// valid one they are closed
    #[arg(long, requires = "trusted_proxies")]
    pub proxy_protocol: bool,

    /// Receiver of alerts, with a name for rules: webhook+https://HOST/PATH#secret-file=FILE (or #secret-env=NAME),
    /// alertmanager+http://HOST:PORT (default port 9093); @FILE reads the URL from a file. Repeatable
    #[arg(long = "receiver", value_name = "NAME=URL")]
    pub receivers: Vec<String>,

    /// An address for rows of jobs and decisions of actions that may be named instead of it (jobs start --to NAME, actions add --to
    /// NAME), as shop=redis://HOST/0 or shop=@FILE with the address in a file; may be given several times
    #[arg(long = "outlet", value_name = "NAME=URL")]
    pub outlets: Vec<String>,

    /// Folder with captures and recordings for queries, in addition to the data of jobs; an admin may delete files in
    /// it
    #[arg(long, value_name = "DIR")]
    pub recordings: Option<PathBuf>,

    /// The Kafka over which jobs may have their agents' findings come (jobs start --bus kafka): brokers to ask first, several with
    /// commas between
    #[arg(long, value_name = "HOST:PORT", help_heading = "Kafka")]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    #[command(flatten)]
    pub flink: FlinkFlags,

    /// The network in which jobs may run (jobs start --by-network): a file as for query --network, in which agents are named
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "In a network")]
    pub network: Option<PathBuf>,

    /// What copying packets costs there, measured by calibrate [default: supposed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "network", help_heading = "In a network")]
    pub costs: Option<PathBuf>,

    /// Answer GET /metrics, how the server does, to everybody who reaches its port; otherwise that needs a token of the role view
    #[arg(long)]
    pub metrics_without_token: bool,

    #[command(flatten)]
    pub tls: TlsFlags,

    /// Most jobs that have not ended
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub jobs_max: usize,

    /// Maximum per owner, that is per token that started the jobs
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Limits")]
    pub jobs_per_owner: usize,

    /// Most requests of one token a second
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_per_second: u32,

    /// Most connections at once
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Limits", value_parser = limits::positive)]
    pub connections_max: usize,

    /// Most agents at once
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits", value_parser = limits::positive)]
    pub agents_max: usize,

    /// Of a query over both taps of a connection (tap.…): how long a request of the client's waits for the server's
    #[arg(long, value_name = "SECONDS", default_value_t = 2, help_heading = "Limits", value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub join_patience: u16,

    /// And memory for those of one job that wait; beyond, the oldest wait no longer, and are counted
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Limits", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub join_mib: u32,

    /// Most live streams at once
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub streams_max: usize,

    /// Of these, most of one token
    #[arg(long, value_name = "N", default_value_t = 50, help_heading = "Limits")]
    pub streams_per_token: usize,

    /// Most outlets of jobs at once
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Limits")]
    pub outlets_max: usize,

    /// Most rows that wait for an outlet; beyond, the oldest are lost to it, and counted
    #[arg(long, value_name = "N", default_value_t = 1_000_000, help_heading = "Limits")]
    pub outlet_rows_max: u64,

    /// Most series of each job that GET /metrics/jobs shows, and that an outlet of the job gets of a window; beyond, the others are left
    /// out, and counted
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits")]
    pub series_max: usize,

    /// How many days results are kept; 0 keeps them
    #[arg(long, value_name = "DAYS", default_value_t = 7, help_heading = "Limits")]
    pub history_days: u16,

    /// How many MiB of results are kept, the newest; 0 keeps all
    #[arg(long, value_name = "MIB", default_value_t = 10_240, help_heading = "Limits")]
    pub history_mib: u32,

    /// The same of the tuples of jobs that keep them: days
    #[arg(long, value_name = "DAYS", default_value_t = 7, help_heading = "Limits")]
    pub tuples_days: u16,

    /// And MiB
    #[arg(long, value_name = "MIB", default_value_t = 10_240, help_heading = "Limits")]
    pub tuples_mib: u32,

    /// Most queries of the past that are answered at once
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Limits", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub past_at_once: u16,

    /// Time for a query of the past
    #[arg(long, value_name = "SECONDS", default_value_t = 20, help_heading = "Limits", value_parser = clap::value_parser!(u16).range(1..=25))]
    pub past_seconds: u16,

    /// Memory for the groups of a query of the past
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub past_mib: u32,

    /// Maximum MiB of an uploaded capture
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub upload_mib: u32,

    /// Most MiB of all of them
    #[arg(long, value_name = "MIB", default_value_t = 1024, help_heading = "Limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub uploads_mib: u32,

    /// How many hours one is kept
    #[arg(long, value_name = "HOURS", default_value_t = 24, help_heading = "Limits", value_parser = clap::value_parser!(u16).range(1..))]
    pub uploads_hours: u16,

    #[command(flatten)]
    pub alerts: AlertLimitFlags,

    #[command(flatten)]
    pub actions: ActionLimitFlags,
}

/// Limits of actions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub struct ActionLimitFlags {
    /// Most actions
    #[arg(long = "actions-max", value_name = "N", default_value_t = 20)]
    pub actions_max: usize,

    /// Most groups that one action follows
    #[arg(long = "action-groups-max", value_name = "N", default_value_t = 1000)]
    pub action_groups_max: usize,
}

/// Limits of alerts.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub struct AlertLimitFlags {
    /// Most alert rules
    #[arg(long = "alert-rules-max", value_name = "N", default_value_t = 200)]
    pub rules_max: usize,

    /// Most groups of one rule that are pending or firing
    #[arg(long = "alert-groups-max", value_name = "N", default_value_t = 1000)]
    pub groups_max: usize,

    /// Most silences that are not over
    #[arg(long = "alert-silences-max", value_name = "N", default_value_t = 500)]
    pub silences_max: usize,

    /// Most notifications that wait for receivers; then the oldest go
    #[arg(long = "alert-outbox-max", value_name = "N", default_value_t = 10_000)]
    pub outbox_max: usize,

    /// How long a notification is tried that is not taken
    #[arg(long = "alert-retry", value_name = "TIME", default_value = "1h", value_parser = limits::duration)]
    pub retry_ns: i64,

    /// Interval at which firing alerts are sent to Alertmanagers again
    #[arg(long = "alert-resend", value_name = "TIME", default_value = "60s", value_parser = limits::duration)]
    pub resend_ns: i64,
}

/// Flags of TLS.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS")]
pub struct TlsFlags {
    /// Speak TLS, with a certificate of the server's own authority, which is made in the data directory: clients trust what `netalytics
    /// serve ca` prints
    #[arg(long)]
    pub tls: bool,

    /// Speak TLS, with this certificate and those that lead to its authority, PEM; read anew when it changes, and with SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The key of --tls-cert, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// How long a certificate is good that an agent is given; it gets the next one before
    #[arg(long, value_name = "TIME", value_parser = limits::duration, default_value = "168h")]
    pub agent_certificates: i64,

    /// Listen beyond this machine without TLS: tokens and results can be read on the way
    #[arg(long, conflicts_with_all = ["tls", "tls_cert"])]
    pub insecure_http: bool,
}

/// Something else than to serve.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// Print the certificate of the server's own authority, which is made if there is none: clients and agents trust it with --ca
    Ca {
        /// The data directory
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Copy everything in the data directory into a new folder, also while the server runs
    Backup {
        /// The folder, which must not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// The data directory
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Restore a backup into a new data directory
    Restore {
        /// The backup
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// The data directory, which must be empty or missing
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

/// Whom to ask, and as whom.
#[derive(Args, Clone, Debug)]
pub struct ServerFlags {
    /// The server [default: NETALYTICS_SERVER in the environment, else `server` in the client profile, else http://127.0.0.1:7979]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// A file with the token [default: NETALYTICS_TOKEN, else the file NETALYTICS_TOKEN_FILE, else `token_file` in the client profile]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https:// [default: the file NETALYTICS_CA, else `ca` in the
    /// client profile, else those that are known everywhere]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// How to print; as JSON lines all that the server tells, else what is read most
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Flags of `agents`.
#[derive(Args, Debug)]
pub struct AgentsFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<AgentsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about agents.
#[derive(Debug, Subcommand)]
pub enum AgentsVerb {
    /// Print a one-time token, with which a host becomes the agent of this name: netalytics agent enrol --token-file FILE
    Enrol {
        /// What the agent is to be called
        name: String,

        /// For how long the token is good
        #[arg(long, value_name = "TIME", value_parser = limits::duration, default_value = "1h")]
        expires: i64,

        /// Write the token to this file, which only its owner may read, instead of printing it; one that is there is replaced
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// List agents that have certificates, and until when those are good
    Enrolled,
    /// Refuse an agent: its certificates and tokens are good for nothing any more, its connection is cut
    Revoke {
        /// Its name
        name: String,
    },
}

/// Flags of `jobs`.
#[derive(Args, Debug)]
pub struct JobsFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<JobsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about jobs.
#[derive(Debug, Subcommand)]
pub enum JobsVerb {
    /// Start a job
    Start(Box<StartFlags>),
    /// Show all that is known of a job: how it does, what its agents have seen, what outlets were sent
    Show {
        /// Its number or name
        job: String,
    },
    /// Stop a job; what it has by then stays
    Stop {
        /// Its number or name
        job: String,
    },
    /// Print the rows of a job
    Results {
        /// Its number or name
        job: String,

        /// Which of its results: a processor's name, or its place from 0; the first unless said
        #[arg(long)]
        result: Option<String>,

        /// Rows of this time or later: 2026-11-22T10:00:00Z, or nanoseconds since 1970
        #[arg(long, value_name = "TIME")]
        since: Option<String>,

        /// Rows before this time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
}

/// Flags of `jobs start`.
#[derive(Args, Debug)]
pub struct StartFlags {
    /// The query
    pub query: String,

    /// What it is called
    #[arg(long)]
    pub name: Option<String>,

    /// It runs until it is stopped, also after the server was started again
    #[arg(long)]
    pub standing: bool,

    /// A label that an agent must have to take part; may be given several times
    #[arg(long, value_name = "LABEL=VALUE")]
    pub on: Vec<String>,

    /// An interface of the agents' hosts, * for any run of characters; may be given several times [default: all that may be captured
    /// from]
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Vec<String>,

    /// Look at packets only that this filter, in tcpdump's language, takes
    #[arg(long, value_name = "FILTER")]
    pub capture_filter: Option<String>,

    /// Run it in the server's network (serve --network): monitors where that is planned, and switches copy to them
    #[arg(long, conflicts_with_all = ["on", "interface", "bus"])]
    pub by_network: bool,

    /// Where its rows go, too, from the server: an outlet's name there, or a URL as for query --to, which needs an admin's token;
    /// may be given several times
    #[arg(long, value_name = "NAME|URL")]
    pub to: Vec<String>,

    /// Keep its tuples, so that any query can be asked of them later (SINCE): a standing job without PROCESS
    #[arg(long)]
    pub keep_tuples: bool,

    /// Over what agents' findings come together [default: they send them to the server]
    #[arg(long, value_enum, value_name = "BUS")]
    pub bus: Option<Bus>,

    /// Who merges what is on the bus: the server or Flink
    #[arg(long, value_enum, value_name = "WHO", requires = "bus")]
    pub engine: Option<Merging>,

    /// Texts as the packets say them, which needs a token of the role raw; else those that may say something of a person are folded
    #[arg(long)]
    pub raw: bool,
}
