//! A user's roster as it stays in memory: one packed allocation, because an online user's roster is
//! read at every presence change and written a few times a year. Owns the packing; the rules of
//! roster stanzas are in `acts/roster.rs`, those of subscriptions in `subscription.rs`.

use crate::limits::ROSTER_BYTES_MAX;

/// RFC 6121 section 2.1.2.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subscription {
    /// Neither side sees the other.
    #[default]
    None,
    /// The user sees the contact.
    To,
    /// The contact sees the user.
    From,
    /// Both.
    Both,
}

impl Subscription {
    /// The value of the `subscription` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Subscription::None => "none",
            Subscription::To => "to",
            Subscription::From => "from",
            Subscription::Both => "both",
        }
    }
}

/// The state of one item in the machine of RFC 6121 appendix A, with pre-approval (section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionState {
    /// Who sees whom.
    pub subscription: Subscription,
    /// The user asked and has no answer yet ("pending out").
    pub ask: bool,
    /// The contact asked and has no answer yet ("pending in").
    pub pending_in: bool,
    /// The user approved a request that has not come yet.
    pub approved: bool,
}

impl SubscriptionState {
    /// An item that exists only because the contact asked is not part of the roster that clients
    /// see (RFC 6121 section 3.1.3).
    pub fn is_hidden(self) -> bool {
        self.pending_in && self.subscription == Subscription::None && !self.ask && !self.approved
    }
}

/// A borrowed item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemRef<'a> {
    /// The contact's bare address.
    pub jid: &'a str,
    /// The user's name for the contact; empty if none.
    pub name: &'a str,
    /// Subscription state.
    pub state: SubscriptionState,
    /// Whether the user put the contact on the roster, or a subscription did. A contact who only
    /// asked is remembered here but is not listed.
    pub listed: bool,
    groups: &'a [u8],
    request: &'a [u8],
}

impl<'a> ItemRef<'a> {
    /// Of what a client is told of it.
    pub(crate) fn bytes(&self) -> usize {
        self.jid.len() + self.name.len() + self.groups.len()
    }

    /// The groups, in the client's order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.groups;
        std::iter::from_fn(move || {
            let (length, tail) = rest.split_first_chunk::<2>()?;
            let (group, tail) = tail.split_at(usize::from(u16::from_le_bytes(*length)));
            rest = tail;
            Some(text(group))
        })
    }

    /// The subscription request that waits for an answer, as the contact sent it.
    pub(crate) fn request(&self) -> Option<&'a [u8]> {
        self.state.pending_in.then_some(self.request)
    }

    /// The contact asked, and the user has done nothing about it.
    pub(crate) fn is_only_asking(&self) -> bool {
        !self.listed && self.state.is_hidden()
    }

    /// An owned copy for editing.
    pub(crate) fn to_item(self) -> Item {
        Item {
            jid: self.jid.to_owned(),
            name: self.name.to_owned(),
            groups: self.groups().map(str::to_owned).collect(),
            state: self.state,
            listed: self.listed,
            request: self.request.to_vec(),
        }
    }
}

/// An owned item, the unit of change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The contact's bare address.
    pub jid: String,
    /// The user's name for the contact; empty if none.
    pub name: String,
    /// Groups in the client's order.
    pub groups: Vec<String>,
    /// Subscription state.
    pub state: SubscriptionState,
    /// See [`ItemRef::listed`].
    pub listed: bool,
    /// The waiting request, meaningful while `state.pending_in`.
    pub request: Vec<u8>,
}

impl Item {
    /// An item for a contact who is not known yet.
    pub fn new(jid: &str) -> Self {
        Item {
            jid: jid.to_owned(),
            ..Item::default()
        }
    }

    /// Whether a client that sees `other` on its roster would see the same (RFC 6121 section
    /// 2.1.2): what a contact asks for is not shown there.
    pub(crate) fn looks_like(&self, other: &Item) -> bool {
        let shown = |state: SubscriptionState| SubscriptionState {
            pending_in: false,
            ..state
        };
        self.listed == other.listed
            && self.name == other.name
            && self.groups == other.groups
            && shown(self.state) == shown(other.state)
    }

    /// Whether it counts as one of the user's contacts. One who only asked does not.
    pub(crate) fn takes_room(&self) -> bool {
        !self.is_empty() && (self.listed || !self.state.is_hidden())
    }

    /// Bytes that it takes in a roster.
    pub(crate) fn packed_bytes(&self) -> usize {
        let text = self.jid.len() + self.name.len() + self.groups_bytes();
        HEADER + text + self.kept_request().len()
    }

    fn groups_bytes(&self) -> usize {
        self.groups.iter().map(|group| 2 + group.len()).sum()
    }

    fn kept_request(&self) -> &[u8] {
        if self.state.pending_in {
            &self.request
        } else {
            &[]
        }
    }

    /// Nothing is left to remember: neither listed nor asked for nor asked.
    pub fn is_empty(&self) -> bool {
        !self.listed && self.state == SubscriptionState::default()
    }
}

/// The packed roster. 24 bytes and one allocation of, typically, 10 bytes and the address per item.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    version: u64,
    packed: Box<[u8]>,
}

impl Roster {
    /// Packs what the store holds.
    pub(crate) fn from_store(stored: &store::Roster) -> Self {
        let mut packed = Vec::with_capacity(stored.items.len() * 32);
        for item in &stored.items {
            pack(&mut packed, &Item::from(item));
        }
        Roster {
            version: stored.version,
            packed: packed.into_boxed_slice(),
        }
    }

    /// The version that the last change made (RFC 6121 section 2.6).
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Every item, hidden ones included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ItemRef<'_>> {
        self.packed_items().map(Packed::item)
    }

    fn packed_items(&self) -> impl Iterator<Item = Packed<'_>> {
        let mut rest = &self.packed[..];
        std::iter::from_fn(move || {
            let (item, tail) = unpack(rest)?;
            rest = tail;
            Some(item)
        })
    }

    /// The item of a contact, by normalised bare address. Linear: rosters are short and packed, and
    /// a scan of a thousand items costs about two microseconds.
    pub(crate) fn find(&self, jid: &str) -> Option<ItemRef<'_>> {
        let mut items = self.packed_items();
        items
            .find(|item| item.jid == jid.as_bytes())
            .map(Packed::item)
    }

    /// The number of items, hidden ones included.
    pub(crate) fn len(&self) -> usize {
        self.packed_items().count()
    }

    /// Requests that wait for an answer, and their bytes.
    pub(crate) fn requests(&self) -> (usize, usize) {
        let requests = self.iter().filter_map(|item| item.request());
        requests.fold((0, 0), |(count, bytes), request| {
            (count + 1, bytes + request.len())
        })
    }

    /// Whether it may not grow any more.
    pub(crate) fn is_full(&self) -> bool {
        self.packed.len() >= ROSTER_BYTES_MAX
    }

    /// Bytes that the packed items take.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.packed.len()
    }

    /// Puts an item in place of the one with the same address, or at the end, and makes a new
    /// version.
    pub(crate) fn put(&mut self, item: &Item) -> u64 {
        let (before, after) = self.around(&item.jid);
        let mut packed = Vec::with_capacity(self.packed.len() + item.packed_bytes());
        packed.extend_from_slice(before);
        pack(&mut packed, item);
        packed.extend_from_slice(after);
        self.packed = packed.into_boxed_slice();
        self.bump()
    }

    /// Removes a contact and makes a new version.
    pub(crate) fn remove(&mut self, jid: &str) -> u64 {
        let (before, after) = self.around(jid);
        self.packed = [before, after].concat().into_boxed_slice();
        self.bump()
    }

    /// What is packed before the item of a contact, and what behind it; everything is before one
    /// that is not there.
    fn around(&self, jid: &str) -> (&[u8], &[u8]) {
        let mut rest = &self.packed[..];
        while let Some((item, tail)) = unpack(rest) {
            if item.jid == jid.as_bytes() {
                return (&self.packed[..self.packed.len() - rest.len()], tail);
            }
            rest = tail;
        }
        (&self.packed, &[])
    }

    fn bump(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}

const SUBSCRIPTION_BITS: u8 = 0b11;
const ASK: u8 = 1 << 2;
const APPROVED: u8 = 1 << 3;
const PENDING_IN: u8 = 1 << 4;
const LISTED: u8 = 1 << 5;
/// Flags, then four lengths (address, name, groups, request) of two bytes each.
const HEADER: usize = 9;

fn pack(out: &mut Vec<u8>, item: &Item) {
    let state = item.state;
    let mut flags = state.subscription as u8;
    for (set, bit) in [
        (state.ask, ASK),
        (state.approved, APPROVED),
        (state.pending_in, PENDING_IN),
        (item.listed, LISTED),
    ] {
        flags |= if set { bit } else { 0 };
    }
    let groups = item.groups_bytes();
    let request = item.kept_request();
    out.push(flags);
    for length in [item.jid.len(), item.name.len(), groups, request.len()] {
        // Invariant: limits::ROSTER_* keep every part of an item below 64 KiB.
        let length = u16::try_from(length).expect("part of a roster item within its limit");
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(item.jid.as_bytes());
    out.extend_from_slice(item.name.as_bytes());
    for group in &item.groups {
        out.extend_from_slice(&(group.len() as u16).to_le_bytes());
        out.extend_from_slice(group.as_bytes());
    }
    out.extend_from_slice(request);
}

/// An item as it lies there: to look for one, nothing of the others is read.
struct Packed<'a> {
    flags: u8,
    jid: &'a [u8],
    name: &'a [u8],
    groups: &'a [u8],
    request: &'a [u8],
}

fn unpack(bytes: &[u8]) -> Option<(Packed<'_>, &[u8])> {
    let (header, body) = bytes.split_at_checked(HEADER)?;
    let length = |i: usize| usize::from(u16::from_le_bytes([header[i], header[i + 1]]));
    let (jid, body) = body.split_at(length(1));
    let (name, body) = body.split_at(length(3));
    let (groups, body) = body.split_at(length(5));
    let (request, rest) = body.split_at(length(7));
    let item = Packed {
        flags: header[0],
        jid,
        name,
        groups,
        request,
    };
    Some((item, rest))
}

impl<'a> Packed<'a> {
    fn item(self) -> ItemRef<'a> {
        let has = |bit| self.flags & bit != 0;
        let state = SubscriptionState {
            subscription: match self.flags & SUBSCRIPTION_BITS {
                0 => Subscription::None,
                1 => Subscription::To,
                2 => Subscription::From,
                _ => Subscription::Both,
            },
            ask: has(ASK),
            pending_in: has(PENDING_IN),
            approved: has(APPROVED),
        };
        ItemRef {
            jid: text(self.jid),
            name: text(self.name),
            state,
            listed: has(LISTED),
            groups: self.groups,
            request: self.request,
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    // Invariant: `pack` wrote these bytes from a `str`.
    std::str::from_utf8(bytes).expect("packed text is UTF-8")
}

impl From<&store::RosterItem> for Item {
    fn from(item: &store::RosterItem) -> Self {
        let state = SubscriptionState {
            subscription: match item.subscription {
                store::Subscription::None => Subscription::None,
                store::Subscription::To => Subscription::To,
                store::Subscription::From => Subscription::From,
                store::Subscription::Both => Subscription::Both,
            },
            ask: item.ask,
            pending_in: item.pending_in.is_some(),
            approved: item.approved,
        };
        Item {
            jid: item.jid.clone(),
            name: item.name.clone(),
            groups: item.groups.clone(),
            state,
            listed: item.listed,
            request: item.pending_in.clone().unwrap_or_default(),
        }
    }
}

impl From<&Item> for store::RosterItem {
    fn from(item: &Item) -> Self {
        store::RosterItem {
            jid: item.jid.clone(),
            name: item.name.clone(),
            groups: item.groups.clone(),
            subscription: match item.state.subscription {
                Subscription::None => store::Subscription::None,
                Subscription::To => store::Subscription::To,
                Subscription::From => store::Subscription::From,
                Subscription::Both => store::Subscription::Both,
            },
            ask: item.state.ask,
            approved: item.state.approved,
            listed: item.listed,
            pending_in: item.state.pending_in.then(|| item.request.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(jid: &str, subscription: Subscription) -> Item {
        Item {
            state: SubscriptionState {
                subscription,
                ..SubscriptionState::default()
            },
            listed: true,
            ..Item::new(jid)
        }
    }

    #[test]
    fn every_part_of_an_item_survives_packing() {
        let full = Item {
            jid: "juliet@example.com".into(),
            name: "Julia ♥".into(),
            groups: vec!["Friends".into(), "Verona".into()],
            state: SubscriptionState {
                subscription: Subscription::To,
                ask: true,
                pending_in: true,
                approved: true,
            },
            listed: true,
            request: b"<presence type='subscribe'/>".to_vec(),
        };
        let mut roster = Roster::default();
        roster.put(&item("a@b", Subscription::Both));
        roster.put(&full);
        roster.put(&item("z@b", Subscription::None));
        let found = roster.find("juliet@example.com").unwrap();
        assert_eq!(found.to_item(), full);
        assert_eq!(found.request(), Some(&b"<presence type='subscribe'/>"[..]));
        assert_eq!(roster.len(), 3);
        assert_eq!(roster.version(), 3);
    }

    #[test]
    fn putting_replaces_and_removing_removes() {
        let mut roster = Roster::default();
        roster.put(&item("a@b", Subscription::Both));
        roster.put(&item("c@d", Subscription::From));
        roster.put(&item("a@b", Subscription::None));
        assert_eq!(roster.len(), 2);
        assert_eq!(
            roster.find("a@b").unwrap().state.subscription,
            Subscription::None
        );
        roster.remove("a@b");
        assert!(roster.find("a@b").is_none());
        assert_eq!(
            roster.iter().map(|item| item.jid).collect::<Vec<_>>(),
            ["c@d"]
        );
    }

    #[test]
    fn a_roster_goes_to_the_store_and_back() {
        let mut original = item("a@b", Subscription::Both);
        original.groups.push("g".into());
        let stored = store::Roster {
            version: 7,
            items: vec![(&original).into()],
        };
        let roster = Roster::from_store(&stored);
        assert_eq!(roster.version(), 7);
        assert_eq!(roster.iter().next().unwrap().to_item(), original);
    }

    #[test]
    fn an_item_takes_what_it_says_and_a_roster_is_full_at_its_bound() {
        let mut roster = Roster::default();
        let mut wide = item("a@b", Subscription::Both);
        wide.groups = (0..32)
            .map(|n| format!("{n}{}", "g".repeat(1_000)))
            .collect();
        for n in 0.. {
            wide.jid = format!("a{n}@b");
            let before = roster.packed_bytes();
            assert_eq!(roster.is_full(), before >= ROSTER_BYTES_MAX);
            if roster.is_full() {
                break;
            }
            roster.put(&wide);
            assert_eq!(roster.packed_bytes(), before + wide.packed_bytes());
        }
        roster.remove("a1@b");
        assert!(!roster.is_full());
    }
}
