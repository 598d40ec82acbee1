//! A hundred monitors in virtual time, each with its own governor: reports are delayed or lost, switches are slow,
//! traffic grows and shrinks tenfold. All settle without oscillation, and in the end all receive all flows again.

use std::time::Duration;

use control::shares::{MonitorReport, STEP_MAX, SampleShares, ShareAction, ShareChange};

const STEP: Duration = Duration::from_millis(250);

/// Seeded random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A monitor and its traffic.
struct Monitor {
    /// Work per second with all flows, and its capacity.
    load: f64,
    bears: f64,
    /// Level of the copies that arrive and that the monitor applies.
    copied: u8,
    heeds: u8,
    obeys: bool,
    rate: f64,
    waiting: f64,
    fell: Duration,
    calm: Duration,
    said: MonitorReport,
    /// Messages in transit: its reports, and its orders.
    says: Vec<(Duration, MonitorReport)>,
    told: Vec<(Duration, u8)>,
    level_changes: Vec<Duration>,
}

impl Monitor {
    fn new(bears: f64) -> Monitor {
        Monitor {
            load: 1.0,
            bears,
            copied: 0,
            heeds: 0,
            obeys: true,
            rate: 1.0,
            waiting: 0.0,
            fell: Duration::ZERO,
            calm: Duration::ZERO,
            said: MonitorReport::default(),
            says: Vec::new(),
            told: Vec::new(),
            level_changes: Vec::new(),
        }
    }

    /// As in `monitor::sampling_control::Governor`.
    fn work(&mut self, now: Duration) {
        let comes = self.load * plan::slice::share(self.copied);
        let is_in = plan::slice::share(self.heeds.max(self.copied)) * self.load;
        let seconds = STEP.as_secs_f64();
        self.waiting = (self.waiting + (is_in * self.rate - self.bears) * seconds).max(0.0);
        let buffer = 2.0 * self.bears;
        if self.waiting > buffer {
            self.said.lost += (1000.0 * (self.waiting - buffer)) as u64;
            self.waiting = buffer;
        }
        let backlog = self.waiting / buffer;
        if backlog > 0.5 {
            self.calm = now;
            if now.saturating_sub(self.fell) >= Duration::from_millis(500) {
                self.fell = now;
                self.rate = (self.rate / 2.0).max(1.0 / 1024.0);
            }
        } else if backlog >= 0.1 {
            self.calm = now;
        } else if now.saturating_sub(self.calm) >= Duration::from_secs(2) {
            self.calm = now;
            self.rate = (self.rate + 0.05).min(self.rate * 2.0).min(1.0);
        }
        self.said.packets += (1000.0 * comes * seconds) as u64;
        self.said.strays += (1000.0 * (comes - is_in) * seconds) as u64;
        self.said.rate = self.rate;
        self.said.level = self.heeds;
    }
}

struct World {
    shares: SampleShares,
    monitors: Vec<Monitor>,
    chance: Chance,
    now: Duration,
    delay_ms: u64,
    copying: Option<(Duration, Vec<u8>, Result<(), String>)>,
    /// Next response of switches.
    refuses: Option<String>,
}

impl World {
    fn new(monitors: Vec<Monitor>, delay_ms: u64, seed: u64) -> World {
        let shares = SampleShares::new(&vec![10; monitors.len()]);
        World {
            shares,
            monitors,
            chance: Chance(seed * 2 + 1),
            now: Duration::ZERO,
            delay_ms,
            copying: None,
            refuses: None,
        }
    }

    fn delay(&mut self) -> Duration {
        Duration::from_millis(self.chance.below(self.delay_ms + 1))
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 4 {
            self.now += STEP;
            self.step();
        }
    }

    fn step(&mut self) {
        let now = self.now;
        for at in 0..self.monitors.len() {
            let says = self.chance.below(4) == 0;
            let is_lost = self.chance.below(20) == 0;
            let delay = self.delay();
            let monitor = &mut self.monitors[at];
            monitor.work(now);
            if says && !is_lost {
                let said = monitor.said;
                let last = monitor.says.last().map_or(now, |(at, _)| *at);
                // A pipe preserves order.
                monitor.says.push(((now + delay).max(last), said));
            }
            while monitor.told.first().is_some_and(|(at, _)| *at <= now) {
                monitor.heeds = monitor.told.remove(0).1;
            }
            while monitor.says.first().is_some_and(|(at, _)| *at <= now) {
                let said = monitor.says.remove(0).1;
                self.shares.said(now, at, said);
            }
        }
        if self.copying.as_ref().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, went) = self.copying.take().expect("it exists");
            if went.is_ok() {
                for (monitor, level) in self.monitors.iter_mut().zip(&to) {
                    // A monitor applies a smaller slice before less is copied.
                    assert!(monitor.heeds >= *level, "{} of {level}", monitor.heeds);
                    if monitor.obeys && monitor.copied != *level {
                        monitor.copied = *level;
                        monitor.level_changes.push(now);
                    }
                }
            }
            let actions = self.shares.copied(now, went);
            self.carry_out(actions);
        }
        let actions = self.shares.look(now);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<ShareAction>) {
        for action in actions {
            let at = self.now + self.delay();
            match action {
                ShareAction::Tell { monitor, level } => {
                    let told = &mut self.monitors[monitor].told;
                    let last = told.last().map_or(at, |(at, _)| *at);
                    told.push((at.max(last), level));
                }
                ShareAction::Copy(to) => {
                    assert!(self.copying.is_none(), "one change at a time");
                    let went = self.refuses.take().map_or(Ok(()), Err);
                    self.copying = Some((at, to, went));
                }
            }
        }
    }

    /// Maximum number of level changes of a monitor since a time.
    fn changes_since(&self, since: Duration) -> usize {
        let of = |monitor: &Monitor| {
            monitor
                .level_changes
                .iter()
                .filter(|at| **at > since)
                .count()
        };
        self.monitors.iter().map(of).max().unwrap_or(0)
    }
}

#[test]
fn a_hundred_settle_and_get_all_again() {
    for (seed, delay_ms) in [(2, 1000), (14, 5000)] {
        let mut chance = Chance(seed);
        // The capacity of monitors is 0.01 to 5 times the load.
        let bears = |_| 0.01 * 500f64.powf(chance.below(1000) as f64 / 1000.0);
        let mut world = World::new(
            (0..100).map(bears).map(Monitor::new).collect(),
            delay_ms,
            seed,
        );
        world.run(120);
        for load in [10.0, 1.0, 0.1, 1.0] {
            world
                .monitors
                .iter_mut()
                .for_each(|monitor| monitor.load = load);
            world.run(240);
            let settled = world.now;
            world.run(300);
            assert!(
                world.changes_since(settled) <= 2,
                "{seed}: {} at {load}",
                world.changes_since(settled)
            );
            for monitor in &world.monitors {
                // The copied share fits the capacity; sampling reduces the rest.
                let comes = monitor.load * plan::slice::share(monitor.copied);
                let need = comes / monitor.bears;
                assert!(
                    need < 6.0 || monitor.copied == 10,
                    "{seed}: {need} at {load}"
                );
                assert!(
                    need > 0.2 || monitor.copied == 0,
                    "{seed}: {need} at {load}, level {}",
                    monitor.copied
                );
                assert_eq!(monitor.copied, monitor.heeds);
            }
        }
        world
            .monitors
            .iter_mut()
            .for_each(|monitor| monitor.load = 0.001);
        world.run(2000);
        assert_eq!(world.shares.levels(), vec![0; 100], "{seed}");
        assert!(
            world
                .monitors
                .iter()
                .all(|monitor| (monitor.copied, monitor.heeds, monitor.rate) == (0, 0, 1.0))
        );
        assert!(
            world
                .shares
                .take_changes()
                .iter()
                .all(|change| change.frozen.is_none())
        );
    }
}

#[test]
fn monitors_that_ignore_their_share_are_frozen() {
    let mut monitors: Vec<Monitor> = (0..3).map(|_| Monitor::new(0.02)).collect();
    monitors[1].obeys = false;
    let mut world = World::new(monitors, 500, 9);
    world.run(600);
    let changes = world.shares.take_changes();
    let frozen: Vec<&ShareChange> = changes
        .iter()
        .filter(|change| change.frozen.is_some())
        .collect();
    assert_eq!(frozen.len(), 1, "{frozen:?}");
    assert_eq!(frozen[0].monitor, 1);
    let level = world.shares.levels()[1];
    assert!(
        (1..=STEP_MAX).contains(&level),
        "one step and no more: {level}"
    );
    assert_eq!(world.monitors[1].heeds, level, "what it counts stays right");
    assert!(world.monitors[0].copied > 0 && world.monitors[0].copied == world.monitors[2].copied);
}

#[test]
fn shares_that_switches_reject_are_not_applied() {
    let mut world = World::new(vec![Monitor::new(0.02)], 500, 5);
    world.refuses = Some("leaf1 says no".to_owned());
    world.run(600);
    assert_eq!((world.monitors[0].copied, world.monitors[0].heeds), (0, 0));
    let changes = world.shares.take_changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].level, changes[0].frozen.as_deref()),
        (0, Some("leaf1 says no"))
    );
}

#[test]
fn a_silent_monitor_is_not_waited_for() {
    let mut shares = SampleShares::new(&[10, 0]);
    let at = Duration::from_secs;
    let said = |level| MonitorReport {
        rate: 0.1,
        level,
        ..MonitorReport::default()
    };
    for second in 0..22 {
        [0, 1]
            .into_iter()
            .for_each(|monitor| shares.said(at(second), monitor, said(0)));
    }
    // The other one's switch does not support slices.
    assert_eq!(
        shares.look(at(22)),
        [ShareAction::Tell {
            monitor: 0,
            level: 3
        }]
    );
    assert_eq!(shares.look(at(40)), []);
    assert_eq!(
        shares.look(at(50)),
        [ShareAction::Tell {
            monitor: 0,
            level: 0
        }]
    );
    assert!(shares.take_changes()[0].frozen.is_some());
    for second in 50..80 {
        shares.said(at(second), 0, said(0));
    }
    assert_eq!(shares.look(at(80)), []);
    // An ended monitor is not waited for, either.
    let mut shares = SampleShares::new(&[10]);
    (0..22).for_each(|second| shares.said(at(second), 0, said(0)));
    assert_eq!(shares.look(at(22)).len(), 1);
    shares.gone(0);
    assert!(matches!(shares.look(at(23))[..], [ShareAction::Copy(_)]));
}
