//! A server with five agents that capture nginx, MariaDB and memcached under load, while components are killed,
//! disconnected or filled up. Visible effects are those of docs/failures.md, and losses are limited to those it allows:
//! all logged requests are in the rows or counted as lost, and never twice.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::bed::{Bed, Partition};
use crate::capture::{signal, text};
use crate::load::{CLIENTS, Counts, HOSTS, Load, Phase, QUERIES};
use crate::net::shell;
use crate::team::{SERVER_HOST, Team, children, is_alive, wait};

const DISK_BYTES: u64 = 24 << 20;

/// See the module documentation.
struct Witness<'b> {
    team: Team<'b>,
    load: Load,
    /// Jobs by role of their agents.
    jobs: BTreeMap<&'static str, String>,
}

/// A step with its name.
type Step<'b> = (&'static str, fn(&mut Witness<'b>));

#[test]
fn losses_match_the_documentation() {
    testkit::require!(
        "nginx",
        "mariadbd",
        "mariadb",
        "memcached",
        "curl",
        "python3",
        "socat",
        "pgrep"
    );
    testkit::require!("wrk", "faketime");
    let hosts: Vec<&str> = HOSTS
        .iter()
        .map(|(host, _)| *host)
        .chain(["spare", CLIENTS, SERVER_HOST])
        .collect();
    let Some(bed) = Bed::new(&hosts) else { return };
    let mut witness = Witness::start(&bed);
    let steps: [Step<'_>; 10] = [
        ("totals", Witness::totals),
        ("monitor", Witness::a_monitor_is_killed),
        ("agent", Witness::an_agent_is_killed),
        ("server", Witness::the_server_is_killed),
        ("cut", Witness::an_agent_is_cut_off),
        ("disk", Witness::the_servers_disk_is_full),
        ("spool", Witness::a_spool_is_full),
        ("clock", Witness::a_clock_is_stepped),
        ("token", Witness::a_token_is_revoked),
        ("policy", Witness::a_policy_refuses),
    ];
    // A single step: CHAOS_STEP=cut.
    let only = std::env::var("CHAOS_STEP").ok();
    for (_, step) in steps
        .iter()
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only == name))
    {
        step(&mut witness);
    }
}

impl<'b> Witness<'b> {
    fn start(bed: &'b Bed) -> Witness<'b> {
        let load = Load::start(bed);
        let mut team = Team::start(bed, bed.small_disk("server", DISK_BYTES));
        for (host, role) in [
            ("web1", "web"),
            ("web2", "web"),
            ("db", "db"),
            ("cache", "cache"),
            ("spare", ""),
        ] {
            // Small limits where space should run out.
            let spool = if host == "web2" { "32K" } else { "1M" };
            let leaves = if host == "spare" { "results" } else { "raw" };
            let policy = format!(
                "labels = {{ role = \"{role}\", host = \"{host}\" }}\ninterfaces = [\"eth0\"]\nleaves = \"{leaves}\"\n"
            );
            team.add_agent(host, &policy, &["--spool-max", spool]);
        }
        HOSTS.iter().for_each(|(host, _)| team.wait_for_agent(host));
        let jobs: BTreeMap<_, _> = QUERIES
            .iter()
            .map(|(role, query)| (*role, team.job(query, ("role", *role))))
            .collect();
        for job in jobs.values() {
            wait("the job runs", || match team.state(job).as_str() {
                "running" => Ok(()),
                state => Err(format!("{state} {}", team.reason(job))),
            });
        }
        Witness { team, load, jobs }
    }

    fn rows(&self) -> Vec<Value> {
        self.jobs
            .values()
            .flat_map(|job| self.team.rows(job))
            .collect()
    }

    /// Number of requests of a phase missing in the rows; panics if one is counted twice.
    fn missing(&self, phase: &Phase) -> Counts {
        let logged = self.load.logged(phase);
        let counted = self.load.counted(phase, &self.rows());
        for (asked, n) in &counted {
            let of = logged.get(asked).copied().unwrap_or(0);
            assert!(
                *n <= of,
                "{}: {asked:?} is counted {n} times, and was logged {of} times",
                phase.name
            );
        }
        let left = |(asked, n): (&_, &u64)| {
            let missing = n - counted.get(asked).unwrap_or(&0);
            (missing > 0).then(|| (Clone::clone(asked), missing))
        };
        logged.iter().filter_map(left).collect()
    }

    /// Ends a phase, and waits until all its requests are in the rows, except permitted losses; returns these.
    fn settle(&mut self, phase: &Phase, may_miss: impl Fn(&str, u64) -> bool) -> Counts {
        self.load.end();
        let logged = self.load.logged(phase);
        assert!(
            logged.values().sum::<u64>() > 100,
            "{}: too little was asked: {logged:?}",
            phase.name
        );
        let mut missing = Counts::new();
        wait(
            &format!("{}: everything is in the rows", phase.name),
            || {
                missing = self.missing(phase);
                match missing
                    .iter()
                    .find(|(asked, _)| !may_miss(asked.host, asked.second))
                {
                    None => Ok(()),
                    Some(_) => Err(format!(
                        "missing: {missing:#?}\nreasons: {:?}",
                        self.reasons()
                    )),
                }
            },
        );
        eprintln!(
            "{}: {} asked, {} missing; {:?}",
            phase.name,
            logged.values().sum::<u64>(),
            missing.values().sum::<u64>(),
            self.reasons()
        );
        missing
    }

    fn reasons(&self) -> Vec<String> {
        self.jobs
            .values()
            .map(|job| self.team.reason(job))
            .collect()
    }

    /// Late tuples, as shown to users.
    fn late(&self, role: &str) -> u64 {
        let reason = self.team.reason(&self.jobs[role]);
        number(
            &reason,
            "",
            " tuples arrived after their windows were closed",
        )
    }

    /// Waits until a job's reason contains these words.
    fn wait_for_reason(&self, role: &str, words: &str) {
        wait(&format!("job {role} says {words:?}"), || {
            let reason = self.team.reason(&self.jobs[role]);
            if reason.contains(words) {
                Ok(())
            } else {
                Err(reason)
            }
        });
    }

    /// Checks that rows of seconds with losses name this agent as missing.
    fn assert_named(&self, phase: &Phase, missing: &Counts, host: &str) {
        let rows = self.team.rows(&self.jobs["web"]);
        for asked in missing.keys() {
            let of_second = |row: &&Value| {
                self.load
                    .asked(phase, row)
                    .is_some_and(|of| of.second == asked.second)
            };
            let named = rows
                .iter()
                .filter(of_second)
                .any(|row| row["agents_missing"].to_string().contains(host));
            let of_second: Vec<&Value> = rows.iter().filter(of_second).collect();
            assert!(
                named,
                "{}: no row of second {} names {host}: {of_second:?}",
                phase.name, asked.second
            );
        }
    }

    /// Without failures: all logged requests are in the rows, once.
    fn totals(&mut self) {
        let phase = self.load.begin("totals");
        phase.until(5);
        self.settle(&phase, |_, _| false);
        assert_eq!(self.reasons(), ["", "", ""]);
        let rows = self.rows();
        assert!(
            rows.iter().all(|row| row["agents_missing"].is_null()),
            "{rows:?}"
        );
    }

    fn a_monitor_is_killed(&mut self) {
        let phase = self.load.begin("monitor");
        phase.until(4);
        let agent = self.team.agent("web1").pid();
        let monitors = children(agent);
        assert_eq!(monitors.len(), 1, "web1 has one job");
        signal(monitors[0], "KILL");
        let killed = phase.second();
        wait("another monitor takes its place", || {
            match children(agent).as_slice() {
                [new] if *new != monitors[0] => Ok(()),
                others => Err(format!("{others:?}")),
            }
        });
        let again = phase.second();
        phase.until(again + 3);
        let window = killed.saturating_sub(6)..=again + 1;
        let missing = self.settle(&phase, |host, second| {
            host == "web1" && window.contains(&second)
        });
        self.wait_for_reason("web", "agent web1 lost an unknown number of tuples");
        self.assert_named(&phase, &missing, "web1");
    }

    fn an_agent_is_killed(&mut self) {
        let phase = self.load.begin("agent");
        phase.until(4);
        let monitors = children(self.team.agent("web2").pid());
        assert_eq!(monitors.len(), 1, "web2 has one job");
        self.team.kill_agent("web2");
        let killed = phase.second();
        let began = Instant::now();
        wait("its monitor ends, too", || {
            if is_alive(monitors[0]) {
                Err("it lives".into())
            } else {
                Ok(())
            }
        });
        eprintln!("agent: its monitor ended {:?} after it", began.elapsed());
        self.team.start_agent("web2", &[]);
        self.team.wait_for_agent("web2");
        wait("its job runs again", || self.has_monitor("web2"));
        let again = phase.second();
        phase.until(again + 3);
        let window = killed.saturating_sub(6)..=again + 1;
        let missing = self.settle(&phase, |host, second| {
            host == "web2" && window.contains(&second)
        });
        self.wait_for_reason(
            "web",
            "agent web2 was restarted, and its unsent data is lost",
        );
        self.assert_named(&phase, &missing, "web2");
    }

    fn the_server_is_killed(&mut self) {
        let phase = self.load.begin("server");
        phase.until(2);
        self.team.kill_server();
        phase.until(3);
        self.team.start_server();
        phase.until(8);
        self.settle(&phase, |_, _| false);
    }

    fn an_agent_is_cut_off(&mut self) {
        let late = self.late("web");
        let phase = self.load.begin("cut");
        phase.until(2);
        self.team.bed.partition("web2", Partition::Cut);
        self.wait_for_reason("web", "agent web2 is not connected");
        phase.until(15);
        self.team.bed.partition("web2", Partition::Healed);
        self.team.wait_for_agent("web2");
        wait("its job runs again", || self.has_monitor("web2"));
        let again = phase.second();
        phase.until(again + 3);
        let missing = self.settle(&phase, |host, second| host == "web2" && second <= again + 1);
        let late = self.late("web") - late;
        // A monitor continues for at least five seconds without a server: its results of that time arrived late. Later
        // traffic was not captured.
        let of = |from: u64| {
            missing
                .iter()
                .filter(|(asked, _)| asked.second >= from)
                .map(|(_, n)| n)
                .sum::<u64>()
        };
        let all = of(0);
        let unseen = of(7);
        assert!(
            late <= all && all - late <= unseen,
            "{all} missing, {late} late, {unseen} maybe unseen"
        );
        self.assert_named(&phase, &missing, "web2");
    }

    fn the_servers_disk_is_full(&mut self) {
        let phase = self.load.begin("disk");
        phase.until(2);
        let filler = self.team.bed.path("server/filler");
        let mut file = std::fs::File::create(&filler).expect("a file");
        let written = std::io::copy(&mut std::io::repeat(0), &mut file);
        assert!(written.is_err(), "it does not get full");
        // An open file keeps its space.
        drop(file);
        // Long URLs, whose rows exceed the store's reserve.
        let long = "x".repeat(2000);
        let url = format!("http://{}/item/disk/2/", self.team.bed.address("web1"));
        shell(
            &self.team.bed.ns(CLIENTS),
            &format!("curl -s -o /dev/null '{url}[1-3000]/{long}'"),
        );
        wait("no job is taken", || {
            let asked = json!({"query": "PARSE http PROCESS (rate)", "on": {"role": "web"}});
            match self.team.api("POST", "/jobs", Some(asked)) {
                (507, answer) if answer["code"] == "disk_full" => Ok(()),
                (_, taken) => {
                    // The store had some space left.
                    self.team
                        .api("DELETE", &format!("/jobs/{}", text(&taken["id"])), None);
                    Err(taken.to_string())
                }
            }
        });
        let full = phase.second();
        phase.until(full + 4);
        std::fs::remove_file(&filler).expect("removed");
        phase.until(full + 6);
        self.settle(&phase, |_, _| false);
    }

    /// The server accepts nothing for a while, and results exceed an agent's limit.
    fn a_spool_is_full(&mut self) {
        let job = self.team.job(
            "PARSE http TO *:80 SELECT server_ip, path, status",
            ("host", "web2"),
        );
        self.load.begin("before");
        wait("the job has rows", || match self.team.rows(&job).len() {
            0 => Err(self.team.reason(&job)),
            _ => Ok(()),
        });
        self.load.end();
        let phase = self.load.begin("spool");
        signal(self.team.server().pid(), "STOP");
        let url = format!(
            "http://{}/item/spool/[0-2999]",
            self.team.bed.address("web2")
        );
        shell(
            &self.team.bed.ns(CLIENTS),
            &format!("curl -s -o /dev/null '{url}'"),
        );
        phase.until(phase.second() + 2);
        signal(self.team.server().pid(), "CONT");
        self.load.end();
        let logged: u64 = of_host(&self.load.logged(&phase), "web2");
        wait("what is not in the rows is counted as lost", || {
            let counted = of_host(&self.load.counted(&phase, &self.team.rows(&job)), "web2");
            let reason = self.team.reason(&job);
            let lost = number(&reason, "agent web2 lost ", " tuples");
            if lost > 0 && counted + lost == logged {
                Ok(())
            } else {
                Err(format!(
                    "{logged} logged, {counted} counted, {lost} lost; {reason}"
                ))
            }
        });
        self.team.ask(&["jobs", "stop", &job]);
    }

    fn a_clock_is_stepped(&mut self) {
        let clock = self.team.bed.path("clock");
        // At once: the library reads the file at every call, and an empty one as some other time.
        let next = self.team.bed.path("clock.next");
        let set = |offset: &str| {
            std::fs::write(&next, offset).expect("written");
            std::fs::rename(&next, &clock).expect("renamed");
        };
        set("+0");
        let library = Command::new("bash")
            .args(["-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1"])
            .output();
        let library = String::from_utf8(library.expect("bash runs").stdout).expect("a path");
        let file = clock.display().to_string();
        let env = [
            ("LD_PRELOAD", library.trim()),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        self.team.kill_agent("cache");
        self.team.start_agent("cache", &env);
        self.team.wait_for_agent("cache");
        wait("its job runs again", || self.has_monitor("cache"));
        let late = self.late("cache");
        let phase = self.load.begin("clock");
        phase.until(3);
        set("+5");
        self.wait_for_reason("cache", "ms ahead of the server's");
        phase.until(8);
        // The packets' timestamps are not affected.
        self.settle(&phase, |_, _| false);
        assert_eq!(self.late("cache"), late);
        let offset: i64 = text(&self.team.seen("cache")["clock_offset_ns"])
            .parse()
            .expect("a number");
        assert!((4_500_000_000..5_500_000_000).contains(&offset), "{offset}");
        self.a_clock_is_right_again();
    }

    /// Without traffic the clock alone advances event time: windows closed early stay closed, and their data is late.
    fn a_clock_is_right_again(&mut self) {
        self.team.kill_agent("cache");
        self.team.start_agent("cache", &[]);
        self.team.wait_for_agent("cache");
        wait("its job runs again", || self.has_monitor("cache"));
        let late = self.late("cache");
        let phase = self.load.begin("right");
        phase.until(9);
        self.settle(&phase, |host, second| host == "cache" && second < 7);
        wait("what is missing came late", || {
            let missing = self.missing(&phase);
            // The agent's monitor may have started shortly after the phase.
            let at_first: u64 = missing
                .iter()
                .filter(|(asked, _)| asked.second < 2)
                .map(|(_, n)| n)
                .sum();
            let all = missing.values().sum::<u64>();
            let late = self.late("cache") - late;
            if late <= all && all - late <= at_first {
                Ok(())
            } else {
                Err(format!(
                    "{all} missing, {late} late, {at_first} maybe unseen"
                ))
            }
        });
    }

    fn a_token_is_revoked(&mut self) {
        let phase = self.load.begin("token");
        // The windows of the first second are reported by then.
        phase.until(5);
        self.team.revoke("web1");
        self.wait_for_reason("web", "agent web1 is not connected");
        wait("the agent says why", || {
            match self.team.agent("web1").said() {
                said if said.contains(
                    "answers 401 Unauthorized: the token does not exist or was revoked",
                ) =>
                {
                    Ok(())
                }
                said => Err(said),
            }
        });
        self.team.renew_token("web1");
        self.team.end_agent("web1");
        self.team.start_agent("web1", &[]);
        self.team.wait_for_agent("web1");
        wait("its job runs again", || self.has_monitor("web1"));
        let again = phase.second();
        phase.until(again + 3);
        let missing = self.settle(&phase, |host, second| host == "web1" && second <= again + 1);
        self.assert_named(&phase, &missing, "web1");
    }

    /// The policy of a host forbids the query.
    fn a_policy_refuses(&mut self) {
        let job = self.team.job("PARSE http TO *:80", ("host", "spare"));
        const WHY: &str =
            "spare: this host releases only results with redacted texts, not unredacted data";
        wait("it is said why", || match self.team.reason(&job) {
            reason if reason.contains(WHY) && !reason.contains("lost") => Ok(()),
            reason => Err(format!("{}: {reason}", self.team.state(&job))),
        });
        self.team.ask(&["jobs", "stop", &job]);
    }

    /// Whether a monitor of an agent runs.
    fn has_monitor(&mut self, host: &str) -> Result<(), String> {
        if children(self.team.agent(host).pid()).is_empty() {
            Err("no monitor".into())
        } else {
            Ok(())
        }
    }
}

fn of_host(counts: &Counts, host: &str) -> u64 {
    counts
        .iter()
        .filter(|(asked, _)| asked.host == host)
        .map(|(_, n)| n)
        .sum()
}

/// The number between these words, or 0.
fn number(text: &str, before: &str, behind: &str) -> u64 {
    let of = |said: &str| {
        said.split_once(before)?
            .1
            .split_once(behind)?
            .0
            .parse()
            .ok()
    };
    text.split("; ").find_map(of).unwrap_or(0)
}
