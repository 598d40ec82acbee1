//! Headers of ONC-RPC messages (RFC 5531): who calls what under which name, and how a call was taken.

use super::xdr::Xdr;

/// Most bytes of credentials and of a verifier (section 8.2).
const AUTH_BYTES_MAX: usize = 400;
/// Longest name of a machine (section 8.2.1 says 255).
const MACHINE_BYTES_MAX: usize = 255;
/// The version of ONC-RPC itself.
pub const RPC_VERSION: u32 = 2;

/// What is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure of that version.
    pub procedure: u32,
    /// Arguments and results are wrapped or encrypted (RPCSEC_GSS), and not read.
    pub protected: bool,
}

/// A call's header.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is called.
    pub target: Target,
    /// By whom.
    pub credentials: Credentials<'a>,
    /// The arguments.
    pub args: Xdr<'a>,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    /// `AUTH_SYS`: a user as the client's machine says.
    Sys {
        /// The machine's name.
        machine: &'a [u8],
        /// User.
        uid: u32,
        /// First group.
        gid: u32,
    },
    /// `RPCSEC_GSS` (RFC 2203): its service, or 0 while a context is being made.
    Gss(u32),
    /// Another flavor, by its number.
    Other(u32),
}

/// A reply's header.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// How the call was taken.
    pub status: RpcStatus,
    /// The results, if it was.
    pub results: Xdr<'a>,
}

/// How a call was taken: `accept_stat`, or 16 and `reject_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcStatus(u32);

/// What a call that begins like one calls; of its credentials nothing is known.
pub fn target(message: &[u8]) -> Option<Target> {
    let mut x = Xdr::new(message);
    let _xid_type_version = x.fixed(12)?;
    Some(Target { program: x.u32()?, version: x.u32()?, procedure: x.u32()?, protected: false })
}

/// Whether a call that begins like one comes with RPCSEC_GSS.
pub fn is_gss(message: &[u8]) -> bool {
    let mut x = Xdr::new(message);
    x.fixed(24).and_then(|_| x.u32()) == Some(GSS)
}

/// Reads the header of a call; `None`: it goes on, or it is none.
pub fn call(message: &[u8]) -> Option<Call<'_>> {
    let mut x = Xdr::new(message);
    let (_xid, _type, _rpc_version) = (x.u32()?, x.u32()?, x.u32()?);
    let (program, version, procedure) = (x.u32()?, x.u32()?, x.u32()?);
    let (flavor, body) = (x.u32()?, x.opaque(AUTH_BYTES_MAX)?);
    let credentials = credentials(flavor, body).unwrap_or(Credentials::Other(flavor));
    let _verifier = (x.u32()?, x.opaque(AUTH_BYTES_MAX)?);
    let protected = matches!(credentials, Credentials::Gss(service) if service != GSS_NONE);
    let target = Target { program, version, procedure, protected };
    Some(Call { target, credentials, args: x })
}

/// Reads the header of a reply.
pub fn reply(message: &[u8]) -> Option<Reply<'_>> {
    let mut x = Xdr::new(message);
    let (_xid, _type) = (x.u32()?, x.u32()?);
    if x.u32()? != 0 {
        return Some(Reply { status: RpcStatus(REJECTED + x.u32()?), results: x });
    }
    let _verifier = (x.u32()?, x.opaque(AUTH_BYTES_MAX)?);
    Some(Reply { status: RpcStatus(x.u32()?), results: x })
}

/// Service of RPCSEC_GSS that leaves bodies as they are.
const GSS_NONE: u32 = 1;
const REJECTED: u32 = 16;
/// The flavor RPCSEC_GSS.
const GSS: u32 = 6;

fn credentials(flavor: u32, body: &[u8]) -> Option<Credentials<'_>> {
    let mut x = Xdr::new(body);
    Some(match flavor {
        1 => {
            let _stamp = x.u32()?;
            let machine = x.opaque(MACHINE_BYTES_MAX)?;
            Credentials::Sys { machine, uid: x.u32()?, gid: x.u32()? }
        }
        GSS => {
            let (_version, control, _number, service) = (x.u32()?, x.u32()?, x.u32()?, x.u32()?);
            Credentials::Gss(if control == 0 { service } else { 0 })
        }
        other => Credentials::Other(other),
    })
}

impl Credentials<'_> {
    /// The name of the flavor, and of its service.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sys { .. } => "sys",
            Self::Gss(1) => "gss",
            Self::Gss(2) => "gss_integrity",
            Self::Gss(3) => "gss_privacy",
            Self::Gss(_) => "gss_context",
            Self::Other(0) => "none",
            Self::Other(2) => "short",
            Self::Other(3) => "dh",
            Self::Other(7) => "tls",
            Self::Other(_) => "other",
        }
    }
}

impl RpcStatus {
    /// The procedure was called, and what comes are its results.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "prog_unavail",
            2 => "prog_mismatch",
            3 => "proc_unavail",
            4 => "garbage_args",
            5 => "system_err",
            REJECTED => "rpc_mismatch",
            n if n == REJECTED + 1 => "auth_error",
            _ => "other",
        }
    }
}
