//! `netalytics monitor -i IFACE` or `-r FILE…`: what an agent starts for a job. It reads an order from standard input (a length
//! of four bytes, the lowest first, and a [`JobOrder`]), finds what that asks for, and says it in frames on standard output. The plan
//! says what is asked; what may be read and taken the flags say, and so whoever starts it.

use std::io::{self, BufWriter, Read};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capture::live::Stop;
use capture::seccomp::{Files, Network};
use monitor::allowance::Allowance;
use monitor::{Input, SharedTaps};
use plan::message::{self, JobOrder};
use runner::{Memory, Relay, Writing};
use tuple::{Redactor, Schema, Secret};

use crate::commands::work;
use crate::failure::{Ended, wrong_flags};
use crate::flags::MonitorFlags;
use crate::flags::live::LiveFlags;
use crate::lease::{End, Lease};
use crate::live;
use crate::signals::Signals;

/// Does what is ordered.
pub fn monitor(flags: &MonitorFlags) -> anyhow::Result<Ended> {
    let order = order(&mut io::stdin().lock())?;
    let mut plan = order.plan;
    flags.limits.bound(&mut plan);
    let capturing = flags.live.is_live();
    let stop = Stop::default();
    let input = match &flags.demo {
        Some(capture) => {
            let pause = Duration::from_nanos(flags.demo_pause.unsigned_abs());
            let filter = flags.live.capture_filter.clone().unwrap_or_default();
            let live = LiveFlags { filter, ..flags.live.clone() };
            let source = Box::new(capture::Again::new(capture, pause, &stop));
            Input::Each(vec![live::filter(source, &live)?])
        }
        None => work::open(&flags.read, &flags.live, flags.workers, &plan.monitor, &stop)?,
    };
    if capturing {
        live::give_up_privileges(&flags.live)?;
    }
    let signals = Signals::end(&stop).context("cannot handle signals")?;
    if capturing {
        live::restrict_system_calls(&flags.live, Files::ReadOnly, Network::Closed);
    }
    let taps = SharedTaps::new(order.taps.clone());
    let lasts = flags.lease.map(|ns| Duration::from_nanos(ns.unsigned_abs()));
    let allowance = order.packets_max.map(|packets| Allowance::new(packets, &stop));
    let lease =
        Lease::keep(lasts, &stop, (taps.clone(), allowance.clone())).context("cannot keep the lease")?;
    let limits = flags.limits.of_run();
    let mut config = Memory::divide(&limits, &plan, Writing::AtOnce).config(&limits);
    config.allowance = allowance;
    config.monitor.taps = Some(taps);
    config.monitor.origin = Arc::new(order.origin);
    // What leaves this process leaves the machine.
    config.stream.redactor = order.redaction.map(|key| Redactor::new(Secret::new(&key.0)));
    let mut out = BufWriter::new(io::stdout().lock());
    let mut relay = Relay::start(&plan, &config, input, &mut out).context("cannot start the workers")?;
    // Live sources heed it themselves: what has arrived before is still worked on.
    let heeds = capturing || flags.demo.is_some();
    let said = relay.go((!heeds).then_some(&stop));
    let why = lease.ended().and_then(End::why).or(signals.name()).map(str::to_owned);
    let summary = relay.end(&plan, why.filter(|_| stop.is_asked()));
    let summary = said.and(summary).context("nobody listens")?;
    Ok(if summary.is_complete() { Ended::Done } else { Ended::Incomplete })
}

/// What is ordered.
fn order(from: &mut dyn Read) -> anyhow::Result<JobOrder> {
    let mut length = [0; 4];
    from.read_exact(&mut length).context("there is no order on standard input")?;
    let length = u32::from_le_bytes(length) as usize;
    if length > message::ORDER_BYTES_MAX {
        return Err(wrong_flags("the order on standard input is too large"));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).context("the order on standard input is cut off")?;
    let schemas = parsers::registry::schemas();
    let named =
        |name: &str| -> Option<Arc<Schema>> { schemas.iter().find(|schema| schema.name == name).cloned() };
    JobOrder::decode(&bytes, &named).map_err(|why| wrong_flags(format!("the order is refused: {why}")))
}
