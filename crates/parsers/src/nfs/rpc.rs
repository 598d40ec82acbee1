//! Headers of ONC-RPC messages (RFC 5531): target, credentials, and reply status.

use super::xdr::XdrReader;

/// Maximum bytes of credentials and of a verifier (section 8.2).
const AUTH_BYTES_MAX: usize = 400;
/// Maximum length of a machine name (section 8.2.1).
const MACHINE_BYTES_MAX: usize = 255;
/// Version of ONC-RPC itself.
pub const RPC_VERSION: u32 = 2;

/// Target of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcTarget {
    /// Program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure number.
    pub procedure: u32,
    /// Arguments and results are wrapped or encrypted (RPCSEC_GSS), and not parsed.
    pub protected: bool,
}

/// A call's header.
#[derive(Clone, Copy, Debug)]
pub struct RpcCallHeader<'a> {
    /// Called procedure.
    pub target: RpcTarget,
    /// Credentials of the caller.
    pub credentials: RpcCredentials<'a>,
    /// The arguments.
    pub args: XdrReader<'a>,
}

/// Credentials of a call.
#[derive(Clone, Copy, Debug)]
pub enum RpcCredentials<'a> {
    /// `AUTH_SYS`: a user as stated by the client machine.
    Sys {
        /// Machine name.
        machine: &'a [u8],
        /// User id.
        uid: u32,
        /// Primary group id.
        gid: u32,
    },
    /// `RPCSEC_GSS` (RFC 2203): its service, or 0 during context creation.
    Gss(u32),
    /// Another flavor, by number.
    Other(u32),
}

/// A reply's header.
#[derive(Clone, Copy, Debug)]
pub struct RpcReplyHeader<'a> {
    /// Reply status.
    pub status: RpcStatus,
    /// The results, if successful.
    pub results: XdrReader<'a>,
}

/// Reply status: `accept_stat`, or 16 plus `reject_stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcStatus(u32);

/// Target of a message that begins like a call, without its credentials.
pub fn target(message: &[u8]) -> Option<RpcTarget> {
    let mut x = XdrReader::new(message);
    let _xid_type_version = x.fixed(12)?;
    Some(RpcTarget {
        program: x.u32()?,
        version: x.u32()?,
        procedure: x.u32()?,
        protected: false,
    })
}

/// Whether a message that begins like a call uses RPCSEC_GSS.
pub fn is_gss(message: &[u8]) -> bool {
    let mut x = XdrReader::new(message);
    x.fixed(24).and_then(|_| x.u32()) == Some(GSS)
}

/// Parses the header of a call; `None`: incomplete or invalid.
pub fn call(message: &[u8]) -> Option<RpcCallHeader<'_>> {
    let mut x = XdrReader::new(message);
    let _xid = x.u32()?;
    let _type = x.u32()?;
    let _rpc_version = x.u32()?;
    let program = x.u32()?;
    let version = x.u32()?;
    let procedure = x.u32()?;
    let flavor = x.u32()?;
    let body = x.opaque(AUTH_BYTES_MAX)?;
    let credentials = credentials(flavor, body).unwrap_or(RpcCredentials::Other(flavor));
    let _verifier = (x.u32()?, x.opaque(AUTH_BYTES_MAX)?);
    let protected = matches!(credentials, RpcCredentials::Gss(service) if service != GSS_NONE);
    let target = RpcTarget {
        program,
        version,
        procedure,
        protected,
    };
    Some(RpcCallHeader {
        target,
        credentials,
        args: x,
    })
}

/// Parses the header of a reply.
pub fn reply(message: &[u8]) -> Option<RpcReplyHeader<'_>> {
    let mut x = XdrReader::new(message);
    let _xid = x.u32()?;
    let _type = x.u32()?;
    if x.u32()? != 0 {
        return Some(RpcReplyHeader {
            status: RpcStatus(REJECTED + x.u32()?),
            results: x,
        });
    }
    let _verifier = (x.u32()?, x.opaque(AUTH_BYTES_MAX)?);
    Some(RpcReplyHeader {
        status: RpcStatus(x.u32()?),
        results: x,
    })
}

/// RPCSEC_GSS service without protection of bodies.
const GSS_NONE: u32 = 1;
const REJECTED: u32 = 16;
/// RPCSEC_GSS flavor.
const GSS: u32 = 6;

fn credentials(flavor: u32, body: &[u8]) -> Option<RpcCredentials<'_>> {
    let mut x = XdrReader::new(body);
    Some(match flavor {
        1 => {
            let _stamp = x.u32()?;
            let machine = x.opaque(MACHINE_BYTES_MAX)?;
            RpcCredentials::Sys {
                machine,
                uid: x.u32()?,
                gid: x.u32()?,
            }
        }
        GSS => {
            let _version = x.u32()?;
            let control = x.u32()?;
            let _number = x.u32()?;
            let service = x.u32()?;
            RpcCredentials::Gss(if control == 0 { service } else { 0 })
        }
        other => RpcCredentials::Other(other),
    })
}

impl RpcCredentials<'_> {
    /// Name of the flavor, with its service.
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
    /// Whether the procedure was called and its results follow.
    pub fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Name of the procedure.
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
