//! Peer addresses: networks as operators write them, and how many connections each address holds on
//! the whole node. Owns no sockets.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// An address with a prefix length, as in `192.0.2.0/24` or `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    mask: u128,
    v4: bool,
}

/// A network that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network such as 192.0.2.0/24 or 2001:db8::/32")]
pub struct NetworkError(String);

impl Network {
    /// 127.0.0.0/8 and ::1.
    pub fn loopback() -> Vec<Network> {
        vec![
            Network::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
            Network::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
        ]
    }

    /// The network of `address` with a prefix of `prefix` bits; longer prefixes than the address
    /// has bits mean the address alone.
    pub fn new(address: IpAddr, prefix: u8) -> Network {
        let (bits, v4) = bits_of(address);
        let prefix = if v4 {
            u32::from(prefix.min(32)) + 96
        } else {
            u32::from(prefix.min(128))
        };
        let mask = if prefix == 0 {
            0
        } else {
            u128::MAX << (128 - prefix)
        };
        Network {
            address: bits & mask,
            mask,
            v4,
        }
    }

    /// Whether the network contains the address. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, v4) = bits_of(address);
        v4 == self.v4 && bits & self.mask == self.address
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let error = || NetworkError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => longest,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|p| *p <= longest)
                .ok_or_else(error)?,
        };
        Ok(Network::new(address, prefix))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.mask.count_ones();
        let address = Ipv6Addr::from_bits(self.address);
        match address.to_ipv4_mapped().filter(|_| self.v4) {
            Some(address) => write!(f, "{address}/{}", prefix - 96),
            None => write!(f, "{address}/{prefix}"),
        }
    }
}

/// Whether any of the networks contains the address.
pub(crate) fn contains(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

fn bits_of(address: IpAddr) -> (u128, bool) {
    match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), true),
        IpAddr::V6(v6) => (v6.to_bits(), v6.to_ipv4_mapped().is_some()),
    }
}

/// What connections are counted by: the address for IPv4, the /64 for IPv6, in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressKey(u64);

impl AddressKey {
    /// Stands for "not counted".
    pub(crate) const EXEMPT: AddressKey = AddressKey(0);

    /// As a number.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The key of a number that [`AddressKey::to_bits`] gave.
    pub fn from_bits(bits: u64) -> AddressKey {
        AddressKey(bits)
    }

    /// The key of an address.
    pub fn of(address: IpAddr) -> AddressKey {
        let (bits, v4) = bits_of(address);
        // The low half of a mapped address is 0000:ffff:a.b.c.d, which is no routable /64.
        AddressKey(if v4 {
            bits as u64
        } else {
            (bits >> 64) as u64 | 1 << 63
        })
    }
}

/// The address, or the /64.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >> 32 == 0xffff {
            return Ipv4Addr::from_bits(self.0 as u32).fmt(f);
        }
        // The mark took the place of the first bit, which global addresses do not have and those
        // of a link or a site do, with the second.
        let first = (self.0 & 1 << 62) << 1;
        let bits = (self.0 & !(1 << 63)) | first;
        write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(bits) << 64))
    }
}

const STRIPES: usize = 64;

/// Connections per address of the whole node. Touched at accept and close only, never by a message,
/// so that striped locks are cheap enough.
#[derive(Debug)]
pub(crate) struct AddressTable {
    stripes: Vec<Mutex<HashMap<AddressKey, u32>>>,
}

impl AddressTable {
    pub(crate) fn new() -> AddressTable {
        AddressTable {
            stripes: (0..STRIPES).map(|_| Mutex::new(HashMap::new())).collect(),
        }
    }

    /// Counts one more connection, unless there are `max` already (0: no bound).
    pub(crate) fn enter(&self, key: AddressKey, max: u32) -> bool {
        if key == AddressKey::EXEMPT {
            return true;
        }
        let mut stripe = self
            .stripe(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = stripe.entry(key).or_insert(0);
        if max != 0 && *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    /// Counts one connection less.
    pub(crate) fn leave(&self, key: AddressKey) {
        if key == AddressKey::EXEMPT {
            return;
        }
        let mut stripe = self
            .stripe(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = stripe.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                stripe.remove(&key);
            }
        }
    }

    fn stripe(&self, key: AddressKey) -> &Mutex<HashMap<AddressKey, u32>> {
        let mixed = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.stripes[(mixed >> 58) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_addresses() {
        for (address, shown) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
            ("fe80::1", "fe80::/64"),
            ("::1", "::/64"),
        ] {
            let key = AddressKey::of(address.parse().unwrap());
            assert_eq!(key.to_string(), shown);
        }
    }

    #[test]
    fn networks_contain_what_they_say() {
        let rows = [
            ("192.0.2.0/24", "192.0.2.77", true),
            ("192.0.2.0/24", "192.0.3.1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("127.0.0.0/8", "::ffff:127.0.0.9", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
        ];
        for (network, address, expected) in rows {
            let network: Network = network.parse().expect(network);
            assert_eq!(
                network.contains(address.parse().expect(address)),
                expected,
                "{network}"
            );
        }
        for bad in ["", "1.2.3.4/33", "::1/129", "host", "1.2.3.4/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        assert_eq!(
            "10.0.0.0/8".parse::<Network>().map(|n| n.to_string()),
            Ok("10.0.0.0/8".into())
        );
    }

    #[test]
    fn addresses_are_counted_and_forgotten() {
        let table = AddressTable::new();
        let key = AddressKey::of("203.0.113.5".parse().expect("address"));
        assert!(table.enter(key, 2));
        assert!(table.enter(key, 2));
        assert!(!table.enter(key, 2));
        table.leave(key);
        assert!(table.enter(key, 2));
        table.leave(key);
        table.leave(key);
        assert!(table.stripe(key).lock().expect("lock").is_empty());
    }

    #[test]
    fn one_v6_customer_is_one_key() {
        let a = AddressKey::of("2001:db8:1:2::1".parse().expect("address"));
        let b = AddressKey::of("2001:db8:1:2:ffff::9".parse().expect("address"));
        let c = AddressKey::of("2001:db8:1:3::1".parse().expect("address"));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
