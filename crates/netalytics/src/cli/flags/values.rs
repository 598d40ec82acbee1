//! Values of flags that several groups of flags share: workers, cores, labels.

use tuple::ColumnFamily;

/// Number of workers; `None`: automatic.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCount(pub Option<usize>);

/// Cores by number; none: all that this process may use.
#[derive(Clone, Debug)]
pub struct CoreList(pub Vec<usize>);

/// More would only wait for each other.
const WORKERS_MAX: usize = 256;

/// `role=web`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match ColumnFamily::key(name) {
        Some(_) if !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE, as in role=web; a name has letters, digits, - and _".into()),
    }
}

pub(super) fn workers(text: &str) -> Result<WorkerCount, String> {
    match text.parse::<usize>() {
        _ if text == "auto" => Ok(WorkerCount(None)),
        Ok(n @ 1..=WORKERS_MAX) => Ok(WorkerCount(Some(n))),
        _ => Err(format!("auto, or a number from 1 to {WORKERS_MAX}")),
    }
}

/// `0,2-5`.
pub(super) fn cores(text: &str) -> Result<CoreList, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?;
        Some(range.map(usize::from))
    };
    let parts = text.split(',').filter(|part| !part.is_empty()).map(range);
    let cores: Option<Vec<_>> = parts.collect();
    let cores = cores.ok_or("cores by number, as in 0,2-5")?;
    Ok(CoreList(cores.into_iter().flatten().collect()))
}
