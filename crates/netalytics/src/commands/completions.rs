//! `netalytics completions SHELL`: a completion script for verbs and flags. For bash, zsh and fish it also completes
//! queries and interface names by calling `netalytics complete`.

use clap_complete::Shell;

use crate::cli::flags;
use crate::process::failure::CommandOutcome;
use crate::process::output;

/// Prints the script.
pub fn print(shell: Shell) -> anyhow::Result<CommandOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut flags::command(), "netalytics", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match shell {
        Shell::Bash => format!("{script}{BASH}"),
        // When zsh autoloads the file, it is the function itself, and its last lines run the first call.
        Shell::Zsh => match script.rsplit_once("\nif [ \"$funcstack[1]\"") {
            Some((functions, _)) => format!("{functions}{ZSH}"),
            None => script.into_owned(),
        },
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    };
    output::print(script.as_bytes())
}

/// Removes the opening quote of the completed word; each output line is one word, whatever characters it contains.
const BASH: &str = r#"
_netalytics_words() {
    local word="${COMP_WORDS[COMP_CWORD]}" what=
    case "$3" in -i|--interface) what=interface ;; esac
    case "$word" in [\"\']*) what=query; word="${word:1}" ;; esac
    if [[ -z "$what" ]]; then
        _netalytics "$@"
        return
    fi
    mapfile -t COMPREPLY < <("$1" complete "$what" -- "$word" 2>/dev/null)
    [[ "$what" = query ]] && compopt -o nospace -o noquote 2>/dev/null
}
complete -F _netalytics_words -o bashdefault -o default netalytics
"#;

const ZSH: &str = r#"
_netalytics_words() {
    local what= word="${(Q)PREFIX}"
    local -a found
    [[ "${words[CURRENT-1]}" == (-i|--interface) ]] && what=interface
    [[ "${words[CURRENT]}" == [\"\']* ]] && what=query
    if [[ -z "$what" ]]; then
        _netalytics "$@"
        return
    fi
    found=("${(@f)$(${words[1]} complete $what -- "$word" 2>/dev/null)}")
    if [[ "$what" == query ]]; then
        compadd -U -S '' -- $found
    else
        compadd -- $found
    fi
}

compdef _netalytics_words netalytics
if [[ "${funcstack[1]}" == _netalytics ]]; then
    _netalytics_words "$@"
fi
"#;

const FISH: &str = r#"
function __netalytics_query
    set -l word (commandline -ct)
    string match -qr '^["\']' -- $word; and netalytics complete query -- (string sub -s 2 -- $word) 2>/dev/null
end
complete -c netalytics -n '__fish_seen_subcommand_from query record explain' -f -a '(__netalytics_query)'
complete -c netalytics -s i -l interface -x -a '(netalytics complete interface -- (commandline -ct) 2>/dev/null)'
"#;
