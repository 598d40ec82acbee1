//! Verbosity on standard error, by `-q` and `-v`.

/// Verbosity on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors only.
    Errors,
    /// Errors, summary and notes.
    Summary,
    /// Also statistics of workers.
    Everything,
}

impl Verbosity {
    /// From `-q` and `-v`.
    pub fn of(quiet: bool, verbose: bool) -> Verbosity {
        match (quiet, verbose) {
            (true, _) => Verbosity::Errors,
            (false, false) => Verbosity::Summary,
            (false, true) => Verbosity::Everything,
        }
    }
}
