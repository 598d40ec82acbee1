//! Copies of what passes an interface of this host, where there is no switch: filters of the kernel's traffic control, into an interface of
//! this process. The filters stand before those of others, at the place that may be theirs, and let every packet go on to them. When this
//! process is killed the interface is gone at once, and the filters, which then do nothing, a moment later.

use std::path::Path;
use std::time::Duration;

use capture::Tap;
use mirror::Cube;
use mirror::tc::{Direction, Filter, PRIORITIES, clsact, filters};
use serde_json::Value;

use crate::backend::Failed;
use crate::keeper::Keeper;
use crate::{interface, tool};

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The priority where nobody else has filters.
const PRIORITY: u16 = 0x4000;

/// See the module's text.
#[derive(Debug)]
pub struct TrafficControl {
    from: String,
    deletes: Vec<Vec<String>>,
    /// Whether the place was made for these filters.
    is_place_ours: bool,
    is_there: bool,
    tap: Tap,
    _keeper: Keeper,
}

impl TrafficControl {
    /// Copies these packets, both ways, to a new interface with the name `to`. Ports are seen behind IPv4 headers of 20 bytes only, and not
    /// in later fragments.
    ///
    /// # Errors
    /// What filters cannot say, or the system refuses; then nothing is there.
    pub fn start(from: &str, asked: &[Cube], to: &str) -> Result<TrafficControl, Failed> {
        let first = priority(from)?;
        let filters = filters(from, asked, to, first);
        let added: Result<Vec<Vec<String>>, String> = filters.iter().map(Filter::add).collect();
        let added = added.map_err(Failed::Cannot)?;
        let mut deletes: Vec<Vec<String>> = filters.iter().map(Filter::delete).collect();
        deletes.sort();
        deletes.dedup();
        let is_place_ours = !has_place(from)?;
        let tap = interface::make(to)?;
        let keeper =
            Keeper::new("tc", &words("-force -batch -"), ("LC_ALL", Path::new("C")), &lines(&deletes))?;
        if is_place_ours {
            tc(clsact(from), "")?;
        }
        let control = TrafficControl {
            from: from.to_owned(),
            deletes,
            is_place_ours,
            is_there: true,
            tap,
            _keeper: keeper,
        };
        // From here on, what is there is taken away when `control` is dropped.
        tc(words("-batch -"), &lines(&added))?;
        Ok(control)
    }

    /// The interface to which copies go.
    #[must_use]
    pub fn interface(&self) -> &str {
        self.tap.name()
    }

    /// Takes the filters away.
    ///
    /// # Errors
    /// What the system says; the interface is gone in any case.
    pub fn stop(mut self) -> Result<(), Failed> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), Failed> {
        if !std::mem::take(&mut self.is_there) {
            return Ok(());
        }
        // Each, though another is gone already.
        let deleted: Vec<_> = self.deletes.iter().map(|delete| tc(delete.clone(), "")).collect();
        let is_empty = taken(&self.from)?.is_empty();
        if self.is_place_ours && is_empty {
            tc(words(&format!("qdisc del dev {} clsact", self.from)), "")?;
        }
        deleted.into_iter().try_for_each(|deleted| deleted.map(drop))
    }
}

impl Drop for TrafficControl {
    fn drop(&mut self) {
        // Nobody is there to hear of it.
        let _ = self.take_away();
    }
}

/// Where ours begin: before those of others, so that nothing that they stop is missed.
fn priority(interface: &str) -> Result<u16, Failed> {
    match taken(interface)?.first() {
        None => Ok(PRIORITY),
        Some(first) if *first > PRIORITIES => Ok((*first - PRIORITIES).min(PRIORITY)),
        Some(first) => Err(Failed::Refused {
            program: "tc".to_owned(),
            said: format!("{interface} has a filter of priority {first}: there is no room before it"),
        }),
    }
}

/// The priorities that are taken, both ways, sorted.
fn taken(interface: &str) -> Result<Vec<u16>, Failed> {
    if !has_place(interface)? {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        let direction = if direction == Direction::Ingress { "ingress" } else { "egress" };
        let listed = listed(&format!("-j filter show dev {interface} {direction}"))?;
        let priorities = listed.iter().filter_map(|filter| filter.get("pref")?.as_u64());
        all.extend(priorities.filter_map(|priority| u16::try_from(priority).ok()));
    }
    all.sort_unstable();
    Ok(all)
}

fn has_place(interface: &str) -> Result<bool, Failed> {
    let listed = listed(&format!("-j qdisc show dev {interface}"))?;
    Ok(listed.iter().any(|one| one.get("kind").and_then(Value::as_str) == Some("clsact")))
}

fn listed(text: &str) -> Result<Vec<Value>, Failed> {
    let said = tc(words(text), "")?;
    let strange = || Failed::NotUnderstood(format!("tc lists in another way: {said:.200}"));
    if said.trim().is_empty() { Ok(Vec::new()) } else { serde_json::from_str(&said).map_err(|_| strange()) }
}

fn tc(words: Vec<String>, input: &str) -> Result<String, Failed> {
    tool::run("tc", &words, ("LC_ALL", Path::new("C")), input, PATIENCE)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn lines(commands: &[Vec<String>]) -> String {
    commands.iter().map(|words| words.join(" ") + "\n").collect()
}
