//! Dialogues with gaps, and connections joined midway.

use super::*;

#[test]
fn joined_late() {
    check_midstream(
        &[
            two_rows(),
            query("SELECT 1"),
            two_rows(),
            query("SELECT 2"),
            packets(&[&[1], DEF, ROW, &[0xfe, 0, 0, 2, 0, 0, 0]]),
        ],
        &[
            "half - - - - 2 - - - 0",
            "midstream query - - SELECT 1 2 - - 1000 0",
            "exact query - - SELECT 2 1 - - 1000 0",
        ],
    );
    // In the middle of rows; the end of a prepared statement's definitions is unknown at first.
    check_midstream(
        &[
            Server(b"ow of something\x05\0\0\x09\xfe\0\0\x02\0".to_vec()),
            ask(0x16, "SELECT a FROM t"),
            packets(&[&[0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], DEF]),
            ask(0x0e, ""),
            packets(&[OK]),
        ],
        &[
            "midstream stmt_prepare - - SELECT a FROM t - - - 1000 0",
            "exact ping - - - - 1 - 1000 0",
        ],
    );
    // The client's bytes are not the start of a packet.
    check_midstream(
        &[
            Client(b"'some', 'thing')".to_vec()),
            packets(&[OK]),
            query("COMMIT"),
            packets(&[OK]),
        ],
        &[
            "half - - - - - 1 - - 0",
            "midstream query - - COMMIT - 1 - 1000 0",
        ],
    );
}

#[test]
fn a_lost_command_may_have_changed_the_database() {
    const DONE: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    let lost = |answer: &[u8]| [Gap(ClientToServer, 20), packets(&[answer])];
    let check = |says: &[MysqlTestStep], databases: &[&str]| {
        let (rows, _) = play(&mut dialogue(), &[opening(PLAIN), says.to_vec()].concat());
        let selects = rows
            .iter()
            .filter(|row| row.contains("SELECT"))
            .map(|row| row.split(' ').nth(3));
        assert_eq!(
            selects.collect::<Vec<_>>(),
            databases.iter().map(|name| Some(*name)).collect::<Vec<_>>()
        );
    };
    let select = [query("SELECT 1"), two_rows()];
    // The lost command may have been USE; but rows were changed, so it was not.
    check(&[&lost(DONE)[..], &select, &select].concat(), &["-", "-"]);
    check(&[&lost(OK)[..], &select].concat(), &["shop"]);
    // Messages after the loss are known.
    check(
        &[
            &lost(DONE)[..],
            &[query("USE b"), packets(&[DONE])],
            &select,
        ]
        .concat(),
        &["b"],
    );
}

#[test]
fn gaps_inside_payloads_are_exact() {
    let Client(ask) = query("SELECT 'long text'") else {
        unreachable!()
    };
    let row = packet(4, [b"\x20".as_slice(), &[b'x'; 600]].concat());
    check_commands(
        &[
            Client(ask[..12].to_vec()),
            Gap(ClientToServer, 5),
            Client(ask[17..].to_vec()),
            Server(
                [
                    packet(1, [1]),
                    packet(2, DEF),
                    packet(3, EOF),
                    row[..20].to_vec(),
                ]
                .concat(),
            ),
            Gap(ServerToClient, 500),
            Server([row[520..].to_vec(), packet(5, EOF)].concat()),
            query("SELECT 2"),
            two_rows(),
        ],
        &[
            "gap_body query app shop - 1 - - 1000 2000",
            "exact query app shop SELECT 2 2 - - 1000 0",
        ],
    );
}

#[test]
fn after_a_gap_nothing_is_mispaired() {
    let Server(rows) = two_rows() else {
        unreachable!()
    };
    // The middle of a response is missing: its end is unknown.
    check_commands(
        &[
            query("SELECT 1"),
            Server(rows[..22].to_vec()),
            Gap(ServerToClient, 10),
            Server(rows[32..].to_vec()),
            query("SELECT 2"),
            two_rows(),
            query("SELECT 3"),
            two_rows(),
        ],
        &[
            "gap_body query app shop SELECT 1 - - - 1000 -",
            "resync query app shop SELECT 2 2 - - 1000 0",
            "exact query app shop SELECT 3 2 - - 1000 0",
        ],
    );
    // The start of a response, and possibly more, is missing.
    check_commands(
        &[
            query("SELECT 1"),
            Gap(ServerToClient, 20),
            Server(rows[20..].to_vec()),
            query("SELECT 2"),
            Gap(ServerToClient, 90),
            query("SELECT 3"),
            two_rows(),
        ],
        &[
            "half query app shop SELECT 1 - - - - -",
            "half query app shop SELECT 2 - - - - -",
            "resync query app shop SELECT 3 2 - - 1000 0",
        ],
    );
    // A command was lost: its response has no request.
    check_commands(
        &[
            query("SELECT 1"),
            two_rows(),
            Gap(ClientToServer, 20),
            two_rows(),
            query("SELECT 3"),
            packets(&[ERR]),
            query("SELECT 4"),
            two_rows(),
        ],
        &[
            "exact query app shop SELECT 1 2 - - 1000 0",
            "half - - - - 2 - - - 0",
            "resync query app shop SELECT 3 - - 1146 1000 0",
            "exact query app shop SELECT 4 2 - - 1000 0",
        ],
    );
    // The end of a command and a complete one were lost: the response answers the first.
    let Client(long) = query("SELECT 'long text'") else {
        unreachable!()
    };
    check_commands(
        &[
            Client(long[..12].to_vec()),
            Gap(ClientToServer, 40),
            two_rows(),
            packets(&[OK]),
            query("SELECT 3"),
            two_rows(),
        ],
        &[
            "gap_body query app shop - 2 - - - 0",
            "half - - - - - 1 - - 0",
            "resync query app shop SELECT 3 2 - - 1000 0",
        ],
    );
}
