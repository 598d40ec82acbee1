//! Requirements of tests: programs, devices, permissions, captures. A test whose requirement is missing fails, unless the
//! environment variable `ALLOW_MISSING`, a comma-separated list, names the requirement. CONTRIBUTING.md lists the names.

use std::fmt::Display;
use std::io::Write;
use std::process::Command;

const ALLOW_MISSING: &str = "ALLOW_MISSING";

/// Ends the calling function with its default value (`()`, `None`) if a requirement is missing and `ALLOW_MISSING` names
/// it; panics if it does not.
///
/// `require!("tshark", "python3")` checks for programs. `require!("mount" => value)` yields the content of an `Option` or
/// a `Result`, or checks a `bool`.
#[macro_export]
macro_rules! require {
    ($($program:literal),+ $(,)?) => {
        if !$crate::require::are_installed(&[$($program),+]) {
            return ::core::default::Default::default();
        }
    };
    ($name:expr => $found:expr) => {
        match $crate::require::Requirement::met($found) {
            Ok(value) => value,
            Err(reason) => {
                $crate::require::missing($name, &reason);
                return ::core::default::Default::default();
            }
        }
    };
}

/// A value that may report a missing requirement.
pub trait Requirement {
    /// The value of a requirement that is met.
    type Value;

    /// # Errors
    /// The reason the requirement is missing.
    fn met(self) -> Result<Self::Value, String>;
}

impl Requirement for bool {
    type Value = ();

    fn met(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("not available".to_owned())
        }
    }
}

impl<T> Requirement for Option<T> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.ok_or_else(|| "not available".to_owned())
    }
}

impl<T, E: Display> Requirement for Result<T, E> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Whether all programs are installed; reports the first missing one with [`missing`].
///
/// # Panics
/// If one is missing and `ALLOW_MISSING` does not name it.
#[must_use]
pub fn are_installed(programs: &[&str]) -> bool {
    let absent = programs.iter().find(|program| {
        let found = Command::new("bash")
            .args(["-c", &format!("command -v {program}")])
            .output();
        !found.is_ok_and(|found| found.status.success())
    });
    if let Some(program) = absent {
        missing(
            program,
            "not in PATH; ./setup.sh installs the programs of the tests",
        );
    }
    absent.is_none()
}

/// Reports a missing requirement in one line if `ALLOW_MISSING` names it.
///
/// # Panics
/// If `ALLOW_MISSING` does not name it.
#[track_caller]
pub fn missing(name: &str, reason: &str) {
    let list = std::env::var(ALLOW_MISSING).unwrap_or_default();
    assert!(
        is_listed(&list, name),
        "missing: {name}: {reason} ({ALLOW_MISSING}={name} allows it)"
    );
    print_uncaptured(&format!("missing: {name} (allowed by {ALLOW_MISSING})"));
}

/// Whether a comma-separated list contains a name.
fn is_listed(list: &str, name: &str) -> bool {
    list.split(',').any(|listed| listed.trim() == name)
}

/// Prints a line past the test runner, which shows `eprintln!` only for failed tests.
pub fn print_uncaptured(line: &str) {
    // A closed standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_whole() {
        assert!(is_listed("gre, geneve,erspan", "geneve") && is_listed("gre", "gre"));
        assert!(
            !is_listed("gretap,erspan", "gre")
                && !is_listed("", "gre")
                && !is_listed("gre geneve", "gre")
        );
    }

    /// No test may allow this name.
    const UNKNOWN: &str = "no-such-requirement";

    fn value(found: Result<u8, &str>) -> Option<u8> {
        let value = require!(UNKNOWN => found);
        require!(UNKNOWN => value > 1);
        require!("bash", "sh");
        Some(value)
    }

    #[test]
    fn a_requirement_that_is_met_yields_its_value() {
        assert_eq!(value(Ok(2)), Some(2));
    }

    #[test]
    #[should_panic(expected = "missing: no-such-requirement: the reason")]
    fn a_missing_requirement_fails_the_test() {
        value(Err("the reason"));
    }

    #[test]
    #[should_panic(expected = "missing: no-such-requirement: not available")]
    fn a_requirement_that_is_false_fails_the_test() {
        value(Ok(1));
    }

    #[test]
    #[should_panic(expected = "missing: no-such-program: not in PATH")]
    fn a_missing_program_fails_the_test() {
        let check = || require!("bash", "no-such-program");
        check();
    }
}
