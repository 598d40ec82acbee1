//! Flags of the server and of its client commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand};

use super::bus::{BusFlag, FlinkFlags, KafkaClientFlags, MergeEngineFlag};
use super::{OutputFormat, limits};

/// Flags of `serve`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeFlags {
    /// Subcommand [default: run the server]
    #[command(subcommand)]
    pub what: Option<ServeVerb>,

    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7979")]
    pub listen: SocketAddr,

    /// Folder of jobs, tokens and results, created if missing [default: /var/lib/netalytics for root, otherwise
    /// ~/.local/state/netalytics]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Demonstration: an agent replays the shop capture in a loop for six standing jobs; without --data nothing is
    /// kept
    #[arg(long)]
    pub demo: bool,

    /// Capture of --demo instead of the shop's; for tests
    #[arg(long, value_name = "FILE", requires = "demo", hide = true)]
    pub demo_capture: Option<PathBuf>,

    /// Folder of the web page, as web/build.sh builds it, instead of the built-in one; for development
    #[arg(long, value_name = "DIR", hide = true)]
    pub page: Option<PathBuf>,

    /// Additional host name of this server for clients; repeatable
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,

    /// Address or network of proxies whose X-Forwarded-For names the client, for rate limits and the audit log;
    /// repeatable
    #[arg(long = "trusted-proxy", value_name = "CIDR")]
    pub trusted_proxies: Vec<String>,

    /// Require a PROXY protocol header (version 1 or 2) on every connection from a trusted proxy
    #[arg(long, requires = "trusted_proxies")]
    pub proxy_protocol: bool,

    /// Receiver of alerts for rules: webhook+https://HOST/PATH or alertmanager+http://HOST:PORT; @FILE reads the URL
    /// from a file; repeatable
    #[arg(long = "receiver", value_name = "NAME=URL")]
    pub receivers: Vec<String>,

    /// Named URL for rows of jobs and decisions of actions (--to NAME), as in shop=redis://HOST/0 or shop=@FILE;
    /// repeatable
    #[arg(long = "outlet", value_name = "NAME=URL")]
    pub outlets: Vec<String>,

    /// Folder of additional captures and recordings for queries; an admin may delete files in it
    #[arg(long, value_name = "DIR")]
    pub recordings: Option<PathBuf>,

    /// Bootstrap brokers for jobs with --bus kafka, separated by commas
    #[arg(long, value_name = "HOST:PORT", help_heading = "Kafka")]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    #[command(flatten)]
    pub flink: FlinkFlags,

    /// Description of the network for jobs with --by-network, with agents; as for query --network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "In a network")]
    pub network: Option<PathBuf>,

    /// Costs of copying packets, measured by netalytics calibrate [default: built-in estimates]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "network", help_heading = "In a network")]
    pub costs: Option<PathBuf>,

    /// Answer GET /metrics without a token; otherwise the role view is required
    #[arg(long)]
    pub metrics_without_token: bool,

    #[command(flatten)]
    pub tls: TlsFlags,

    /// Maximum number of active jobs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        help_heading = "Server limits"
    )]
    pub jobs_max: usize,

    /// Maximum number of active jobs per token
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        help_heading = "Server limits"
    )]
    pub jobs_per_owner: usize,

    /// Maximum number of requests per second and token
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Server limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub requests_per_second: u32,

    /// Maximum number of connections
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Server limits", value_parser = limits::positive)]
    pub connections_max: usize,

    /// Maximum number of connected agents
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Server limits", value_parser = limits::positive)]
    pub agents_max: usize,

    /// Time in seconds for which a request at one tap waits for the other tap (tap.…)
    #[arg(long, value_name = "SECONDS", default_value_t = 2, help_heading = "Server limits", value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub join_patience: u16,

    /// Memory in MiB per job for requests that wait for the other tap; beyond it, the oldest are dropped and counted
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Server limits", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub join_mib: u32,

    /// Maximum number of live streams
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        help_heading = "Server limits"
    )]
    pub streams_max: usize,

    /// Maximum number of live streams per token
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        help_heading = "Server limits"
    )]
    pub streams_per_token: usize,

    /// Maximum number of outlets of jobs
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        help_heading = "Server limits"
    )]
    pub outlets_max: usize,

    /// Maximum number of rows that wait for an outlet; beyond it, the oldest are dropped and counted
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        help_heading = "Server limits"
    )]
    pub outlet_rows_max: u64,

    /// Maximum number of series per job in GET /metrics/jobs and per window in outlets; the rest are left out and
    /// counted
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000,
        help_heading = "Server limits"
    )]
    pub series_max: usize,

    /// Retention of results in days; 0: no limit
    #[arg(
        long,
        value_name = "DAYS",
        default_value_t = 7,
        help_heading = "Server limits"
    )]
    pub history_days: u16,

    /// Retention of results in MiB, newest first; 0: no limit
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 10_240,
        help_heading = "Server limits"
    )]
    pub history_mib: u32,

    /// Retention of stored tuples in days; 0: no limit
    #[arg(
        long,
        value_name = "DAYS",
        default_value_t = 7,
        help_heading = "Server limits"
    )]
    pub tuples_days: u16,

    /// Retention of stored tuples in MiB, newest first; 0: no limit
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 10_240,
        help_heading = "Server limits"
    )]
    pub tuples_mib: u32,

    /// Maximum number of concurrent queries over stored data
    #[arg(long, value_name = "N", default_value_t = 2, help_heading = "Server limits", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub past_at_once: u16,

    /// Maximum time in seconds of a query over stored data
    #[arg(long, value_name = "SECONDS", default_value_t = 20, help_heading = "Server limits", value_parser = clap::value_parser!(u16).range(1..=25))]
    pub past_seconds: u16,

    /// Memory in MiB for the groups of a query over stored data
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Server limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub past_mib: u32,

    /// Maximum size in MiB of an uploaded capture
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Server limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub upload_mib: u32,

    /// Maximum size in MiB of all uploaded captures
    #[arg(long, value_name = "MIB", default_value_t = 1024, help_heading = "Server limits", value_parser = clap::value_parser!(u32).range(1..))]
    pub uploads_mib: u32,

    /// Retention of uploaded captures in hours
    #[arg(long, value_name = "HOURS", default_value_t = 24, help_heading = "Server limits", value_parser = clap::value_parser!(u16).range(1..))]
    pub uploads_hours: u16,

    #[command(flatten)]
    pub alerts: AlertLimitFlags,

    #[command(flatten)]
    pub actions: ActionLimitFlags,
}

/// Limits of actions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server limits")]
pub struct ActionLimitFlags {
    /// Maximum number of actions
    #[arg(long = "actions-max", value_name = "N", default_value_t = 20)]
    pub actions_max: usize,

    /// Maximum number of groups per action
    #[arg(long = "action-groups-max", value_name = "N", default_value_t = 1000)]
    pub action_groups_max: usize,
}

/// Limits of alerts.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server limits")]
pub struct AlertLimitFlags {
    /// Maximum number of alert rules
    #[arg(long = "alert-rules-max", value_name = "N", default_value_t = 200)]
    pub rules_max: usize,

    /// Maximum number of pending or firing groups per rule
    #[arg(long = "alert-groups-max", value_name = "N", default_value_t = 1000)]
    pub groups_max: usize,

    /// Maximum number of active silences
    #[arg(long = "alert-silences-max", value_name = "N", default_value_t = 500)]
    pub silences_max: usize,

    /// Maximum number of notifications that wait for receivers; beyond it, the oldest are dropped
    #[arg(long = "alert-outbox-max", value_name = "N", default_value_t = 10_000)]
    pub outbox_max: usize,

    /// Time after which a notification that was not accepted is dropped
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
    /// Use TLS with a certificate of the server's own authority; `netalytics serve ca` prints the one to trust
    #[arg(long)]
    pub tls: bool,

    /// Use TLS with this certificate chain (PEM); reloaded when it changes and on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Validity of agents' certificates, which are renewed before they expire
    #[arg(long, value_name = "TIME", value_parser = limits::duration, default_value = "168h")]
    pub agent_certificates: i64,

    /// Allow --listen without TLS on addresses of a network; tokens and results are sent unencrypted
    #[arg(long, conflicts_with_all = ["tls", "tls_cert"])]
    pub insecure_http: bool,
}

/// Subcommands of `serve`.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// Print the certificate of the server's own authority, created if missing; clients and agents trust it with --ca
    Ca {
        /// Data directory
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Copy everything in the data directory into a new folder, also while the server runs
    Backup {
        /// New folder for the backup; must not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// Data directory
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Restore a backup into a new data directory
    Restore {
        /// Folder of the backup
        #[arg(value_name = "DIR")]
        folder: PathBuf,

        /// Data directory; must be empty or missing
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

/// Server, token and authority of client commands.
#[derive(Args, Clone, Debug)]
pub struct ServerFlags {
    /// Server [default: NETALYTICS_SERVER, server in the client profile, or http://127.0.0.1:7979]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// File with the token [default: NETALYTICS_TOKEN, NETALYTICS_TOKEN_FILE, or token_file in the client profile]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed the server's, for https:// [default: NETALYTICS_CA, ca in the
    /// client profile, or the system's authorities]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Output format; jsonl has all fields, the others the most common ones
    #[arg(long, global = true, value_enum, default_value_t = OutputFormat::Table)]
    pub format: OutputFormat,
}

/// Flags of `agents`.
#[derive(Args, Debug)]
pub struct AgentsFlags {
    /// Command [default: list the agents]
    #[command(subcommand)]
    pub what: Option<AgentsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// Subcommands of `agents`.
#[derive(Debug, Subcommand)]
pub enum AgentsVerb {
    /// Print a one-time token with which a host enrolls as the agent NAME
    #[command(alias = "enrol")]
    Enroll {
        /// Name of the agent
        name: String,

        /// Validity of the token
        #[arg(long, value_name = "TIME", value_parser = limits::duration, default_value = "1h")]
        expires: i64,

        /// Write the token to this file (mode 0600) instead of standard output; an existing file is replaced
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// List agents with certificates and their expiry
    Enrolled,
    /// Revoke the certificates and tokens of an agent and close its connection
    Revoke {
        /// Name of the agent
        name: String,
    },
}

/// Flags of `jobs`.
#[derive(Args, Debug)]
pub struct JobsFlags {
    /// Command [default: list the jobs]
    #[command(subcommand)]
    pub what: Option<JobsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// Subcommands of `jobs`.
#[derive(Debug, Subcommand)]
pub enum JobsVerb {
    /// Start a job
    Start(Box<JobStartFlags>),
    /// Show the state of a job, its agents and its outlets
    Show {
        /// Number or name of the job
        job: String,
    },
    /// Stop a job; its results are kept
    Stop {
        /// Number or name of the job
        job: String,
    },
    /// Print the rows of a job
    Results {
        /// Number or name of the job
        job: String,

        /// Result by processor name or by index from 0 [default: 0]
        #[arg(long)]
        result: Option<String>,

        /// First time of rows: 2026-11-22T10:00:00Z, or nanoseconds since 1970
        #[arg(long, value_name = "TIME")]
        since: Option<String>,

        /// End of the period, exclusive
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
}

/// Flags of `jobs start`.
#[derive(Args, Debug)]
pub struct JobStartFlags {
    /// Query
    pub query: String,

    /// Name of the job
    #[arg(long)]
    pub name: Option<String>,

    /// Run until stopped, also after a restart of the server
    #[arg(long)]
    pub standing: bool,

    /// Only agents with this label; repeatable
    #[arg(long, value_name = "LABEL=VALUE")]
    pub on: Vec<String>,

    /// Interface on the agents' hosts, with * as wildcard; repeatable [default: all that the agents allow]
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Vec<String>,

    /// Read the export messages (sFlow, NetFlow, IPFIX) that the agents receive, instead of packets of interfaces
    #[arg(long, conflicts_with_all = ["interface", "by_network", "bus", "keep_tuples"])]
    pub exports: bool,

    /// Read only packets that match this filter in tcpdump's language
    #[arg(long, value_name = "FILTER")]
    pub capture_filter: Option<String>,

    /// Run the job in the server's network (serve --network): planned monitors, switches that copy packets
    #[arg(long, conflicts_with_all = ["on", "interface", "bus"])]
    pub by_network: bool,

    /// Also send rows from the server to this outlet, or as an admin to a URL as for query --to; repeatable
    #[arg(long, value_name = "NAME|URL")]
    pub to: Vec<String>,

    /// Store the tuples for later queries with SINCE; for a standing job without PROCESS
    #[arg(long)]
    pub keep_tuples: bool,

    /// Transport of the agents' results [default: directly to the server]
    #[arg(long, value_enum, value_name = "BUS")]
    pub bus: Option<BusFlag>,

    /// Engine that merges the records of the bus
    #[arg(long, value_enum, value_name = "WHO", requires = "bus")]
    pub engine: Option<MergeEngineFlag>,

    /// Return texts unchanged (requires the role raw); otherwise texts that may identify a person are hashed
    #[arg(long)]
    pub raw: bool,
}
