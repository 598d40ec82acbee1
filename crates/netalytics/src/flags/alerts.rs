//! Flags of `alerts`.

use clap::{Args, Subcommand, ValueEnum};

use super::service::ServerFlags;

/// Flags of `alerts`.
#[derive(Args, Debug)]
pub struct AlertsFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<AlertsVerb>,

    /// Only those in this state: pending, firing or resolved
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about alerts.
#[derive(Debug, Subcommand)]
pub enum AlertsVerb {
    /// List the rules
    Rules,
    /// Make a rule: a query and a condition on its rows
    Add(Box<AddFlags>),
    /// Remove a rule: its alerts resolve, and its own job ends
    Remove {
        /// Its name or number
        rule: String,
    },
    /// List silences
    Silences,
    /// Silence alerts: an admin's silence is about all, another's about those of its author's rules
    Silence {
        /// Which: LABEL=VALUE, LABEL!=VALUE, LABEL=~EXPRESSION, LABEL!~EXPRESSION; all have to match
        #[arg(required = true, value_name = "MATCHER")]
        matchers: Vec<String>,

        /// Duration: 30m, 2h, 3d
        #[arg(long = "for", value_name = "TIME")]
        for_time: String,

        /// Why
        #[arg(long, default_value = "")]
        comment: String,
    },
    /// End a silence
    Unsilence {
        /// Its number
        silence: u64,
    },
    /// List the receivers that the server was started with
    Receivers,
    /// Send a receiver a notification that says that it is a test
    Test {
        /// Its name
        receiver: String,
    },
}

/// Flags of `alerts add`.
#[derive(Args, Debug)]
pub struct AddFlags {
    /// The query, which runs as a standing job that ends with the rule; or --job
    #[arg(required_unless_present = "job", conflicts_with = "job")]
    pub query: Option<String>,

    /// A standing job that runs already, by its name or number, instead of a query
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,

    /// The condition on a row: 'p99 > 50ms and count > 20'
    #[arg(long, value_name = "CONDITION")]
    pub when: String,

    /// What it is called, and its alerts with it; the condition unless said
    #[arg(long)]
    pub name: Option<String>,

    /// Time for which the condition must hold: 1m
    #[arg(long = "for", value_name = "TIME")]
    pub for_time: Option<String>,

    /// Time for which it must not hold before the alert resolves
    #[arg(long, value_name = "TIME")]
    pub keep_firing_for: Option<String>,

    /// A label of its alerts; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub label: Vec<String>,

    /// What its alerts say to people, {p99} for a column's value; may be given several times
    #[arg(long, value_name = "NAME=TEXT")]
    pub annotation: Vec<String>,

    /// Name of a receiver; repeatable
    #[arg(long, value_name = "NAME")]
    pub receiver: Vec<String>,

    /// A label that an agent must have to take part; may be given several times
    #[arg(long, value_name = "LABEL=VALUE")]
    pub on: Vec<String>,

    /// Which of the query's results, by its processor's name or its place
    #[arg(long)]
    pub result: Option<String>,

    /// When a window has no rows: alert of that, hold what is, or resolve it
    #[arg(long, value_enum, default_value_t = NoData::Alert)]
    pub no_data: NoData,

    /// When a window lacks agents: alert of that, hold what is, or judge the rows that there are
    #[arg(long, value_enum, default_value_t = MissingAgents::Alert)]
    pub missing_agents: MissingAgents,
}

/// What a window without rows means.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NoData {
    /// The rule itself fires
    Alert,
    /// Nothing changes
    Hold,
    /// The condition is true of nothing
    Resolve,
}

/// What a window means that lacks agents.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingAgents {
    /// The rule itself fires
    Alert,
    /// Nothing changes
    Hold,
    /// What its rows say
    Judge,
}

/// A choice as the API names it.
pub fn word(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
