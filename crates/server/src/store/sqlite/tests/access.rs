//! Tokens, sessions, enrollments, and the audit log.

use super::TestStore;
use crate::store::sqlite::now_ns;

const HOUR_NS: i64 = 3_600_000_000_000;

#[test]
fn new_sessions_survive_a_clock_that_is_set_back() {
    let test = TestStore::new();
    let sessions = &test.store.sessions;
    for n in 0..3u8 {
        sessions.begin(&[n], b"token", HOUR_NS, 3).expect("begun");
    }
    // They began an hour ago, by a clock that was two hours ahead.
    test.change(&format!(
        "UPDATE sessions SET begun_ns = begun_ns + {HOUR_NS}"
    ));
    sessions.begin(&[3], b"token", HOUR_NS, 3).expect("begun");
    let alive = |n: u8| sessions.token(&[n], HOUR_NS).expect("the store").is_some();
    assert_eq!([0, 1, 2, 3].map(alive), [false, true, true, true]);
}

#[test]
fn sessions_end_with_their_time() {
    let test = TestStore::new();
    let sessions = &test.store.sessions;
    sessions.begin(b"old", b"token", HOUR_NS, 9).expect("begun");
    test.change(&format!(
        "UPDATE sessions SET begun_ns = begun_ns - {HOUR_NS}"
    ));
    assert_eq!(sessions.token(b"old", HOUR_NS).expect("the store"), None);
    assert!(
        sessions
            .token(b"old", 2 * HOUR_NS)
            .expect("the store")
            .is_some()
    );
    sessions.begin(b"new", b"other", HOUR_NS, 9).expect("begun");
    assert_eq!(test.number("SELECT count(*) FROM sessions"), 1);
    let token = test.reopened().sessions.token(b"new", HOUR_NS);
    assert_eq!(token.expect("the store").as_deref(), Some(&b"other"[..]));
}

/// Users can log in, and log out, while the disk rejects writes.
#[test]
fn sessions_are_in_memory_while_the_disk_rejects_writes() {
    let test = TestStore::new();
    let sessions = &test.store.sessions;
    test.store.database.set_read_only(true).expect("a setting");
    for n in 0..70u8 {
        sessions
            .begin(&[n], b"token", HOUR_NS, 1000)
            .expect("begun");
    }
    let alive = |n: u8| sessions.token(&[n], HOUR_NS).expect("the store").is_some();
    let open: Vec<u8> = (0..70).filter(|n| alive(*n)).collect();
    assert_eq!(open, (6..70).collect::<Vec<_>>(), "the newest 64");
    sessions.end(&[69]).expect("ended without a write");
    assert!(!alive(69));
    test.store.database.set_read_only(false).expect("a setting");
    assert!(alive(68));
    assert_eq!(
        test.reopened()
            .sessions
            .token(&[68], HOUR_NS)
            .expect("the store"),
        None
    );
}

#[test]
fn tokens_end_when_they_expire_or_are_removed() {
    let test = TestStore::new();
    let tokens = &test.store.tokens;
    let add = |name, hash: &[u8], end| {
        let added = tokens
            .add((name, "viewer", ""), hash, end)
            .expect("the store");
        added.map(|token| token.id)
    };
    let gone = add("gone", b"1", Some(now_ns() - 1)).expect("a token");
    let kept = add("kept", b"2", Some(now_ns() + HOUR_NS)).expect("a token");
    let forever = add("forever", b"3", None).expect("a token");
    let finds = |hash: &[u8]| tokens.find(hash).expect("the store").is_some();
    assert_eq!(
        [b"1", b"2", b"3", b"4"].map(|hash| finds(hash)),
        [false, true, true, false]
    );
    let has = |id| tokens.has(id).expect("the store");
    assert_eq!(
        [gone, kept, forever, 99].map(has),
        [false, true, true, false]
    );
    // A name is taken until its token is removed.
    assert_eq!(add("gone", b"5", None), None);
    assert_eq!(
        tokens.remove(gone).expect("the store").as_deref(),
        Some("gone")
    );
    assert_eq!(tokens.remove(gone).expect("the store"), None);
    let again = add("gone", b"5", None).expect("a token");
    assert!(again > forever, "numbers are not used again");
}

#[test]
fn an_invitation_is_used_once() {
    let test = TestStore::new();
    let enrollments = &test.store.enrollments;
    let later = now_ns() + HOUR_NS;
    enrollments.invite("web1", b"a", later).expect("invited");
    enrollments.invite("web1", b"b", later).expect("invited");
    assert!(enrollments.enroll(b"a", 1, later).expect("the store"));
    assert!(!enrollments.enroll(b"a", 2, later).expect("the store"));
    assert_eq!(enrollments.invited(b"a").expect("the store"), None);
    // Another one replaces the enrollment.
    assert!(
        enrollments
            .enroll(b"b", u64::MAX, later)
            .expect("the store")
    );
    let known = enrollments
        .of_agent("web1")
        .expect("the store")
        .expect("one");
    assert_eq!(known.enrollment, u64::MAX);
    assert!(!enrollments.renew("web1", 1, later + 5).expect("the store"));
    assert!(
        enrollments
            .renew("web1", u64::MAX, later + 5)
            .expect("the store")
    );
    let known = test
        .reopened()
        .enrollments
        .of_agent("web1")
        .expect("the store");
    assert_eq!(known.expect("one").good_until_ns, later + 5);
}

#[test]
fn an_expired_invitation_invites_nobody() {
    let test = TestStore::new();
    let enrollments = &test.store.enrollments;
    enrollments
        .invite("web1", b"a", now_ns() - 1)
        .expect("invited");
    assert_eq!(enrollments.invited(b"a").expect("the store"), None);
    // The next one removes it.
    enrollments
        .invite("web2", b"b", now_ns() + HOUR_NS)
        .expect("invited");
    assert_eq!(test.number("SELECT count(*) FROM invitations"), 1);
    assert_eq!(
        enrollments.invited(b"b").expect("the store").as_deref(),
        Some("web2")
    );
}

#[test]
fn a_revoked_agent_has_nothing_left_until_it_enrolls_again() {
    let test = TestStore::new();
    let (enrollments, tokens) = (&test.store.enrollments, &test.store.tokens);
    let later = now_ns() + HOUR_NS;
    assert!(!enrollments.revoke("web1").expect("the store"), "unknown");
    enrollments.invite("web1", b"a", later).expect("invited");
    enrollments.enroll(b"a", 1, later).expect("enrolled");
    enrollments.invite("web1", b"b", later).expect("invited");
    enrollments.invite("web2", b"c", later).expect("invited");
    for (name, role, hash) in [("web1", "agent", b"1"), ("web10", "agent", b"2")] {
        tokens.add((name, role, ""), hash, None).expect("added");
    }
    assert!(enrollments.revoke("web1").expect("the store"));
    assert_eq!(enrollments.invited(b"b").expect("the store"), None);
    assert!(enrollments.invited(b"c").expect("the store").is_some());
    assert!(tokens.find(b"1").expect("the store").is_none());
    assert!(tokens.find(b"2").expect("the store").is_some());
    assert!(!enrollments.renew("web1", 1, later).expect("the store"));
    let revoked = || {
        let known = enrollments.of_agent("web1").expect("the store");
        known.expect("one").revoked_ns
    };
    let first = revoked().expect("a time");
    assert!(enrollments.revoke("web1").expect("the store"));
    assert_eq!(revoked(), Some(first), "the time of the first revocation");
    enrollments.invite("web1", b"d", later).expect("invited");
    assert!(enrollments.enroll(b"d", 2, later).expect("the store"));
    assert_eq!(revoked(), None);
}

/// The name of a viewer's token may be that of an agent.
#[test]
fn only_tokens_of_agents_are_revoked_with_them() {
    let test = TestStore::new();
    test.store
        .tokens
        .add(("web1", "admin", ""), b"1", None)
        .expect("added");
    assert!(!test.store.enrollments.revoke("web1").expect("the store"));
    assert!(test.store.tokens.find(b"1").expect("the store").is_some());
}

#[test]
fn the_audit_log_keeps_its_newest_entries() {
    let test = TestStore::new();
    let audit = &test.store.audit;
    for n in 0..10 {
        audit
            .add("admin", "login", &n.to_string(), "done")
            .expect("added");
    }
    // As if many more had followed.
    test.change("UPDATE audit SET id = id + 99995 WHERE id > 5");
    audit.add("admin", "login", "last", "done").expect("added");
    let objects = |before, limit| {
        let entries = audit.entries(before, limit).expect("the store");
        entries
            .into_iter()
            .map(|entry| entry.object)
            .collect::<Vec<_>>()
    };
    assert_eq!(objects(None, 100), ["last", "9", "8", "7", "6", "5"]);
    assert_eq!(objects(None, 2), ["last", "9"]);
    // The ids of entries 5 to 9 are 100,001 to 100,005.
    assert_eq!(objects(Some(100_003), 2), ["6", "5"]);
    assert_eq!(objects(None, 0), [] as [&str; 0]);
}
