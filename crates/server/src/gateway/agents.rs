//! All agents ever connected: what they reported about themselves, and the time of their last message.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use link::{Hello, HostCapacity, InterfaceAddresses};
use serde::{Deserialize, Serialize};

use crate::gateway::fleet::AgentView;
use crate::store::sqlite::{AgentStore, StoreError, now_ns};

/// Properties reported by an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AgentFacts {
    labels: BTreeMap<String, String>,
    version: String,
    interfaces: Vec<String>,
    cores: u32,
    memory_bytes: u64,
    capabilities: Vec<String>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    /// Addresses of traffic that passes each interface.
    #[serde(default)]
    passing: BTreeMap<String, Vec<IpAddr>>,
}

/// See the module documentation.
pub struct AgentDirectory {
    store: AgentStore,
    all: BTreeMap<String, (AgentFacts, i64)>,
    /// Last reported counters of each agent.
    health: BTreeMap<String, BTreeMap<String, u64>>,
}

impl AgentDirectory {
    /// Loads the stored agents.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn load(store: AgentStore) -> Result<AgentDirectory, StoreError> {
        let known = store.all()?.into_iter();
        let all = known.map(|(name, facts, at)| {
            (name, (serde_json::from_str(&facts).unwrap_or_default(), at))
        });
        Ok(AgentDirectory {
            all: all.collect(),
            health: BTreeMap::new(),
            store,
        })
    }

    /// Handles the hello of an agent.
    pub fn greet(&mut self, hello: &Hello) {
        let facts = AgentFacts {
            labels: hello.labels.clone(),
            version: hello.program.clone(),
            interfaces: hello.capacity.interfaces.clone(),
            cores: hello.capacity.cores,
            memory_bytes: hello.capacity.memory_bytes,
            capabilities: hello.capabilities.clone(),
            addresses: read(&hello.capacity.addresses),
            passing: hello
                .capacity
                .passing
                .iter()
                .map(|passing| (passing.interface.clone(), read(&passing.addresses)))
                .collect(),
        };
        self.all.insert(hello.agent.clone(), (facts, now_ns()));
        self.note(&hello.agent);
    }

    /// Handles the disconnection of an agent.
    pub fn leave(&mut self, name: &str) {
        self.heard(name);
        self.note(name);
    }

    /// Notes a message of an agent.
    pub fn heard(&mut self, name: &str) {
        if let Some((_, at)) = self.all.get_mut(name) {
            *at = now_ns();
        }
    }

    /// Whether an agent has reported a capability.
    pub fn can(&self, name: &str, capability: &str) -> bool {
        let known = self.all.get(name);
        known.is_some_and(|(facts, _)| facts.capabilities.iter().any(|one| one == capability))
    }

    /// Reported addresses, by agent.
    pub fn hosts(&self) -> BTreeMap<String, HostCapacity> {
        self.all
            .iter()
            .map(|(name, (facts, _))| (name.clone(), capacity(facts)))
            .collect()
    }

    /// Notes the reported counters of an agent; drops unknown ones.
    pub fn take_health(&mut self, name: &str, mut counts: BTreeMap<String, u64>) {
        counts.retain(|word, _| link::HEALTH.contains(&word.as_str()));
        self.health.insert(name.to_owned(), counts);
    }

    /// Last reported counters of an agent.
    pub fn health(&self, name: &str) -> BTreeMap<String, u64> {
        self.health.get(name).cloned().unwrap_or_default()
    }

    fn note(&self, name: &str) {
        let Some((facts, _)) = self.all.get(name) else {
            return;
        };
        let text = serde_json::to_string(facts).unwrap_or_default();
        if let Err(error) = self.store.save(name, &text) {
            tracing::warn!("cannot store the state of agent {name}: {error}");
        }
    }

    /// API views of the agents; `finish` adds current values.
    pub fn told(&self, finish: impl Fn(&mut AgentView)) -> Vec<AgentView> {
        let agent = |(name, (facts, at)): (&String, &(AgentFacts, i64))| {
            let is_shared = |ip: &&IpAddr| {
                self.all
                    .iter()
                    .any(|(other, (facts, _))| other != name && facts.addresses.contains(ip))
            };
            let texts = |ips: Vec<&IpAddr>| ips.into_iter().map(ToString::to_string).collect();
            let addresses_shared = texts(facts.addresses.iter().filter(is_shared).collect());
            let addresses = texts(facts.addresses.iter().collect());
            let facts = facts.clone();
            let mut agent = AgentView {
                name: name.clone(),
                labels: facts.labels,
                connected: false,
                version: facts.version,
                interfaces: facts.interfaces,
                cores: facts.cores,
                memory_bytes: facts.memory_bytes,
                capabilities: facts.capabilities,
                addresses,
                addresses_shared,
                packets_per_second: None,
                jobs: Vec::new(),
                clock_offset_ns: None,
                last_seen_ns: Some(*at),
            };
            finish(&mut agent);
            agent
        };
        self.all.iter().map(agent).collect()
    }
}

fn read(ips: &[Bytes]) -> Vec<IpAddr> {
    ips.iter()
        .filter_map(|ip| control::taps::read(ip))
        .collect()
}

/// Addresses only: other stored properties may have changed.
fn capacity(facts: &AgentFacts) -> HostCapacity {
    let write = |ips: &Vec<IpAddr>| ips.iter().map(|ip| control::taps::write(*ip)).collect();
    let passing = |(interface, ips): (&String, _)| InterfaceAddresses {
        interface: interface.clone(),
        addresses: write(ips),
    };
    HostCapacity {
        addresses: write(&facts.addresses),
        passing: facts.passing.iter().map(passing).collect(),
        ..HostCapacity::default()
    }
}
