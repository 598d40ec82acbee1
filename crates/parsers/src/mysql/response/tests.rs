//! Tests of responses: sequences of packets and their outcomes.

use wire::Timestamp;

use super::*;

/// Handles payloads; checks the last progress and the outcome.
fn check(
    awaited: MysqlResponseForm,
    capabilities: Option<u64>,
    payloads: &[&[u8]],
    expected: (MysqlResponseProgress, MysqlOutcome),
) {
    let mut dialect = capabilities.map(MysqlDialect::of).unwrap_or_default();
    let mut response = MysqlResponse::new(awaited);
    let mut progress = MysqlResponseProgress::More;
    for (i, head) in payloads.iter().enumerate() {
        assert_eq!(
            progress,
            MysqlResponseProgress::More,
            "before packet {i} of {payloads:?}"
        );
        let span = MessageSpan::at(Timestamp(0));
        let p = MysqlPacket {
            seq: i as u8 + 1,
            len: head.len() as u32,
            head,
            span,
            holed: false,
            open_end: false,
            place: flow::StreamPlace::default(),
        };
        progress = response.on_packet(&p, &mut dialect);
    }
    assert_eq!((progress, response.outcome), expected, "{payloads:?}");
}

const OK: &[u8] = &[0, 2, 0, 2, 0, 0, 0];
const OK_MORE: &[u8] = &[0, 3, 0, 0x0a, 0, 0, 0];
const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const EOF_MORE: &[u8] = &[0xfe, 0, 0, 0x0a, 0];
const EOF_CURSOR: &[u8] = &[0xfe, 0, 0, 0x42, 0];
const END: &[u8] = &[0xfe, 0, 0, 2, 0, 0, 0];
const ERR: &[u8] = &[0xff, 0x28, 4, b'#', b'4', b'2', b'0', b'0', b'0', b'x'];
const PROGRESS: &[u8] = &[0xff, 0xff, 0xff, 1, 1, 1, 0, 0, 0];
const DEF: &[u8] = b"\x03def";
const ROW: &[u8] = b"\x01a";
const NO_EOF: u64 = capability::DEPRECATE_EOF;

#[test]
fn results() {
    let rows = |n| MysqlOutcome {
        rows: Some(n),
        ..MysqlOutcome::default()
    };
    let error = MysqlOutcome {
        error: Some(1064),
        ..MysqlOutcome::default()
    };
    let affected = |n| MysqlOutcome {
        affected_rows: Some(n),
        ..MysqlOutcome::default()
    };
    for known in [Some(0), None] {
        check(
            MysqlResponseForm::Result,
            known,
            &[&[2], DEF, DEF, EOF, ROW, ROW, EOF],
            (MysqlResponseProgress::Done, rows(2)),
        );
        check(
            MysqlResponseForm::Result,
            known,
            &[&[1], DEF, EOF, EOF],
            (MysqlResponseProgress::Done, rows(0)),
        );
        check(
            MysqlResponseForm::Result,
            known,
            &[&[1], DEF, EOF_CURSOR],
            (MysqlResponseProgress::Done, rows(0)),
        );
    }
    for known in [Some(NO_EOF), None] {
        check(
            MysqlResponseForm::Result,
            known,
            &[&[1], DEF, ROW, END],
            (MysqlResponseProgress::Done, rows(1)),
        );
        check(
            MysqlResponseForm::Result,
            known,
            &[&[1], DEF, END],
            (MysqlResponseProgress::Done, rows(0)),
        );
    }
    check(
        MysqlResponseForm::Result,
        None,
        &[OK],
        (MysqlResponseProgress::Done, affected(2)),
    );
    check(
        MysqlResponseForm::Result,
        None,
        &[ERR],
        (MysqlResponseProgress::Done, error.clone()),
    );
    check(
        MysqlResponseForm::Result,
        None,
        &[PROGRESS, PROGRESS, OK],
        (MysqlResponseProgress::Done, affected(2)),
    );
    check(
        MysqlResponseForm::Result,
        None,
        &[&[1], DEF, EOF, ROW, ERR],
        (
            MysqlResponseProgress::Done,
            MysqlOutcome {
                rows: Some(1),
                ..error
            },
        ),
    );
    let both = MysqlOutcome {
        rows: Some(1),
        affected_rows: Some(5),
        ..MysqlOutcome::default()
    };
    check(
        MysqlResponseForm::Result,
        Some(0),
        &[&[1], DEF, EOF, ROW, EOF_MORE, OK_MORE, OK],
        (MysqlResponseProgress::Done, both),
    );
    check(
        MysqlResponseForm::Result,
        None,
        &[&[0xfb, b'f'], OK],
        (MysqlResponseProgress::Done, affected(2)),
    );
    check(
        MysqlResponseForm::Result,
        None,
        &[b""],
        (MysqlResponseProgress::Malformed, MysqlOutcome::default()),
    );
}

#[test]
fn column_definitions_may_be_left_out() {
    let rows = MysqlOutcome {
        rows: Some(1),
        ..MysqlOutcome::default()
    };
    let mysql = Some(NO_EOF | capability::OPTIONAL_METADATA);
    check(
        MysqlResponseForm::Result,
        mysql,
        &[&[0, 1], ROW, END],
        (MysqlResponseProgress::Done, rows.clone()),
    );
    check(
        MysqlResponseForm::Result,
        mysql,
        &[&[1, 1], DEF, ROW, END],
        (MysqlResponseProgress::Done, rows.clone()),
    );
    let mariadb = Some(capability::MARIADB_CACHE_METADATA);
    check(
        MysqlResponseForm::Result,
        mariadb,
        &[&[2, 0], EOF, ROW, EOF],
        (MysqlResponseProgress::Done, rows.clone()),
    );
    check(
        MysqlResponseForm::Result,
        mariadb,
        &[&[1, 1], DEF, EOF, ROW, EOF],
        (MysqlResponseProgress::Done, rows),
    );
}

#[test]
fn prepared_statements() {
    let of = |columns, parameters| [0, 7, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
    let outcome = || MysqlOutcome {
        statement: Some(7),
        ..MysqlOutcome::default()
    };
    check(
        MysqlResponseForm::Statement,
        None,
        &[&of(0, 0)],
        (MysqlResponseProgress::Done, outcome()),
    );
    check(
        MysqlResponseForm::Statement,
        Some(0),
        &[&of(1, 1), DEF, EOF, DEF, EOF],
        (MysqlResponseProgress::Done, outcome()),
    );
    check(
        MysqlResponseForm::Statement,
        None,
        &[&of(1, 1), DEF, EOF, DEF, EOF],
        (MysqlResponseProgress::Done, outcome()),
    );
    check(
        MysqlResponseForm::Statement,
        None,
        &[&of(2, 1), DEF, DEF, DEF],
        (MysqlResponseProgress::Done, outcome()),
    );
    check(
        MysqlResponseForm::Statement,
        None,
        &[&of(1, 0), DEF],
        (MysqlResponseProgress::Maybe, outcome()),
    );
    check(
        MysqlResponseForm::Statement,
        Some(NO_EOF),
        &[&of(1, 1), DEF, DEF],
        (MysqlResponseProgress::Done, outcome()),
    );
}

#[test]
fn other_forms() {
    let none = MysqlOutcome::default;
    check(
        MysqlResponseForm::Text,
        None,
        &[b"Uptime: 1"],
        (MysqlResponseProgress::Done, none()),
    );
    check(
        MysqlResponseForm::Columns,
        None,
        &[DEF, DEF, EOF],
        (MysqlResponseProgress::Done, none()),
    );
    check(
        MysqlResponseForm::Rows,
        None,
        &[&[0, 0, 1], &[0, 0, 1], EOF],
        (
            MysqlResponseProgress::Done,
            MysqlOutcome {
                rows: Some(2),
                ..none()
            },
        ),
    );
    let ok = MysqlOutcome {
        affected_rows: Some(2),
        ..none()
    };
    check(
        MysqlResponseForm::Auth,
        None,
        &[&[0xfe], &[1, 3], &[1, 4], OK],
        (MysqlResponseProgress::Done, ok),
    );
    check(
        MysqlResponseForm::Stream,
        None,
        &[&[0, 1]],
        (
            MysqlResponseProgress::Done,
            MysqlOutcome {
                endless: true,
                ..none()
            },
        ),
    );
}

#[test]
fn database_is_read_from_session_state() {
    let ok = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04shop";
    let outcome = MysqlOutcome {
        affected_rows: Some(0),
        database: DefaultDatabase::Is(b"shop".to_vec()),
        ..MysqlOutcome::default()
    };
    check(
        MysqlResponseForm::Result,
        Some(capability::SESSION_TRACK),
        &[ok],
        (MysqlResponseProgress::Done, outcome),
    );
}

#[test]
fn a_row_of_many_packets_is_one() {
    let mut response = MysqlResponse::new(MysqlResponseForm::Rows);
    let parts = [
        (PACKET_MAX, &[0xfb_u8][..]),
        (PACKET_MAX, &[0xfe]),
        (3, &[0xff, 0, 0]),
        (5, EOF),
    ];
    for (seq, (len, head)) in (1..).zip(parts) {
        let p = MysqlPacket {
            seq,
            len,
            head,
            span: MessageSpan::at(Timestamp(0)),
            holed: false,
            open_end: false,
            place: flow::StreamPlace::default(),
        };
        response.on_packet(&p, &mut MysqlDialect::default());
    }
    assert_eq!(response.outcome.rows, Some(1));
}
