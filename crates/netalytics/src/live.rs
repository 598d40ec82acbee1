//! Live capture as the flags ask for it: its sources, its end by Ctrl-C, and the privileges that it gives up.

use anyhow::Context;
use capture::Source;
use capture::live::{self, LiveError, LiveOptions, Stop};
use capture::privileges::{Account, PrivilegeError, give_up};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::wrong_flags;
use crate::flags::live::{Backend, Clock, LiveFlags};

/// Opens a source for each worker. They end at the first SIGINT or SIGTERM; the second ends the program.
pub fn open(flags: &LiveFlags, workers: usize) -> anyhow::Result<Vec<Box<dyn Source>>> {
    let (interface, filter) = flags.asked().context("no interface is asked for")?;
    if flags.capture_filter.is_some() && flags.interface.len() > 1 {
        return Err(wrong_flags("the capture filter is given twice: behind -i and with --capture-filter"));
    }
    let stop = Stop::default();
    let options = LiveOptions {
        workers,
        snaplen: flags.snaplen,
        promiscuous: !flags.no_promiscuous,
        buffer_bytes: flags.buffer_size,
        filter,
        backend: match flags.capture {
            Backend::AfPacket => live::Backend::AfPacket,
            Backend::AfXdp => live::Backend::AfXdp,
            Backend::Dpdk => live::Backend::Dpdk,
        },
        clock: match flags.timestamps {
            Clock::System => live::Clock::System,
            Clock::Adapter => live::Clock::Adapter,
        },
        stop: stop.clone(),
        ..LiveOptions::new(interface)
    };
    let sources = live::open(&options).map_err(explain)?;
    end_at_signals(&stop).context("cannot handle signals")?;
    Ok(sources)
}

/// What a capture that is read leaves of `source` when there is a capture filter.
pub fn filter(source: Box<dyn Source>, flags: &LiveFlags) -> anyhow::Result<Box<dyn Source>> {
    match &flags.capture_filter {
        Some(text) => capture::filtered(source, text).map_err(explain),
        None => Ok(source),
    }
}

/// Gives up what is not needed any more. Files to be written are open by now.
pub fn give_up_privileges(flags: &LiveFlags) -> anyhow::Result<()> {
    let account = match &flags.user {
        Some(name) => Account::Named(name.clone()),
        None => caller().unwrap_or_else(|| Account::Named("nobody".into())),
    };
    give_up(&account).map_err(|error| match error {
        PrivilegeError::NoSuchUser(_) => wrong_flags(error.to_string()),
        error => error.into(),
    })
}

/// Who called sudo.
fn caller() -> Option<Account> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok().filter(|n| *n != 0);
    Some(Account::Numbered(number("SUDO_UID")?, number("SUDO_GID")?))
}

fn explain(error: LiveError) -> anyhow::Error {
    match error {
        LiveError::NoSuchInterface { .. } | LiveError::BadFilter { .. } | LiveError::Unsupported(_) => {
            wrong_flags(error.to_string())
        }
        error => error.into(),
    }
}

fn end_at_signals(stop: &Stop) -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: at the first signal the flag is not up yet.
        flag::register_conditional_default(signal, stop.flag())?;
        flag::register(signal, stop.flag())?;
    }
    Ok(())
}
