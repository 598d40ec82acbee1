//! Exit status of the program, and error messages: one line with all causes.

use std::process::ExitCode;

use crate::process::failure::{CommandOutcome, UnreadableInputs, UsageError};
use crate::process::output;

/// Prints an error, if any, and returns the exit status.
pub fn exit_code(ended: anyhow::Result<CommandOutcome>) -> ExitCode {
    let error = match ended {
        Ok(CommandOutcome::Done) => return ExitCode::SUCCESS,
        Ok(CommandOutcome::Incomplete) => return ExitCode::from(1),
        Err(error) => error,
    };
    match (
        error.downcast_ref::<UsageError>(),
        error.downcast_ref::<UnreadableInputs>(),
    ) {
        (Some(UsageError::Query(text)), _) => output::complain_lines(text.trim_end()),
        (Some(UsageError::Flags(text)), _) => {
            output::complain_lines(format!("error: {text}").trim_end())
        }
        (None, Some(UnreadableInputs(why))) => {
            why.iter()
                .for_each(|why| output::complain(&format!("error: {why}")));
        }
        // A counterexample has a line per rule on the packet's path.
        (None, None) if error.is::<steer::JobStartError>() => {
            output::complain_lines(format!("error: {error:#}").trim_end());
        }
        (None, None) => output::complain(&format!("error: {error:#}")),
    }
    ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
}
