//! The files of a package: pages, and the pages and pictures that they link to.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{BINARY, Folder, ROOT};

/// Link targets of a page that are files of the documentation, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| {
        let in_documentation = !target.starts_with("../") || target.matches('/').count() == 1;
        !target.is_empty() && !target.contains("://") && in_documentation
    })
}

#[test]
fn links_between_installed_pages_resolve() {
    let folder = Folder::new();
    let root = folder.path("package");
    let staged = Command::new(Path::new(ROOT).join("packaging/stage.sh"))
        .args([Path::new(BINARY), Path::new(&root)])
        .output()
        .expect("bash");
    assert!(
        staged.status.success(),
        "{}",
        String::from_utf8_lossy(&staged.stderr)
    );
    let docs = Path::new(&root).join("usr/share/doc/netalytics/docs");
    let mut checked = 0;
    for pages in [docs.clone(), docs.join("truth")] {
        for page in fs::read_dir(&pages)
            .expect("pages")
            .map(|entry| entry.expect("a page").path())
        {
            if page.extension().is_none_or(|kind| kind != "md") {
                continue;
            }
            let text = fs::read_to_string(&page).expect("a text");
            for target in links(&text).filter(|target| *target != "../CHANGELOG.md") {
                let file = pages.join(target);
                assert!(file.exists(), "{} links to {target}", page.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 200, "{checked} links");
}
