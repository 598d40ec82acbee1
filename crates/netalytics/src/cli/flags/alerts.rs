//! Flags of `alerts`.

use clap::{Args, Subcommand, ValueEnum};

use super::service::ServerFlags;

/// Flags of `alerts`.
#[derive(Args, Debug)]
pub struct AlertsFlags {
    /// Command [default: list the alerts]
    #[command(subcommand)]
    pub what: Option<AlertsVerb>,

    /// Only alerts in this state: pending, firing or resolved
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// Subcommands of `alerts`.
#[derive(Debug, Subcommand)]
pub enum AlertsVerb {
    /// List the rules
    Rules,
    /// Create a rule: a query and a condition on its rows
    Add(Box<AlertAddFlags>),
    /// Remove a rule; its alerts resolve and its own job ends
    Remove {
        /// Name or number of the rule
        rule: String,
    },
    /// List silences
    Silences,
    /// Silence alerts; without the role admin, only those of one's own rules
    Silence {
        /// Matcher: LABEL=VALUE, LABEL!=VALUE, LABEL=~REGEX, LABEL!~REGEX; all must match
        #[arg(required = true, value_name = "MATCHER")]
        matchers: Vec<String>,

        /// Duration: 30m, 2h, 3d
        #[arg(long = "for", value_name = "TIME")]
        for_time: String,

        /// Reason
        #[arg(long, default_value = "")]
        comment: String,
    },
    /// End a silence
    Unsilence {
        /// Number of the silence
        silence: u64,
    },
    /// List the receivers of the server
    Receivers,
    /// Send a test notification to a receiver
    Test {
        /// Name of the receiver
        receiver: String,
    },
}

/// Flags of `alerts add`.
#[derive(Args, Debug)]
pub struct AlertAddFlags {
    /// Query, run as a standing job that ends with the rule; or --job
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    pub query: Option<String>,

    /// Existing standing job, by name or number, instead of a query
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,

    /// Condition on a row, as in 'p99 > 50ms and count > 20'
    #[arg(long, value_name = "CONDITION")]
    pub when: String,

    /// Name of the rule and its alerts [default: the condition]
    #[arg(long)]
    pub name: Option<String>,

    /// Time for which the condition must hold before the alert fires, as in 1m
    #[arg(long = "for", value_name = "TIME")]
    pub for_time: Option<String>,

    /// Time for which the condition must not hold before the alert resolves
    #[arg(long, value_name = "TIME")]
    pub keep_firing_for: Option<String>,

    /// Label of the rule's alerts; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub label: Vec<String>,

    /// Text of the rule's alerts, with {p99} for the value of a column; repeatable
    #[arg(long, value_name = "NAME=TEXT")]
    pub annotation: Vec<String>,

    /// Name of a receiver; repeatable
    #[arg(long, value_name = "NAME")]
    pub receiver: Vec<String>,

    /// Only agents with this label; repeatable
    #[arg(long, value_name = "LABEL=VALUE")]
    pub on: Vec<String>,

    /// Result of the job, by processor name or index
    #[arg(long)]
    pub result: Option<String>,

    /// State of the rule after a window without rows
    #[arg(long, value_enum, default_value_t = NoDataPolicy::Alert)]
    pub no_data: NoDataPolicy,

    /// State of the rule after a window without data of some agents
    #[arg(long, value_enum, default_value_t = MissingAgentsPolicy::Alert)]
    pub missing_agents: MissingAgentsPolicy,
}

/// State of a rule after a window without rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NoDataPolicy {
    /// Fire
    Alert,
    /// Keep the state
    Hold,
    /// Resolve
    Resolve,
}

/// State of a rule after a window without data of some agents.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingAgentsPolicy {
    /// Fire
    Alert,
    /// Keep the state
    Hold,
    /// Evaluate the existing rows
    Judge,
}

/// Name of a value in the API.
pub fn word(choice: &impl ValueEnum) -> String {
    choice
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
