//! A set of ports. Every record asks for two.

/// One bit per port.
pub(super) struct PortSet(Box<[u64; 1024]>);

impl PortSet {
    pub fn new(ports: &[u16]) -> PortSet {
        let mut bits = Box::new([0; 1024]);
        for port in ports {
            bits[usize::from(port / 64)] |= 1 << (port % 64);
        }
        PortSet(bits)
    }

    pub fn contains(&self, port: u16) -> bool {
        self.0[usize::from(port / 64)] >> (port % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_its_ports_only() {
        let ports = [0, 63, 64, 443, u16::MAX];
        let set = PortSet::new(&ports);
        assert!((0..=u16::MAX).all(|port| set.contains(port) == ports.contains(&port)));
    }
}
