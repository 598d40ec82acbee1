//! Settings of tables.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::zone::DisplayZone;

/// Display settings.
#[derive(Clone, Debug, Default)]
pub struct TableStyle {
    /// Columns of the terminal; `None`: unlimited.
    pub width: Option<usize>,
    /// Lines of the terminal.
    pub height: Option<usize>,
    /// Names shown instead of addresses; `None`: addresses.
    pub names: Option<HashMap<IpAddr, String>>,
    /// Time zone.
    pub zone: DisplayZone,
    /// Time at which rows of windows are shown.
    pub pace: WindowPace,
}

/// Time at which rows of windows are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowPace {
    /// At the end, so that columns fit all rows and the results are not interleaved; earlier if there are many.
    #[default]
    Whole,
    /// Immediately.
    AtOnce,
}
