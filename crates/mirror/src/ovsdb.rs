//! Mirrors of ports, as OVSDB has them: operations as arguments of `ovs-vsctl`, one transaction each. A mirror touches no flow table,
//! and a packet reaches it once however it is selected; but its ports are all that it selects by.

use crate::openflow::Owner;

/// A mirror that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMirror {
    /// Whose it is; its name says so.
    pub owner: Owner,
    /// The bridge.
    pub bridge: String,
    /// The names of the ports, both directions.
    pub ports: Vec<String>,
    /// The port to which copies go. It carries nothing else while the mirror is there.
    pub output: String,
    /// At most so many bytes of each; 0: all.
    pub snaplen: u16,
}

/// What the names of a server's mirrors begin with.
#[must_use]
pub fn prefix(server: u16) -> String {
    format!("netalytics-{server:03x}-")
}

impl PortMirror {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        let Owner { server, job, generation, actions } = self.owner;
        format!("{}{job:05x}-{generation:02x}-{actions:02x}", prefix(server))
    }

    /// The arguments that make it, in one transaction.
    #[must_use]
    pub fn create(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut say = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        for (i, port) in self.ports.iter().enumerate() {
            say(&format!("-- --id=@p{i} get port {port}"));
        }
        say(&format!("-- --id=@out get port {}", self.output));
        let sources: Vec<String> = (0..self.ports.len()).map(|i| format!("@p{i}")).collect();
        let sources = sources.join(",");
        say(&format!(
            "-- --id=@m create mirror name={} select-src-port={sources} select-dst-port={sources} output-port=@out",
            self.name()
        ));
        if self.snaplen != 0 {
            say(&format!("snaplen={}", self.snaplen));
        }
        say(&format!("-- add bridge {} mirrors @m", self.bridge));
        words
    }
}

/// The arguments that take a mirror away which is there.
#[must_use]
pub fn remove(bridge: &str, name: &str) -> Vec<String> {
    let words = format!("-- --id=@m get mirror {name} -- remove bridge {bridge} mirrors @m");
    words.split(' ').map(str::to_owned).collect()
}
