//! Settings: limits and tuning, from flags, the environment, a configuration file (TOML), or defaults, in this order of
//! precedence. A setting has the name of its flag, without dashes in front; its variable is `NETALYTICS_` and the name in capitals.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::ValueHint;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, value_parser};
use toml::de::{DeTable, DeValue};

use super::limits;

/// Groups of settings, in the order in which they are listed.
const GROUPS: [&str; 5] = [
    "Resources",
    "Limits",
    "Tuning",
    "Agent limits",
    "Server limits",
];
/// Group whose flags the help of each command shows.
const SHOWN_GROUP: &str = "Resources";
/// Id of the flag that names the configuration file.
const CONFIG: &str = "config";
/// Environment variable with the path of the configuration file, used without `--config`.
const FILE_VARIABLE: &str = "NETALYTICS_CONFIG";

/// Flags of `config`.
#[derive(Args, Debug)]
pub struct ConfigFlags {
    /// Effective settings, in the order of their groups.
    #[arg(skip)]
    pub settings: Vec<Setting>,
}

/// A setting with its value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name of the flag without dashes, key of the configuration file.
    pub name: String,
    /// Heading.
    pub group: String,
    /// Help text of the flag.
    pub help: String,
    /// Effective value; `None`: not set, and without a default.
    pub value: Option<String>,
    /// Value without flag, variable and file.
    pub default: Option<String>,
    /// Source of the value.
    pub origin: Origin,
}

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment { variable: String },
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "file {path:?}, line {line}"),
            Origin::Environment { variable } => write!(f, "environment {variable}"),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// Values from the environment and the configuration file, by name.
pub struct Configuration(BTreeMap<String, (String, Origin)>);

impl Configuration {
    /// Reads the environment and the file that `--config` or the environment names.
    ///
    /// # Errors
    /// `ErrorKind::Io` for a file that cannot be read, `ErrorKind::ValueValidation` for unknown names and invalid values.
    pub fn read(
        command: &Command,
        matches: &ArgMatches,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Configuration, (ErrorKind, String)> {
        let settings = all(command);
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = matches.get_one::<PathBuf>(CONFIG).cloned();
        let path = path.or_else(|| variable(FILE_VARIABLE).map(PathBuf::from));
        let mut values = match path {
            Some(path) => read_file(&path, &settings)?,
            None => BTreeMap::new(),
        };
        for (name, arg) in &settings {
            let variable_name = variable_of(name);
            let Some(value) = variable(&variable_name) else {
                continue;
            };
            let value = value.to_string_lossy().into_owned();
            validate(arg, &value).map_err(|why| {
                (
                    ErrorKind::ValueValidation,
                    format!("{variable_name}: {why}"),
                )
            })?;
            values.insert(
                name.clone(),
                (
                    value,
                    Origin::Environment {
                        variable: variable_name,
                    },
                ),
            );
        }
        Ok(Configuration(values))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The command line with these values as defaults, which flags override. Hidden commands take their settings from the
    /// process that starts them.
    pub fn apply(&self, command: Command) -> Command {
        command.mut_subcommands(|verb| {
            if verb.is_hide_set() {
                return verb;
            }
            verb.mut_args(|arg| match arg.get_long().filter(|_| is_setting(&arg)) {
                Some(name) => match self.0.get(name) {
                    Some((value, _)) => arg.default_value(forever(value)),
                    None => arg,
                },
                None => arg,
            })
        })
    }

    /// All settings with their values, for `config`.
    pub fn settings(&self, command: &Command, matches: &ArgMatches) -> Vec<Setting> {
        let text = |name: &str| -> Option<String> {
            let values = matches
                .get_raw(name)?
                .map(|value| value.to_string_lossy().into_owned());
            Some(values.collect::<Vec<_>>().join(","))
        };
        let memory = text("memory-max").or_else(|| Some(self.0.get("memory-max")?.0.clone()));
        let derived = limits::defaults(memory.and_then(|text| limits::bytes(&text).ok()));
        let setting = |(name, arg): (String, Arg)| {
            let is_flag = matches.value_source(&name) == Some(ValueSource::CommandLine);
            let configured = self.0.get(&name);
            let value = match (is_flag, arg.get_action()) {
                (true, ArgAction::SetTrue) => Some("true".to_owned()),
                (true, _) => text(&name),
                (false, _) => configured.map(|(value, _)| value.clone()),
            };
            let origin = match configured {
                _ if is_flag => Origin::Flag,
                Some((_, origin)) => origin.clone(),
                None => Origin::Default,
            };
            let default = default_of(&arg).or_else(|| derived.get(name.as_str()).cloned());
            Setting {
                group: arg.get_help_heading().unwrap_or_default().to_owned(),
                help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
                value: value.or_else(|| default.clone()),
                name,
                default,
                origin,
            }
        };
        all(command).into_iter().map(setting).collect()
    }
}

fn default_of(arg: &Arg) -> Option<String> {
    match arg.get_action() {
        ArgAction::SetTrue => Some("false".to_owned()),
        _ => arg
            .get_default_values()
            .first()
            .map(|value| value.to_string_lossy().into_owned()),
    }
}

/// Whether a flag is a setting.
pub fn is_setting(arg: &Arg) -> bool {
    let is_in_group = arg
        .get_help_heading()
        .is_some_and(|heading| GROUPS.contains(&heading));
    is_in_group && arg.get_long().is_some() && arg.get_id() != CONFIG
}

/// Whether the help of commands other than `config` leaves a flag out.
pub fn is_hidden(arg: &Arg) -> bool {
    is_setting(arg) && arg.get_help_heading() != Some(SHOWN_GROUP)
}

/// Whether a command reads the configuration.
pub fn takes_settings(verb: &Command) -> bool {
    !verb.is_hide_set() && verb.get_arguments().any(|arg| arg.get_id() == CONFIG)
}

/// The settings of all visible commands by name, in the order of their groups.
pub fn all(command: &Command) -> Vec<(String, Arg)> {
    let verbs = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "config");
    let args = verbs
        .flat_map(Command::get_arguments)
        .filter(|arg| is_setting(arg));
    let mut settings: Vec<(String, Arg)> = Vec::new();
    for (arg, name) in args.filter_map(|arg| Some((arg, arg.get_long()?))) {
        if settings.iter().all(|(known, _)| known != name) {
            settings.push((name.to_owned(), arg.clone()));
        }
    }
    settings.sort_by_key(|(_, arg)| {
        GROUPS
            .iter()
            .position(|group| arg.get_help_heading() == Some(group))
    });
    settings
}

/// The flag of a setting for `config`, without relations to flags that `config` lacks.
pub fn listed(arg: &Arg) -> Arg {
    let name = forever(arg.get_long().unwrap_or_default());
    let listed = Arg::new(name)
        .long(name)
        .help(arg.get_help().cloned().unwrap_or_default())
        .help_heading(forever(arg.get_help_heading().unwrap_or_default()))
        .action(arg.get_action().clone());
    if !arg.get_action().takes_values() {
        return listed;
    }
    let listed = listed
        .value_parser(arg.get_value_parser().clone())
        .value_names(arg.get_value_names().unwrap_or_default().to_vec())
        .default_values(arg.get_default_values().to_vec());
    match arg.get_num_args() {
        Some(range) if range.min_values() == 0 => listed
            .num_args(range)
            .require_equals(true)
            .default_missing_value(""),
        _ => listed,
    }
}

/// `--config`.
pub fn config_flag() -> Arg {
    Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .value_parser(value_parser!(PathBuf))
        .help_heading(SHOWN_GROUP)
        .help("Configuration file (TOML) with limits and tuning; `netalytics config` lists all settings [default: NETALYTICS_CONFIG]")
}

/// `NETALYTICS_MEMORY_MAX` for `memory-max`.
pub fn variable_of(name: &str) -> String {
    format!("NETALYTICS_{}", name.replace('-', "_").to_uppercase())
}

/// clap keeps texts that live as long as the process; there is at most one per setting.
fn forever(text: &str) -> &'static str {
    text.to_owned().leak()
}

fn read_file(
    path: &Path,
    settings: &[(String, Arg)],
) -> Result<BTreeMap<String, (String, Origin)>, (ErrorKind, String)> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        (
            ErrorKind::Io,
            format!("cannot read {}: {error}", path.display()),
        )
    })?;
    let invalid = |why: String| {
        (
            ErrorKind::ValueValidation,
            format!("{}: {}", path.display(), why.trim_end()),
        )
    };
    let table = DeTable::parse(&text).map_err(|error| invalid(error.to_string()))?;
    let mut values = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let line = 1 + text[..key.span().start].matches('\n').count();
        let name: &str = key.get_ref();
        let invalid = |why: &str| invalid(format!("line {line}: {why}"));
        let Some((_, arg)) = settings.iter().find(|(known, _)| known == name) else {
            return Err(invalid(&format!(
                "unknown setting `{name}`; `netalytics config` lists all settings"
            )));
        };
        let value = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            _ => {
                return Err(invalid(&format!(
                    "`{name}`: expected a string, a number or a boolean"
                )));
            }
        };
        validate(arg, &value).map_err(|why| invalid(&why))?;
        values.insert(
            name.to_owned(),
            (
                value,
                Origin::File {
                    path: path.to_owned(),
                    line,
                },
            ),
        );
    }
    Ok(values)
}

/// Parses a value as its flag does.
fn validate(arg: &Arg, value: &str) -> Result<(), String> {
    let name = arg.get_long().unwrap_or_default();
    if !arg.get_action().takes_values() {
        let is_boolean = ["true", "false"].contains(&value);
        return if is_boolean {
            Ok(())
        } else {
            Err(format!("`{name}`: expected true or false"))
        };
    }
    let parsed = Command::new("netalytics")
        .no_binary_name(true)
        .arg(listed(arg))
        .try_get_matches_from([format!("--{name}={value}")]);
    parsed.map(|_| ()).map_err(|error| {
        let text = error.render().to_string();
        let text = text
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cli::flags::{Cli, CliCommand, parse_in};

    /// Runs the parser with a file and variables.
    fn parsed(line: &[&str], file: &str, variables: &[(&str, &str)]) -> Result<Cli, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("limits.toml");
        fs::write(&path, file).expect("written");
        let mut words: Vec<OsString> = ["netalytics"]
            .iter()
            .chain(line)
            .map(OsString::from)
            .collect();
        words.extend(["--config".into(), path.into_os_string()]);
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        parse_in(words, variable).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_override_variables_file_and_defaults() {
        const FILE: &str = "memory-max = '2G'\nflows-max = 1000\ntcp-idle = '9s'\nbuffer-size = '1M'\njobs-max = 7\none-reader = true\n";
        let line = ["query", "PARSE http", "-r", "a.pcap", "--flows-max", "3000"];
        let cli = parsed(
            &line,
            FILE,
            &[
                ("NETALYTICS_FLOWS_MAX", "2000"),
                ("NETALYTICS_TCP_IDLE", "8s"),
            ],
        );
        let Ok(Cli {
            verb: Some(CliCommand::Query(flags)),
            ..
        }) = cli
        else {
            panic!("a query: {cli:?}")
        };
        let work = flags.query.work;
        assert_eq!(
            (work.limits.memory_max, work.limits.flows_max),
            (Some(2 << 30), Some(3000))
        );
        assert_eq!(
            (work.limits.tcp_idle, work.limits.udp_idle),
            (Some(8_000_000_000), None)
        );
        assert_eq!(
            (work.live.buffer_size, work.live.one_reader),
            (1 << 20, true)
        );
        let cli = parsed(&["serve"], FILE, &[("NETALYTICS_CONNECTIONS_MAX", "5")]);
        let Ok(Cli {
            verb: Some(CliCommand::Serve(flags)),
            ..
        }) = cli
        else {
            panic!("a server: {cli:?}")
        };
        assert_eq!(
            (flags.jobs_max, flags.connections_max, flags.agents_max),
            (7, 5, 1000)
        );
    }

    #[test]
    fn a_wrong_file_names_the_line() {
        for (file, words) in [
            (
                "\nflow-max = 1",
                "limits.toml: line 2: unknown setting `flow-max`",
            ),
            ("memory-max = '1x'", "line 1: invalid value '1x'"),
            ("memory-max = 64", "line 1: invalid value '64'"),
            (
                "one-reader = 3",
                "line 1: `one-reader`: expected true or false",
            ),
            ("flows-max = [1]", "line 1: `flows-max`: expected a string"),
            ("flows-max = 1\nflows-max = 2", "line 2"),
            ("flows-max", "line 1"),
        ] {
            let error =
                parsed(&["query", "PARSE http", "-r", "a.pcap"], file, &[]).expect_err(file);
            assert!(error.contains(words), "{file}: {error}");
        }
        let wrong = [("NETALYTICS_TCP_IDLE", "9")];
        let error = parsed(&["overview", "-r", "a.pcap"], "", &wrong).expect_err("no unit");
        assert!(
            error.contains("NETALYTICS_TCP_IDLE: invalid value '9'"),
            "{error}"
        );
    }

    #[test]
    fn commands_agree_on_the_defaults_of_a_setting() {
        let command = crate::cli::flags::command();
        let settings = all(&command);
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            for arg in verb.get_arguments().filter(|arg| is_setting(arg)) {
                let (_, first) = settings
                    .iter()
                    .find(|(name, _)| arg.get_long() == Some(name))
                    .expect("listed");
                assert_eq!(
                    default_of(arg),
                    default_of(first),
                    "{} {}",
                    verb.get_name(),
                    arg.get_id()
                );
            }
        }
    }
}
