//! The page of `netalytics serve` in a browser (`web/test/*.mjs`): the real program, its demonstration, Debian's
//! Chromium. The scripts list the checks and findings. Without node, Chromium or an npm registry, a message is printed.

#[path = "captures/hostile.rs"]
mod hostile;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const PROGRAM: &str = env!("CARGO_BIN_EXE_netalytics");

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

/// Whether the program contains the current page, not one built before.
fn is_built_in() -> bool {
    let page = std::fs::read_to_string(web().join("dist/index.html")).expect("a page");
    let (_, from) = page.split_once("/assets/main-").expect("its script");
    let (hash, _) = from.split_once(".js").expect("its script's end");
    let program = std::fs::read(PROGRAM).expect("the program");
    memchr::memmem::find(&program, format!("assets/main-{hash}.js").as_bytes()).is_some()
}

/// Builds the page once; false if this machine lacks a program, and that is allowed.
fn can_browse() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    testkit::require!("node", "npm", "chromium");
    let built = *BUILT.get_or_init(|| {
        let built = Command::new(web().join("build.sh")).status();
        built.expect("bash").success()
    });
    testkit::require!("page" => built.then_some(()).ok_or("web/build.sh could not build it"));
    true
}

#[test]
fn page_works_in_a_browser() {
    if can_browse() {
        for script in ["logic.mjs", "run.mjs", "views.mjs"] {
            browse(script, &[]);
        }
    }
}

#[test]
fn page_stays_right_with_hostile_large_and_late_data() {
    if can_browse() {
        let folder = tempfile::tempdir().expect("a folder");
        let capture = folder.path().join("hostile.pcap");
        std::fs::write(&capture, hostile::capture()).expect("a file");
        browse("hostile.mjs", &[capture.as_os_str()]);
        for script in ["strained.mjs", "honest.mjs", "widths.mjs", "large.mjs"] {
            browse(script, &[]);
        }
    }
}

/// Runs a script in a browser.
fn browse(script: &str, before: &[&OsStr]) {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    let mut browse = Command::new("node");
    browse
        .arg(web().join("test").join(script))
        .arg(PROGRAM)
        .args(before)
        .arg(&pictures);
    if !is_built_in() {
        testkit::print_uncaptured(
            "page: the program was compiled before web/build.sh; the test uses --page",
        );
        browse.arg("--page").arg(web().join("dist"));
    }
    let ran = browse.output().expect("node");
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!(
        "{script}:\n{said}\npictures of what was seen: {}",
        pictures.display()
    );
    assert!(ran.status.success(), "{script}:\n{said}");
}
