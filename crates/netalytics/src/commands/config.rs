//! `netalytics config`: all settings with value, default and origin, as a configuration file. Settings at their default are
//! commented out, so that shares of `memory-max` keep following it when the output is used as a file.

use std::fmt::Write;

use crate::cli::flags::settings::{ConfigFlags, Origin, Setting};
use crate::process::failure::CommandOutcome;
use crate::process::output;

const HEAD: &str = "\
# Settings of netalytics. Use this file with --config FILE or NETALYTICS_CONFIG=FILE.
# Precedence: flag, environment (NETALYTICS_MEMORY_MAX for memory-max), file, default.
# Settings at their default are commented out.
";

/// Prints the settings.
pub fn config(flags: &ConfigFlags) -> anyhow::Result<CommandOutcome> {
    output::print(output::visible_lines(&text(&flags.settings)).as_bytes())
}

fn text(settings: &[Setting]) -> String {
    let mut text = HEAD.to_owned();
    let mut group = "";
    for setting in settings {
        if setting.group != group {
            group = &setting.group;
            let _ = write!(text, "\n## {group}\n");
        }
        let help = setting.help.split(" [default").next().unwrap_or_default();
        let _ = write!(text, "\n# {help}\n{}\n", line(setting));
    }
    text
}

/// `flows-max = 1000  # file "limits.toml", line 3; default: 1048576`.
fn line(setting: &Setting) -> String {
    let Setting {
        name,
        value,
        default,
        origin,
        ..
    } = setting;
    let shown = value.as_deref().map(literal).unwrap_or_default();
    let of_default = default.as_deref().unwrap_or("not set");
    match origin {
        Origin::Default if value.is_none() => format!("#{name} =  # default: not set"),
        Origin::Default => format!("#{name} = {shown}  # default"),
        _ => format!("{name} = {shown}  # {origin}; default: {of_default}"),
    }
}

/// A TOML value: a number or a boolean as such, otherwise a string, which TOML writes as JSON does.
fn literal(value: &str) -> String {
    let is_number = value == "0"
        || (!value.starts_with('0') && value.bytes().all(|byte| byte.is_ascii_digit()));
    let is_bare =
        value == "true" || value == "false" || (is_number && value.parse::<i64>().is_ok());
    if is_bare {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}
