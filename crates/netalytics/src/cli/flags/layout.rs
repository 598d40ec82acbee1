//! Arrangement of flags in the help: the common flags that `-h` shows, and the settings that only `netalytics config` lists.

use clap::{Arg, Command};

use super::settings;

/// Flags that `-h` shows of commands that share flags with `query`, in addition to flags of their own.
const COMMON: &[&str] = &[
    "query",
    "query_file",
    "read",
    "interface",
    "words",
    "listen",
    "server",
    "on",
    "network",
    "kafka",
    "count",
    "hosts",
    "output",
    "format",
    "json",
    "no_resolve",
    "write",
    "to",
    "summary_json",
    "memory_max",
    "workers",
    "config",
];

/// Hides settings, reduces `-h` to common flags, and gives each command with settings the flag `--config`.
pub fn arrange(command: Command) -> Command {
    let query = command
        .find_subcommand("query")
        .expect("a command of that name");
    let shared: Vec<String> = query
        .get_arguments()
        .map(|arg| arg.get_id().to_string())
        .collect();
    let is_rare = |arg: &Arg| {
        let id = arg.get_id().as_str();
        shared.iter().any(|shared| shared == id) && !COMMON.contains(&id)
    };
    let command = command.mut_subcommands(|verb| {
        let has_settings = verb.get_arguments().any(settings::is_setting);
        let verb = verb.mut_args(|arg| {
            let is_rare = is_rare(&arg);
            let is_hidden = settings::is_hidden(&arg);
            let arg = if is_rare {
                arg.hide_short_help(true)
            } else {
                arg
            };
            if is_hidden { arg.hide(true) } else { arg }
        });
        if has_settings {
            verb.arg(settings::config_flag())
        } else {
            verb
        }
    });
    let settings = settings::all(&command)
        .into_iter()
        .map(|(_, arg)| settings::listed(&arg));
    let settings: Vec<Arg> = settings.chain([settings::config_flag()]).collect();
    command.mut_subcommand("config", |verb| verb.args(settings))
}

#[cfg(test)]
mod tests {
    use crate::cli::flags;

    /// The help of a command.
    fn help(words: &[&str]) -> String {
        let words = ["netalytics"].iter().chain(words);
        flags::parse(words).expect_err("the help").to_string()
    }

    /// The long flags that a help text describes.
    fn flags_in(help: &str) -> Vec<&str> {
        let lines = help
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with('-'));
        lines
            .filter_map(|line| {
                line.split([' ', ',', '=', '['])
                    .find(|word| word.starts_with("--"))
            })
            .collect()
    }

    #[test]
    fn the_short_help_has_the_common_flags() {
        let short = help(&["query", "-h"]);
        let long = help(&["query", "--help"]);
        let short = flags_in(&short);
        let long = flags_in(&long);
        assert!((20..=26).contains(&short.len()), "{short:?}");
        assert!(
            long.len() > 2 * short.len() && short.iter().all(|flag| long.contains(flag)),
            "{long:?}"
        );
        assert!(
            long.contains(&"--memory-max") && !long.contains(&"--flows-max"),
            "{long:?}"
        );
        let own = help(&["check", "-h"]);
        for flag in [
            "--assert",
            "--baseline",
            "--confidence",
            "--allow-empty",
            "--report",
            "--config",
        ] {
            assert!(own.contains(flag), "{flag}");
        }
    }

    #[test]
    fn the_help_of_config_describes_hidden_settings() {
        let help = help(&["config", "--help"]);
        for flag in [
            "--flows-max",
            "--buffer-size",
            "--jobs-max",
            "--spool-max",
            "--workers",
            "--config",
        ] {
            assert!(help.contains(flag), "{flag}");
        }
    }
}
