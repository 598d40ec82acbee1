//! Packets that the agent keeps, if the policy permits it: a process of this program writes the packets of the permitted
//! interfaces to files, of which the newest are kept ([`recorder`]). The server requests the packets of a flow
//! ([`reader`]); when an alert fires, the current files are preserved.
//!
//! `packets/current/RUN/*.pcapng`: the newest packets. `packets/alerts/NUMBER-RULE/*.pcapng`: hard links to files that
//! were current when an alert fired. `packets/reading`: files of requests.

mod kept_files;
mod reader;
mod recorder;

use std::io;
use std::path::Path;

use link::{PacketReply, PacketRequest};
use tokio::sync::mpsc::Sender;

pub use self::reader::refusal;

use self::reader::PacketReader;
use self::recorder::PacketRecorder;
use crate::policy::{HostPolicy, PolicyPackets};
use crate::process::ProcessEvent;
use crate::selected_packets::SelectedPackets;

/// See the module documentation.
pub struct KeptPackets {
    recorder: PacketRecorder,
    reader: PacketReader,
    /// Reason why packets do not leave the host.
    refusal: Option<String>,
}

impl KeptPackets {
    /// Keeps packets of `interfaces` in `folder`, from the next [`KeptPackets::tend`] on; `news` receives the packets
    /// selected for requests.
    ///
    /// # Errors
    /// `io::Error` if the folder cannot be created.
    pub fn new(
        folder: &Path,
        program: &Path,
        (policy, limits): (&HostPolicy, PolicyPackets),
        interfaces: &[String],
        news: Sender<ProcessEvent>,
    ) -> io::Result<KeptPackets> {
        let folder = folder.join("packets");
        // Packets outside the permitted networks must not be read on this host.
        let filter = policy.networks_filter();
        let condition = policy.networks_condition();
        Ok(KeptPackets {
            recorder: PacketRecorder::new(&folder, program, limits, interfaces, filter)?,
            reader: PacketReader::new(&folder, program, condition, news),
            refusal: policy.packets_refusal(),
        })
    }

    /// Housekeeping; to be called every second.
    pub fn tend(&mut self) {
        self.recorder.tend();
        self.reader.forget_idle();
    }

    /// Preserves the current files, because an alert of this rule fires.
    pub fn preserve(&mut self, rule: &str) {
        self.recorder.preserve(rule);
    }

    /// Handles a request; `None`: the reply follows, by [`KeptPackets::selected`].
    pub fn ask(&mut self, request: &PacketRequest) -> Option<PacketReply> {
        match &self.refusal {
            Some(why) => Some(refusal(request.request, why)),
            None => self.reader.ask(request),
        }
    }

    /// Takes the packets selected for a request; returns the first part.
    pub fn selected(&mut self, number: u64, selected: io::Result<SelectedPackets>) -> PacketReply {
        self.reader.selected(number, selected)
    }
}
