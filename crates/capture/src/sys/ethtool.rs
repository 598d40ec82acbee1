//! Distribution of packets to the receive queues of a network adapter, read from its driver through the ethtool ioctl.
//! Read only.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

const GET_RSS: u32 = 0x46;
/// Maximum bytes of key and table: the largest adapters have 2,048 entries of 4 bytes.
const CONFIG_BYTES: usize = 16 << 10;

/// Receive-side scaling: the hash that distributes packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RssConfig {
    /// Hash function: `ETH_RSS_HASH_*`.
    pub function: u8,
    /// Transformation of addresses and ports before hashing: `RXH_XFRM_*`.
    pub transformation: u8,
    /// The function's key.
    pub key: Vec<u8>,
}

#[repr(C)]
struct EthtoolRequest {
    command: u32,
    context: u32,
    table_entries: u32,
    key_bytes: u32,
    function: u8,
    transformation: u8,
    reserved: [u8; 6],
    /// The table, then the key.
    config: [u8; CONFIG_BYTES],
}

/// The hash of `interface`.
pub(crate) fn rss(interface: &str) -> io::Result<RssConfig> {
    // Any socket works.
    let socket = &UnixDatagram::unbound()?;
    let mut request = Box::new(EthtoolRequest {
        command: GET_RSS,
        context: 0,
        table_entries: 0,
        key_bytes: 0,
        function: 0,
        transformation: 0,
        reserved: [0; 6],
        config: [0; CONFIG_BYTES],
    });
    // With lengths of 0, it returns the sizes; then exactly these are requested.
    ask(socket, interface, &mut request)?;
    let table = request.table_entries as usize * size_of::<u32>();
    let key = table..table.saturating_add(request.key_bytes as usize);
    if key.end > CONFIG_BYTES {
        return Err(io::ErrorKind::Unsupported.into());
    }
    ask(socket, interface, &mut request)?;
    let key = request.config.get(key).unwrap_or_default().to_vec();
    Ok(RssConfig {
        function: request.function,
        transformation: request.transformation,
        key,
    })
}

fn ask(socket: &UnixDatagram, interface: &str, request: &mut EthtoolRequest) -> io::Result<()> {
    // SAFETY: a structure of numbers, for which all zeros are a value.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    if name.len() >= ifreq.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    ifreq
        .ifr_name
        .iter_mut()
        .zip(name)
        .for_each(|(to, &byte)| *to = byte as libc::c_char);
    ifreq.ifr_ifru.ifru_data = std::ptr::from_mut(request).cast();
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let argument: *mut c_void = std::ptr::from_mut(&mut ifreq).cast();
    // SAFETY: both structures live until the call returns; the kernel writes no more of table and key than the sizes in the
    // request, which are 0 or checked to fit.
    let answer: c_int = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, argument) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
