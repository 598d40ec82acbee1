//! Tells the program what it is: the target that it is made for, and the commit, where it is made from a clone of the
//! repository (`git describe`).

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Every commit and checkout adds a line to it.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = git(&["describe", "--always", "--tags"]).unwrap_or_default();
    println!("cargo:rustc-env=NETALYTICS_COMMIT={commit}");
    println!("cargo:rustc-env=NETALYTICS_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}

/// What git says; nothing where there is no git, or no repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
