//! Backups contain every row once, also with concurrent moves and removals; cases rejected by a restore.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use server::{DataDirectory, RowRetention, ServiceLimits, WindowState};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{begin, counts, fill, publish, window};

/// All files in a folder: relative path and content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn add(folder: &Path, within: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder.join(within))
            .expect("a folder")
            .flatten()
        {
            let path = within.join(entry.file_name());
            if folder.join(&path).is_dir() {
                add(folder, &path, all)
            } else {
                drop(all.insert(path.clone(), fs::read(folder.join(&path)).expect("a file")))
            }
        }
    }
    let mut all = BTreeMap::new();
    add(folder, Path::new(""), &mut all);
    all
}

fn over(folder: &Path) -> Server {
    Server::over(folder, TestFleet::new(Way::Note), ServiceLimits::default())
}

#[test]
fn backups_contain_every_row_once_during_retention() {
    let limits = ServiceLimits {
        retention: RowRetention {
            age_ns: 0,
            bytes: 60_000,
        },
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    let own = tempfile::tempdir().expect("a folder");
    let mut taken = 0;
    std::thread::scope(|scope| {
        let server = &server;
        let writing = scope.spawn(move || fill(server, job, 300, 500));
        let retaining = scope.spawn(move || {
            while !writing.is_finished() {
                server.service.as_ref().expect("the service").look_after();
            }
        });
        while !retaining.is_finished() {
            let backup = own.path().join(format!("backup-{taken}"));
            let found = server::backup(&server.folder, &backup).expect("a backup");
            assert_eq!(found.missing, [] as [String; 0]);
            taken += 1;
        }
    });
    assert!(taken > 3, "{taken} backups while rows moved");
    let mut longest = 0;
    let mut dropped = 0;
    for n in 0..taken {
        let data = own.path().join(format!("data-{n}"));
        server::restore(&own.path().join(format!("backup-{n}")), &data).expect("restored");
        let restored = over(&data);
        let found = counts(&restored, job);
        let result = restored
            .get(&format!("/api/v1/jobs/{job}/results"))
            .of(200)
            .json()["results"][0]
            .clone();
        let number = |name: &str| {
            result[name]
                .as_str()
                .and_then(|n| n.parse::<u64>().ok())
                .expect("a number")
        };
        // Counts equal row numbers: existing rows start after those removed by retention, and end with the last.
        assert_eq!(
            found,
            (number("dropped")..number("total")).collect::<Vec<_>>(),
            "backup {n}"
        );
        longest = longest.max(found.len());
        dropped = dropped.max(number("dropped"));
        assert_eq!(
            restored.get("/api/v1/counters").of(200).json()["segments_damaged"],
            0
        );
    }
    assert!(
        longest > 16_384 && dropped > 0,
        "{longest} rows, {dropped} dropped"
    );
}

/// A server's directory with every kind of data, and a backup of it.
fn backed_up(own: &Path) -> (Server, PathBuf, server::JobId) {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    fill(&server, job, 40, 500);
    publish(
        &server,
        job,
        &window(9000, &[("/a", 20_000)]),
        WindowState::Closed,
    );
    for (name, text) in [
        ("tls/ca.pem", "ca"),
        ("tls/ca.key", "key"),
        ("uploads/0123", "packets"),
        ("switches.number", "7"),
    ] {
        let path = server.folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
    }
    fs::write(server.folder.join("uploads/4567.part"), "half").expect("written");
    let backup = own.join("backup");
    server::backup(&server.folder, &backup).expect("a backup");
    (server, backup, job)
}

#[test]
fn all_of_a_data_directory_comes_back_and_is_its_owners_only() {
    let own = tempfile::tempdir().expect("a folder");
    let leftover = own.path().join(".backup.partial");
    fs::create_dir(&leftover).expect("made");
    fs::write(leftover.join("junk"), "of a backup that was killed").expect("written");
    let (mut server, backup, job) = backed_up(own.path());
    assert!(!backup.join("junk").exists() && !leftover.exists());
    let data = own.path().join("data");
    server::restore(&backup, &data).expect("restored");
    for folder in [&backup, &data] {
        let mut paths: Vec<PathBuf> = files(folder).into_keys().collect();
        paths.extend(["", "tls", "history", "uploads"].map(PathBuf::from));
        for path in paths {
            let path = folder.join(path);
            let mode = fs::metadata(&path).expect("it exists").permissions().mode() & 0o777;
            assert_eq!(
                mode,
                if path.is_dir() { 0o700 } else { 0o600 },
                "{}",
                path.display()
            );
        }
    }
    server.end();
    let before = files(&server.folder);
    let after = files(&data);
    let is_same = |path: &&PathBuf| before.get(*path) == after.get(*path);
    // The log of an open store is not a separate file.
    let is_log = |path: &&PathBuf| path.to_string_lossy().starts_with("store.sqlite-");
    let differ: Vec<&PathBuf> = before
        .keys()
        .filter(|path| !is_same(path) && !is_log(path))
        .collect();
    assert_eq!(
        differ
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>(),
        ["reserve", "store.sqlite", "uploads/4567.part"]
    );
    let restored = over(&data);
    assert_eq!(counts(&restored, job), (0..=20_000).collect::<Vec<_>>());
    let audit = restored.get("/api/v1/audit").of(200).text();
    assert!(audit.contains("\"restore\""), "{audit}");
}

#[test]
fn modified_backups_are_rejected_with_the_file() {
    let own = tempfile::tempdir().expect("a folder");
    let (_server, backup, _) = backed_up(own.path());
    let data = own.path().join("data");
    let all = files(&backup);
    assert!(all.len() > 6, "{all:?}");
    for (name, bytes) in &all {
        let path = backup.join(name);
        let flipped = || {
            let mut flipped = bytes.clone();
            flipped[bytes.len() / 2] ^= 1;
            flipped
        };
        for damaged in [
            None,
            Some(bytes[..bytes.len() / 2].to_vec()),
            Some(flipped()),
        ] {
            match &damaged {
                None => fs::remove_file(&path).expect("removed"),
                Some(damaged) => fs::write(&path, damaged).expect("written"),
            }
            match server::restore(&backup, &data) {
                // A flipped bit in the manifest may be in the version or the time.
                Ok(_) if name == Path::new("manifest.json") => {
                    fs::remove_dir_all(&data).expect("removed")
                }
                Ok(_) => panic!("{} is damaged: {damaged:?}", name.display()),
                Err(why) => {
                    let is_of_manifest = name == Path::new("manifest.json");
                    assert!(
                        why.contains(&name.display().to_string()) || is_of_manifest,
                        "{}: {why}",
                        name.display()
                    );
                    assert!(!data.exists(), "nothing is left of it");
                }
            }
        }
        fs::write(&path, bytes).expect("written");
    }
    let manifest: Value = serde_json::from_slice(&all[Path::new("manifest.json")]).expect("JSON");
    for name in ["../out", "/etc/out", "a/../../out", ""] {
        let mut changed = manifest.clone();
        changed["files"][name] = json!({ "bytes": 0, "sha256": "" });
        fs::write(backup.join("manifest.json"), changed.to_string()).expect("written");
        let why = server::restore(&backup, &data).expect_err("it leads elsewhere");
        assert!(
            why.contains("manifest.json") && why.contains("is not a file of a backup"),
            "{why}"
        );
    }
}

#[test]
fn invalid_backup_targets_are_rejected() {
    let own = tempfile::tempdir().expect("a folder");
    let (server, backup, _) = backed_up(own.path());
    let error = |done: Result<(), String>| done.expect_err("refused");
    let back_up = |to: &Path| error(server::backup(&server.folder, to).map(drop));
    assert!(back_up(&backup).contains("exists"));
    assert!(back_up(&server.folder.join("copy")).contains("is in the data directory"));
    assert!(
        error(server::backup(own.path(), &own.path().join("x")).map(drop))
            .contains("is not a data directory")
    );
    let restore = |from: &Path, to: &Path| error(server::restore(from, to).map(drop));
    let said = restore(&backup, &server.folder);
    assert!(
        said.contains("a netalytics serve uses the data directory"),
        "{said}"
    );
    let full = own.path().join("full");
    fs::create_dir(&full).expect("made");
    fs::write(full.join("file"), "").expect("written");
    assert!(restore(&backup, &full).contains("is not empty"));
    assert!(full.join("file").exists());
    let data = own.path().join("data");
    assert!(
        restore(&backup.join("store.sqlite"), &data)
            .contains("is a file, as earlier versions wrote it")
    );
    assert!(restore(own.path(), &data).contains("is not a backup: manifest.json"));
    // A killed restore.
    fs::create_dir(&data).expect("made");
    fs::write(data.join("restoring"), "").expect("written");
    let said = DataDirectory::open(&data, ServiceLimits::default())
        .err()
        .expect("refused");
    assert!(said.contains("was interrupted"), "{said}");
}

#[test]
fn missing_history_files_are_reported_by_the_backup() {
    let own = tempfile::tempdir().expect("a folder");
    let (server, _, job) = backed_up(own.path());
    let segment = format!("history/{job}/0-000000000000");
    fs::remove_dir_all(server.folder.join(&segment)).expect("removed");
    let backup = own.path().join("second");
    let found = server::backup(&server.folder, &backup).expect("a backup");
    assert_eq!(found.missing, [segment.as_str()]);
    let data = own.path().join("data");
    assert_eq!(
        server::restore(&backup, &data).expect("restored").missing,
        [segment.as_str()]
    );
    let said = over(&data)
        .get(&format!("/api/v1/jobs/{job}/rows"))
        .of(500)
        .json();
    assert_eq!(said["code"], "damaged");
    assert!(
        said["message"].as_str().expect("words").contains(&segment),
        "{said}"
    );
}
