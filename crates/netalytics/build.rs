//! Tells the program what it is: the target that it is made for, and the commit, where it is made from a clone of the
//! repository (`git describe`). Puts the page of `netalytics serve` into it, where that was built.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Every commit and checkout adds a line to it.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists())
    {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = git(&["describe", "--always", "--tags"]).unwrap_or_default();
    println!("cargo:rustc-env=NETALYTICS_COMMIT={commit}");
    println!(
        "cargo:rustc-env=NETALYTICS_TARGET={}",
        std::env::var("TARGET").unwrap_or_default()
    );
    page();
}

/// Writes down the files of the page of `netalytics serve`, with what is in them, as `web/build.sh` has made them: none where that was
/// not run. Its folder is there in every clone, so that Cargo sees when there is more in it.
fn page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    println!("cargo:rerun-if-changed={}", folder.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    // Copies: the page may be rebuilt while the program is compiled.
    let kept = out.join("page");
    let _ = std::fs::remove_dir_all(&kept);
    let mut lines: Vec<String> = Vec::new();
    for (within, prefix) in [(folder.clone(), ""), (folder.join("assets"), "assets/")] {
        let Ok(entries) = std::fs::read_dir(&within) else {
            continue;
        };
        for path in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
        {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if name.starts_with('.') || name.ends_with(".gz") {
                continue;
            }
            let keep = |from: &Path| {
                let to = kept.join(prefix).join(from.file_name().unwrap_or_default());
                std::fs::create_dir_all(kept.join(prefix)).ok()?;
                std::fs::copy(from, &to).ok()?;
                Some(format!("include_bytes!({to:?})"))
            };
            let Some(bytes) = keep(&path) else { continue };
            let gzip = keep(&within.join(format!("{name}.gz"))).unwrap_or_else(|| "b\"\"".into());
            lines.push(format!("(\"{prefix}{name}\", {bytes}, {gzip}),\n"));
        }
    }
    lines.sort();
    let text = format!("&[\n{}]\n", lines.concat());
    std::fs::write(out.join("page.rs"), text).expect("Cargo's folder can be written to");
}

/// Output of git; empty without git or a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(args)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
