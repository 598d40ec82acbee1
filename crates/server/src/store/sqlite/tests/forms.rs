//! Formats of the file, its identity, and writes that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;

use super::{TestStore, open};
use crate::store::sqlite::{FORMS, ServerStore, StoreError};

/// Names and definitions of all tables and indexes.
fn definitions(path: &Path) -> Vec<(String, String)> {
    let connection = Connection::open(path).expect("opened");
    let sql = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name";
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("rows").collect::<Result<_, _>>().expect("text")
}

/// A file as written by the version with this number of forms.
fn of_form(folder: &Path, form: usize) {
    let connection = Connection::open(folder.join("store.sqlite")).expect("opened");
    for sql in &FORMS[..form] {
        connection.execute_batch(sql).expect("an earlier form");
    }
    connection
        .pragma_update(None, "user_version", form as i64)
        .expect("written");
}

#[test]
fn every_earlier_format_becomes_the_current_one() {
    let new = TestStore::new();
    let expected = definitions(&new.folder.path().join("store.sqlite"));
    for form in 0..FORMS.len() {
        let folder = tempfile::tempdir().expect("a folder");
        of_form(folder.path(), form);
        if form > 0 {
            let connection = Connection::open(folder.path().join("store.sqlite")).expect("opened");
            let sql = "INSERT INTO jobs (name, query, kind, state, owner, agents_on, labels, redacted, created_ns)
                       VALUES ('old', 'PARSE http', 'standing', 'running', 'admin', '{}', '{\"a\":\"b\"}', 1, 5)";
            connection.execute_batch(sql).expect("a job");
        }
        let store = open(folder.path());
        let jobs = store.jobs.unfinished().expect("readable");
        assert_eq!(jobs.len(), usize::from(form > 0), "form {form}");
        for job in jobs {
            assert_eq!(
                (&*job.spec.name, &*job.spec.labels["a"], job.created_ns),
                ("old", "b", 5)
            );
        }
        assert_eq!(
            definitions(&folder.path().join("store.sqlite")),
            expected,
            "form {form}"
        );
    }
}

#[test]
fn other_formats_are_rejected_unchanged() {
    for version in [
        FORMS.len() as i64 + 1,
        i64::from(i32::MAX),
        -1,
        i64::from(i32::MIN),
    ] {
        let test = TestStore::new();
        test.change(&format!("PRAGMA user_version = {version}"));
        let path = test.folder.path().join("store.sqlite");
        let refused = ServerStore::open(&path).err();
        let Some(StoreError::Newer { found, known }) = refused else {
            panic!("{version}: {refused:?}")
        };
        assert_eq!((found, known), (version, FORMS.len()));
        assert_eq!(test.number("PRAGMA user_version"), version);
    }
}

#[test]
fn a_store_that_is_full_starts_and_says_so() {
    let test = TestStore::new();
    let database = &test.store.database;
    database.probe().expect("space");
    database
        .limit_pages(database.pages().expect("pages"))
        .expect("limited");
    for _ in 0..3 {
        assert!(matches!(database.probe(), Err(StoreError::Full)));
    }
    let added = test
        .store
        .audit
        .add("admin", "login", &"x".repeat(1 << 20), "done");
    assert!(added.expect_err("no space").is_write_failure());
    // Neither the probe nor the failed write left anything.
    assert_eq!(
        test.number("SELECT count(*) FROM sqlite_master WHERE name = 'probe'"),
        0
    );
    assert_eq!(test.number("SELECT count(*) FROM audit"), 0);
    assert!(
        test.reopened()
            .jobs
            .unfinished()
            .expect("readable")
            .is_empty()
    );
    database.limit_pages(1 << 30).expect("space again");
    database.probe().expect("space");
}

#[test]
fn a_read_only_file_system_is_a_write_failure() {
    let test = TestStore::new();
    test.store.database.set_read_only(true).expect("a setting");
    let failed = test.store.agents.save("web1", "{}").expect_err("read-only");
    assert!(failed.is_write_failure(), "{failed}");
    assert!(test.store.agents.all().expect("readable").is_empty());
}

/// A panic in one request must not stop all later ones.
#[test]
fn a_panic_in_a_transaction_rolls_it_back() {
    let test = TestStore::new();
    test.store.agents.save("web1", "before").expect("saved");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        test.store.database.write(|t| -> rusqlite::Result<()> {
            t.execute("UPDATE agents SET facts = 'during'", [])?;
            panic!("a bug");
        })
    }));
    assert!(panicked.is_err());
    let agents = test.store.agents.all().expect("readable");
    assert_eq!((agents.len(), agents[0].1.as_str()), (1, "before"));
    test.store.agents.save("web1", "after").expect("writable");
    assert_eq!(
        test.reopened().agents.all().expect("readable")[0].1,
        "after"
    );
}

#[test]
fn the_identity_stays_until_it_is_renewed() {
    let test = TestStore::new();
    let identity = |store: &ServerStore| store.database.identity().expect("the store");
    let first = identity(&test.store);
    assert!(first != 0 && first != identity(&TestStore::new().store));
    assert_eq!(identity(&test.reopened()), first);
    let mut seen = std::collections::BTreeSet::from([first]);
    for _ in 0..20 {
        test.store.database.renew_identity().expect("renewed");
        let new = identity(&test.reopened());
        assert!(new != 0 && seen.insert(new), "{new}");
    }
}
