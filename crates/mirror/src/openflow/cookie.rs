//! Cookies identify the owner of a rule: 64 bits stored with it on the switch. Magic 16 · server 12 · job 20 ·
//! generation 8 · actions 8. All rules with one cookie have the same actions, so that a MODIFY by cookie, which renews
//! their lease, changes none of them.

use std::fmt;

/// Magic number of our cookies.
const MAGIC: u64 = 0x6e61; // "na"
const SERVER_BITS: u32 = 12;
const JOB_BITS: u32 = 20;

/// A rule's cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleCookie(pub u64);

/// Decoded cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CookieOwner {
    /// Number of the server; 12 bits.
    pub server: u16,
    /// Number of the job, the first of several; 20 bits. 0: shared by all jobs.
    pub job: u32,
    /// Generation of the job.
    pub generation: u8,
    /// Index among the job's action lists.
    pub actions: u8,
}

impl RuleCookie {
    /// Mask of the magic and server bits.
    pub const SERVER_MASK: u64 = 0xffff_fff0_0000_0000;

    /// Cookie of the rules of an exploration. They match only its own frames and belong to no job: jobs have
    /// generations, and rules without a job have the first.
    #[must_use]
    pub fn of_exploration(server: u16) -> RuleCookie {
        RuleCookie::of(CookieOwner {
            server,
            job: 0,
            generation: u8::MAX,
            actions: u8::MAX,
        })
    }

    /// Whether the cookie belongs to an exploration, by any process.
    #[must_use]
    pub fn is_of_exploration(self) -> bool {
        self.owner()
            .is_some_and(|owner| self == RuleCookie::of_exploration(owner.server))
    }

    /// Cookie of an owner; bits that do not fit are dropped.
    #[must_use]
    pub fn of(owner: CookieOwner) -> RuleCookie {
        let server = u64::from(owner.server) & ((1 << SERVER_BITS) - 1);
        let job = u64::from(owner.job) & ((1 << JOB_BITS) - 1);
        let low = job << 16 | u64::from(owner.generation) << 8 | u64::from(owner.actions);
        RuleCookie(MAGIC << 48 | server << 36 | low)
    }

    /// Decodes a cookie; `None`: not of netalytics.
    #[must_use]
    pub fn owner(self) -> Option<CookieOwner> {
        let bits = |shift: u32, count: u32| self.0 >> shift & ((1 << count) - 1);
        (self.0 >> 48 == MAGIC).then(|| CookieOwner {
            server: bits(36, SERVER_BITS) as u16,
            job: bits(16, JOB_BITS) as u32,
            generation: bits(8, 8) as u8,
            actions: bits(0, 8) as u8,
        })
    }

    /// Whether this server owns the cookie.
    #[must_use]
    pub fn is_of(self, server: u16) -> bool {
        self.owner().is_some_and(|owner| owner.server == server)
    }
}

impl fmt::Display for RuleCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}
