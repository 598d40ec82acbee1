//! Every row of docs/failures.md, and every promise of docs/security.md, has tests: here are their names.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Beginning of a row or paragraph, or words in it, and its tests: files below `crates`, and functions.
type Promise = (
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
);

const CHAOS: &str = "netalytics/tests/live/chaos.rs";
const STOPPED: &str = "netalytics/tests/cli/stopped.rs";
const RESILIENCE: &str = "netalytics/tests/cli/resilience.rs";
const CERTIFICATES: &str = "netalytics/tests/cli/certificates.rs";
const PROCESSES: &str = "netalytics/tests/cli/security.rs";
const OVER_TLS: &str = "netalytics/tests/cli/over_tls.rs";
const MISTAKES: &str = "netalytics/tests/cli/mistakes.rs";
const GATEWAY: &str = "server/tests/server/gateway.rs";
const STALLED: &str = "server/tests/server/gateway/stalled.rs";
const CROWD: &str = "server/tests/server/gateway/crowd.rs";
const ACCESS: &str = "server/tests/server/access.rs";
const SCOPES: &str = "server/tests/server/scopes.rs";
const CONNECTIONS: &str = "server/tests/server/connections.rs";
const CONTROL: &str = "control/src/server/tests.rs";
const PACE: &str = "control/src/pace.rs";

/// The first column of docs/failures.md, in its order.
const FAILURES: &[Promise] = &[
    (
        "a monitor is killed",
        &[
            (CHAOS, &["a_monitor_is_killed"]),
            (
                STOPPED,
                &["a_monitor_that_is_killed_again_and_again_is_started_again"],
            ),
            ("control/src/agent/tests.rs", &["the_third_crash_poisons"]),
        ],
    ),
    (
        "a monitor is stopped",
        &[(
            STOPPED,
            &[
                "a_monitor_that_is_stopped_is_named_and_works_again",
                "monitors_that_end_early_are_restarted",
            ],
        )],
    ),
    (
        "an interface is removed",
        &[(
            "netalytics/tests/live/gone.rs",
            &["an_interface_that_is_removed_does_not_end_a_job_in_silence"],
        )],
    ),
    (
        "an agent stalls",
        &[
            (
                STALLED,
                &[
                    "stalled_agents_are_named_and_awaited_again_when_they_resume",
                    "unreadable_records_delay_other_agents_briefly",
                ],
            ),
            (
                CONTROL,
                &["an_ending_job_waits_for_a_silent_agent_for_a_limited_time"],
            ),
        ],
    ),
    (
        "an agent is suspended",
        &[(
            STOPPED,
            &["suspended_agents_deliver_their_monitors_results"],
        )],
    ),
    ("an agent is killed", &[(CHAOS, &["an_agent_is_killed"])]),
    (
        "an agent is stopped (SIGTERM)",
        &[(STOPPED, &["agents_end_without_losses_on_request"])],
    ),
    (
        "the server is killed",
        &[
            (CHAOS, &["the_server_is_killed"]),
            (
                STOPPED,
                &["a_server_that_is_killed_twice_within_a_lease_loses_nothing"],
            ),
        ],
    ),
    (
        "the network between agent and server",
        &[(CHAOS, &["an_agent_is_cut_off"])],
    ),
    (
        "the server's disk is full",
        &[
            (CHAOS, &["the_servers_disk_is_full"]),
            (
                GATEWAY,
                &["a_full_disk_holds_agents_back_and_loses_nothing"],
            ),
            (
                STOPPED,
                &["a_server_that_is_killed_while_its_disk_is_full_starts_again"],
            ),
        ],
    ),
    (
        "the server's disk is read-only",
        &[(
            GATEWAY,
            &["a_store_that_rejects_writes_is_reported_with_its_cause"],
        )],
    ),
    (
        "another server with a new data directory",
        &[(
            RESILIENCE,
            &["agents_send_no_data_of_one_server_to_another"],
        )],
    ),
    (
        "the data directory is lost",
        &[(
            "netalytics/tests/cli/backup.rs",
            &["a_server_that_is_lost_comes_back_from_its_backup"],
        )],
    ),
    (
        "a history file of the server",
        &[
            (
                "server/tests/server/history.rs",
                &["damaged_files_are_errors_and_other_rows_remain"],
            ),
            (
                "server/tests/server/past.rs",
                &["a_query_over_a_damaged_history_is_an_error_that_names_the_file"],
            ),
        ],
    ),
    ("an agent's spool is full", &[(CHAOS, &["a_spool_is_full"])]),
    (
        "an agent's folder",
        &[(
            RESILIENCE,
            &["agents_run_with_a_damaged_or_read_only_folder"],
        )],
    ),
    (
        "an agent's clock is wrong",
        &[
            (CHAOS, &["a_clock_is_stepped"]),
            (PACE, &["windows_wait_for_an_agent_only_so_long"]),
            (STALLED, &["times_far_ahead_count_as_an_hour_ahead"]),
        ],
    ),
    (
        "an agent's token is revoked",
        &[(CHAOS, &["a_token_is_revoked"])],
    ),
    (
        "a host's policy refuses",
        &[
            (CHAOS, &["a_policy_refuses"]),
            (
                STOPPED,
                &["a_job_that_every_agent_refuses_ends_with_the_reasons"],
            ),
        ],
    ),
    (
        "two agents with one name",
        &[(RESILIENCE, &["second_agent_with_the_same_name_waits"])],
    ),
    (
        "hundreds of connections",
        &[
            (
                CONNECTIONS,
                &[
                    "idle_connections_from_one_address_have_a_quarter",
                    "heads_that_come_slowly_are_cut",
                ],
            ),
            (
                "netalytics/tests/cli/connections.rs",
                &["idle_connections_do_not_block_others"],
            ),
        ],
    ),
    (
        "a server with `--demo`",
        &[(
            RESILIENCE,
            &["the_agent_of_a_demonstration_ends_with_a_server_that_is_killed"],
        )],
    ),
];

/// Words of the items of docs/security.md.
const SECURITY: &[Promise] = &[
    (
        "Set up TLS for a server and its agents",
        &[(CERTIFICATES, &["five_commands_set_up_tls"])],
    ),
    (
        "On the server's machine",
        &[(CERTIFICATES, &["five_commands_set_up_tls"])],
    ),
    (
        "On the host web-1",
        &[(CERTIFICATES, &["five_commands_set_up_tls"])],
    ),
    (
        "creates a CA in the data directory",
        &[
            (
                "server/src/store/tls.rs",
                &["an_authority_is_made_once_and_is_its_owners_only"],
            ),
            (PROCESSES, &["an_agent_enrolls_renews_and_is_revoked"]),
        ],
    ),
    (
        "use your own server certificate",
        &[(
            CERTIFICATES,
            &["operator_certificate_is_reloaded_without_disconnects"],
        )],
    ),
    (
        "Browsers get HSTS",
        &[
            (
                PROCESSES,
                &["browsers_are_told_to_use_tls_at_the_default_port"],
            ),
            (
                "server/src/api/caller.rs",
                &["tls_is_required_of_names_on_the_default_port_only"],
            ),
        ],
    ),
    (
        "Without TLS the server listens on loopback only",
        &[
            (PROCESSES, &["plaintext_requires_a_flag"]),
            ("agent/src/dial.rs", &["a_token_does_not_travel_in_clear"]),
            (
                "netalytics/src/client/server_client.rs",
                &["a_token_does_not_travel_in_clear"],
            ),
        ],
    ),
    (
        "**Enrollment.**",
        &[
            (
                PROCESSES,
                &[
                    "an_agent_enrolls_renews_and_is_revoked",
                    "one_time_tokens_expire",
                ],
            ),
            (OVER_TLS, &["an_agents_key_stays_on_its_host"]),
        ],
    ),
    (
        "**Renewal.**",
        &[(PROCESSES, &["an_agent_enrolls_renews_and_is_revoked"])],
    ),
    (
        "`netalytics agents revoke web-1` invalidates",
        &[(
            PROCESSES,
            &[
                "an_agent_enrolls_renews_and_is_revoked",
                "tokens_are_created_listed_revoked_and_audited",
            ],
        )],
    ),
    (
        "A connection outlives its certificate only if",
        &[(
            PROCESSES,
            &[
                "an_agent_enrolls_renews_and_is_revoked",
                "a_connection_ends_with_its_certificate",
            ],
        )],
    ),
    (
        "agents behind one use tokens of the role",
        &[(
            PROCESSES,
            &["tokens_are_created_listed_revoked_and_audited"],
        )],
    ),
    (
        "| *the server",
        &[(
            PROCESSES,
            &["rejected_certificates_are_reported_at_both_ends"],
        )],
    ),
    (
        "| *agent web-1 was revoked*",
        &[(PROCESSES, &["an_agent_enrolls_renews_and_is_revoked"])],
    ),
    (
        "The server logs the same",
        &[
            (
                PROCESSES,
                &["rejected_certificates_are_reported_at_both_ends"],
            ),
            (MISTAKES, &["plaintext_clients_are_reported_and_counted"]),
        ],
    ),
    (
        "**Unauthenticated clients.**",
        &[(
            MISTAKES,
            &[
                "bytes_of_strangers_are_refused_and_counted",
                "plaintext_clients_are_reported_and_counted",
            ],
        )],
    ),
    (
        "**Connections without a valid token**",
        &[
            (
                CONNECTIONS,
                &[
                    "idle_connections_from_one_address_have_a_quarter",
                    "idle_connections_from_many_addresses_have_three_quarters",
                    "connections_with_a_token_displace_those_without",
                ],
            ),
            (
                CROWD,
                &[
                    "connected_agents_take_no_place_of_other_connections",
                    "an_agent_with_many_connections_keeps_no_other_out",
                ],
            ),
        ],
    ),
    (
        "**Tokens** are shown once",
        &[
            (
                ACCESS,
                &["the_first_token_is_its_owners_only_and_kept_as_a_hash"],
            ),
            (
                OVER_TLS,
                &["tokens_come_to_files_that_only_their_owner_reads"],
            ),
        ],
    ),
    (
        "**Roles and networks**",
        &[
            (
                ACCESS,
                &[
                    "roles_have_their_permissions",
                    "a_scoped_token_keeps_to_its_networks",
                ],
            ),
            (
                SCOPES,
                &["a_scoped_token_sees_nothing_of_others_at_any_address"],
            ),
        ],
    ),
    (
        "closes live streams",
        &[
            (ACCESS, &["revoking_a_token_ends_its_sessions"]),
            (
                "server/tests/server/streams.rs",
                &["streams_end_with_their_token"],
            ),
        ],
    ),
    (
        "**Wrong tokens**",
        &[(
            ACCESS,
            &["excess_requests_and_guessed_tokens_are_throttled"],
        )],
    ),
    (
        "With `serve --trusted-proxy CIDR`",
        &[(
            CONNECTIONS,
            &[
                "a_trusted_proxy_names_its_clients",
                "untrusted_peers_cannot_set_client_addresses",
            ],
        )],
    ),
    (
        "A TCP proxy names its clients",
        &[
            (
                CONNECTIONS,
                &["a_trusted_proxy_names_its_clients_by_the_proxy_protocol"],
            ),
            (OVER_TLS, &["a_trusted_proxy_names_its_clients_before_tls"]),
        ],
    ),
    (
        "**Host names**",
        &[(
            ACCESS,
            &[
                "other_names_and_other_origins_are_not_answered",
                "the_name_in_an_absolute_target_has_to_be_ours",
            ],
        )],
    ),
    (
        "`netalytics audit` prints",
        &[
            (ACCESS, &["operations_are_recorded_in_the_audit_log"]),
            (
                PROCESSES,
                &["tokens_are_created_listed_revoked_and_audited"],
            ),
        ],
    ),
    (
        "| the server's machine |",
        &[
            (OVER_TLS, &["an_agents_key_stays_on_its_host"]),
            (
                ACCESS,
                &["the_first_token_is_its_owners_only_and_kept_as_a_hash"],
            ),
        ],
    ),
    (
        "| an agent's host |",
        &[
            (CONTROL, &["agents_receive_their_own_parts_only"]),
            (
                SCOPES,
                &["an_agents_token_is_for_its_connection_and_nothing_else"],
            ),
        ],
    ),
    (
        "| the server, by an agent |",
        &[
            (
                "agent/src/policy.rs",
                &[
                    "all_policy_violations_are_reported_at_once",
                    "queries_stay_inside_the_networks",
                ],
            ),
            (CHAOS, &["a_policy_refuses"]),
        ],
    ),
    (
        "| the network between |",
        &[(PROCESSES, &["an_agent_enrolls_renews_and_is_revoked"])],
    ),
    (
        "**A compromised agent**",
        &[
            (
                STALLED,
                &[
                    "stalled_agents_are_named_and_awaited_again_when_they_resume",
                    "unreadable_records_delay_other_agents_briefly",
                ],
            ),
            (
                SCOPES,
                &["an_agents_token_is_for_its_connection_and_nothing_else"],
            ),
            (
                CONTROL,
                &["an_ending_job_waits_for_a_silent_agent_for_a_limited_time"],
            ),
            (
                CROWD,
                &["an_agent_with_many_connections_keeps_no_other_out"],
            ),
        ],
    ),
    (
        "**Data that leaves hosts**",
        &[
            (SCOPES, &["tuples_need_the_role_raw_even_if_redacted"]),
            (ACCESS, &["rows_that_are_not_folded_are_for_raw"]),
        ],
    ),
    (
        "**Hostile packets**",
        &[
            ("agent/src/cgroups.rs", &["groups_limit_their_processes"]),
            (
                "netalytics/tests/live/ends.rs",
                &[
                    "root_drops_to_the_user_nobody",
                    "captures_work_with_system_calls_restricted",
                ],
            ),
        ],
    ),
    (
        "**Packets on the server**",
        &[(
            "netalytics/tests/cli/recordings.rs",
            &["permissions_of_packets"],
        )],
    ),
    (
        "**Services.**",
        &[(
            "testkit/tests/systemd_units.rs",
            &["units_have_the_documented_restrictions"],
        )],
    ),
];

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join("docs").join(name)).expect(name)
}

/// Rows of tables without their heads, items of lists, and paragraphs; without code.
fn items(page: &str) -> Vec<String> {
    let text: String = page.split("```").step_by(2).collect();
    let mut items: Vec<String> = Vec::new();
    let mut is_open = false;
    let mut is_head = true;
    for line in text.lines() {
        match line.chars().next() {
            None | Some('#') => {
                is_open = false;
                is_head = true;
            }
            Some('|') if line.starts_with("|-") => is_head = false,
            Some('|') if is_head => {}
            _ if is_open && !line.starts_with(['|', '-']) => {
                let item = items.last_mut().expect("it is open");
                *item += " ";
                *item += line.trim();
            }
            _ => {
                items.push(line.to_owned());
                is_open = !line.starts_with('|');
            }
        }
    }
    items
}

fn has_tests(&(words, tests): &Promise) {
    assert!(!tests.is_empty(), "{words}");
    for (file, names) in tests {
        let text = fs::read_to_string(Path::new(ROOT).join("crates").join(file)).expect(file);
        for name in *names {
            assert!(
                text.contains(&format!("fn {name}(")),
                "{words}: {file} has no {name}"
            );
        }
    }
}

#[test]
fn every_documented_failure_has_tests() {
    let rows: Vec<String> = items(&page("failures.md"))
        .into_iter()
        .filter(|item| item.starts_with('|'))
        .collect();
    assert_eq!(rows.len(), FAILURES.len(), "{rows:#?}");
    for (row, promise) in rows.iter().zip(FAILURES) {
        assert!(
            row.starts_with(&format!("| {}", promise.0)),
            "{}: {row}",
            promise.0
        );
        has_tests(promise);
    }
}

#[test]
fn every_promise_of_security_has_tests() {
    let items = items(&page("security.md"));
    for item in &items {
        assert!(
            SECURITY.iter().any(|(words, _)| item.contains(words)),
            "no test: {item}"
        );
    }
    for promise in SECURITY {
        assert!(
            items.iter().any(|item| item.contains(promise.0)),
            "no promise: {}",
            promise.0
        );
        has_tests(promise);
    }
}
