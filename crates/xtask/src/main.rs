//! Commands for those who work on this repository. `cargo run -p xtask new-protocol NAME` begins a parser.

#![forbid(unsafe_code)]

mod new_protocol;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo run -p xtask new-protocol NAME
  a parser called NAME: its file from the template, its lines in the registry, a fuzz target, a folder for captures";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["new-protocol", name] => begin_protocol(name),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!(USAGE),
    }
}

fn begin_protocol(name: &str) -> Result<()> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("no checkout")?
        .into();
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    for (path, text) in new_protocol::files(name, read)? {
        let whole = root.join(&path);
        fs::create_dir_all(whole.parent().context("a file has a parent folder")?)?;
        fs::write(&whole, text).with_context(|| path.clone())?;
        println!("{path}");
    }
    println!("\n{}", new_protocol::next_steps(name));
    Ok(())
}
