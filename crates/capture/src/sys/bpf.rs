//! libpcap's compiler of capture filters, and its interpreter of the compiled programs. Packets are not read through
//! libpcap.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::ptr;

use libc::sock_filter as Instruction;

/// A classic BPF program: returns the number of bytes to keep of a packet, 0 to reject it.
#[derive(Clone)]
pub(crate) struct ClassicBpfProgram(Vec<Instruction>);

#[repr(C)]
struct OpaquePcap {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawProgram {
    len: c_uint,
    instructions: *mut Instruction,
}

#[link(name = "pcap")]
unsafe extern "C" {
    fn pcap_open_dead(link_type: c_int, snaplen: c_int) -> *mut OpaquePcap;
    fn pcap_create(interface: *const c_char, errors: *mut c_char) -> *mut OpaquePcap;
    fn pcap_set_snaplen(handle: *mut OpaquePcap, snaplen: c_int) -> c_int;
    fn pcap_set_buffer_size(handle: *mut OpaquePcap, bytes: c_int) -> c_int;
    fn pcap_activate(handle: *mut OpaquePcap) -> c_int;
    fn pcap_datalink(handle: *mut OpaquePcap) -> c_int;
    fn pcap_compile(
        handle: *mut OpaquePcap,
        program: *mut RawProgram,
        text: *const c_char,
        optimize: c_int,
        netmask: c_uint,
    ) -> c_int;
    fn pcap_freecode(program: *mut RawProgram);
    fn pcap_geterr(handle: *mut OpaquePcap) -> *const c_char;
    fn pcap_close(handle: *mut OpaquePcap);
    fn pcap_lib_version() -> *const c_char;
    fn bpf_filter(
        program: *const Instruction,
        bytes: *const u8,
        original_len: c_uint,
        len: c_uint,
    ) -> c_uint;
}

/// Length of an error buffer, by libpcap's contract.
const ERROR_LEN: usize = 256;
/// No netmask is known; only `ip broadcast` needs one.
const NETMASK_UNKNOWN: c_uint = 0xffff_ffff;

/// Name and version of the library, as reported by itself.
pub(crate) fn library() -> String {
    // SAFETY: the call takes nothing and returns a text that lasts as long as the process.
    unsafe { CStr::from_ptr(pcap_lib_version()) }
        .to_string_lossy()
        .into_owned()
}

/// Target of a compiled program.
pub(crate) enum FilterTarget<'a> {
    /// Packets of this link type (libpcap's number), complete as in a file.
    Packets(u16),
    /// A kernel socket on an Ethernet interface, where VLAN tags are not in the packet.
    Ethernet(&'a str),
}

impl ClassicBpfProgram {
    /// Accepts all packets, up to `snaplen` bytes of each.
    pub fn all(snaplen: u32) -> ClassicBpfProgram {
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        ClassicBpfProgram(vec![Instruction {
            code: RETURN,
            jt: 0,
            jf: 0,
            k: snaplen,
        }])
    }

    /// Rejects all packets.
    pub fn none() -> ClassicBpfProgram {
        ClassicBpfProgram::all(0)
    }

    /// Compiles `text`, in tcpdump's language; at most `snaplen` bytes of a packet are kept.
    ///
    /// # Errors
    /// The message of the library.
    pub fn compile(
        text: &str,
        target: &FilterTarget<'_>,
        snaplen: u32,
    ) -> Result<ClassicBpfProgram, String> {
        let text = CString::new(text).map_err(|_| "a filter has no zero bytes".to_owned())?;
        let snaplen = c_int::try_from(snaplen).unwrap_or(c_int::MAX);
        let handle = match target {
            FilterTarget::Packets(link_type) => PcapHandle::dead(*link_type, snaplen)?,
            FilterTarget::Ethernet(interface) => PcapHandle::ethernet(interface, snaplen)?,
        };
        let mut raw = RawProgram {
            len: 0,
            instructions: ptr::null_mut(),
        };
        // SAFETY: the handle is live, the text ends with a zero and both outlive the call, which fills in the program.
        if unsafe { pcap_compile(handle.0, &raw mut raw, text.as_ptr(), 1, NETMASK_UNKNOWN) } != 0 {
            return Err(handle.error());
        }
        // SAFETY: after success the program has that many instructions, which stay until it is freed.
        let instructions =
            unsafe { std::slice::from_raw_parts(raw.instructions, raw.len as usize) }.to_vec();
        // SAFETY: the library made it, and it is not used any more.
        unsafe { pcap_freecode(&raw mut raw) };
        Ok(ClassicBpfProgram(instructions))
    }

    /// Whether a packet matches; for programs compiled for packets in files.
    #[inline]
    pub fn takes(&self, bytes: &[u8], original_len: u32) -> bool {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // SAFETY: every path of a program, which only this module makes, ends in a return, and the interpreter checks
        // each load against `len`.
        unsafe { bpf_filter(self.0.as_ptr(), bytes.as_ptr(), original_len, len) != 0 }
    }

    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.0
    }
}

/// Handle of the library, closed when dropped.
struct PcapHandle(*mut OpaquePcap);

impl PcapHandle {
    fn dead(link_type: u16, snaplen: c_int) -> Result<PcapHandle, String> {
        // SAFETY: the call takes two numbers.
        let handle = unsafe { pcap_open_dead(link_type.into(), snaplen) };
        if handle.is_null() {
            Err("not enough memory for a filter".into())
        } else {
            Ok(PcapHandle(handle))
        }
    }

    /// Handle of an opened interface: only then does the compiler ask the kernel for stripped VLAN tags.
    fn ethernet(interface: &str, snaplen: c_int) -> Result<PcapHandle, String> {
        const SMALL_BUFFER: c_int = 64 << 10;
        const ETHERNET: c_int = 1;
        let name = CString::new(interface).map_err(|_| "a name has no zero bytes".to_owned())?;
        let mut errors = [0 as c_char; ERROR_LEN];
        // SAFETY: the name ends with a zero, the buffer has the length required by the library; both outlive the call.
        let handle = unsafe { pcap_create(name.as_ptr(), errors.as_mut_ptr()) };
        if handle.is_null() {
            // SAFETY: the library left a text with a zero at its end there.
            return Err(unsafe { CStr::from_ptr(errors.as_ptr()) }
                .to_string_lossy()
                .into_owned());
        }
        let handle = PcapHandle(handle);
        // SAFETY: the handle is live and not activated yet.
        unsafe {
            pcap_set_snaplen(handle.0, snaplen);
            pcap_set_buffer_size(handle.0, SMALL_BUFFER);
        }
        // SAFETY: as before.
        if unsafe { pcap_activate(handle.0) } < 0 {
            return Err(handle.error());
        }
        // SAFETY: the handle is live and activated.
        match unsafe { pcap_datalink(handle.0) } {
            ETHERNET => Ok(handle),
            other => Err(format!(
                "libpcap reports link type {other} for {interface}, not Ethernet"
            )),
        }
    }

    fn error(&self) -> String {
        // SAFETY: the handle is live and keeps a text with a zero at its end for its errors.
        unsafe { CStr::from_ptr(pcap_geterr(self.0)) }
            .to_string_lossy()
            .into_owned()
    }
}

impl Drop for PcapHandle {
    fn drop(&mut self) {
        // SAFETY: the library's own handle, closed once.
        unsafe { pcap_close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(text: &str) -> Result<ClassicBpfProgram, String> {
        ClassicBpfProgram::compile(text, &FilterTarget::Packets(1), 65535)
    }

    #[test]
    fn compiles_and_runs() {
        let program = compile("ip").expect("a filter");
        let mut packet = [0; 34];
        packet[12] = 8;
        assert!(program.takes(&packet, 34));
        packet[12] = 9;
        assert!(!program.takes(&packet, 34));
        assert!(
            !program.takes(&packet[..13], 34),
            "a packet that is too short is not wanted"
        );
        assert!(!program.takes(&[], 34));
    }

    #[test]
    fn the_empty_filter_takes_everything() {
        for program in [compile("").expect("a filter"), ClassicBpfProgram::all(96)] {
            assert_eq!(program.instructions().len(), 1);
            assert!(program.takes(&[], 0));
        }
        assert!(!ClassicBpfProgram::none().takes(&[1], 1));
    }

    #[test]
    fn invalid_filters_are_explained() {
        let wrong = |text| compile(text).err().expect("not a filter");
        assert!(wrong("port http-ish").contains("http-ish"));
        assert!(wrong("tcp and").contains("syntax error"));
        assert!(!wrong("tcp\0").is_empty());
    }
}
