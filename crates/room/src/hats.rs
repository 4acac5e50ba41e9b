//! Hats (XEP-0317): what a room calls some of those who are in it, beside their roles. Owners make
//! them and say whose they are; everybody is shown them in presence. How owners say so is in
//! `command`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xml::build::Writer;
use xmpp::error::Condition;

use crate::broadcast::Tell;
use crate::limits::RoomLimits;
use crate::occupants::Key;
use crate::room::Room;

pub(crate) const NS_HATS: &str = "urn:xmpp:hats:0";

/// One hat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hat {
    /// What people are shown.
    pub title: String,
    /// The angle of its colour (XEP-0392), in degrees; empty if it has none.
    pub hue: String,
}

/// The hats of a room, and whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hats {
    /// By URI.
    all: BTreeMap<String, Hat>,
    /// URIs of the hats of each bare address that has any.
    worn: BTreeMap<String, Vec<String>>,
}

impl Hats {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Every hat, by URI.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Hat)> {
        self.all.iter().map(|(uri, hat)| (uri.as_str(), hat))
    }

    /// Every address that has a hat, with each of its hats.
    pub fn worn(&self) -> impl Iterator<Item = (&str, &str, &Hat)> {
        let all = &self.all;
        self.worn.iter().flat_map(move |(bare, uris)| {
            let known = uris.iter().filter_map(move |uri| all.get_key_value(uri));
            known.map(move |(uri, hat)| (bare.as_str(), uri.as_str(), hat))
        })
    }

    /// The hats of a bare address.
    pub fn of(&self, bare: &str) -> impl Iterator<Item = (&str, &Hat)> {
        let uris = self.worn.get(bare).into_iter().flatten();
        let all = &self.all;
        let known = uris.filter_map(move |uri| all.get_key_value(uri));
        known.map(|(uri, hat)| (uri.as_str(), hat))
    }

    /// Who has a hat.
    pub(crate) fn wearers(&self, uri: &str) -> Vec<String> {
        let has = |uris: &Vec<String>| uris.iter().any(|own| own == uri);
        let worn = self.worn.iter().filter(|(_, uris)| has(uris));
        worn.map(|(bare, _)| bare.clone()).collect()
    }

    /// Adds a hat, or gives one another title and colour.
    pub fn make(&mut self, uri: &str, hat: Hat) {
        self.all.insert(uri.to_owned(), hat);
    }

    /// Removes a hat, from all heads.
    pub(crate) fn unmake(&mut self, uri: &str) -> Result<(), Condition> {
        self.all.remove(uri).ok_or(Condition::ItemNotFound)?;
        for bare in self.wearers(uri) {
            self.doff(&bare, uri)?;
        }
        Ok(())
    }

    /// Gives a hat to an address.
    ///
    /// # Errors
    /// `item-not-found` if there is no such hat.
    pub fn don(&mut self, bare: &str, uri: &str) -> Result<(), Condition> {
        if !self.all.contains_key(uri) {
            return Err(Condition::ItemNotFound);
        }
        let uris = self.worn.entry(bare.to_owned()).or_default();
        if !uris.iter().any(|own| own == uri) {
            uris.push(uri.to_owned());
        }
        Ok(())
    }

    /// Takes a hat from an address.
    pub(crate) fn doff(&mut self, bare: &str, uri: &str) -> Result<(), Condition> {
        let uris = self.worn.get_mut(bare).ok_or(Condition::ItemNotFound)?;
        let before = uris.len();
        uris.retain(|own| own != uri);
        let has_none = uris.is_empty();
        if uris.len() == before {
            return Err(Condition::ItemNotFound);
        }
        if has_none {
            self.worn.remove(bare);
        }
        Ok(())
    }

    /// Whether there may be so many of them.
    pub fn fits(&self, limits: &RoomLimits) -> bool {
        let worn: usize = self.worn.values().map(Vec::len).sum();
        let hat_bytes = |(uri, hat): (&String, &Hat)| uri.len() + hat.title.len() + hat.hue.len();
        let all: usize = self.all.iter().map(hat_bytes).sum();
        let of_one = |(bare, uris): (&String, &Vec<String>)| {
            bare.len() + uris.iter().map(String::len).sum::<usize>()
        };
        let bytes = all + self.worn.iter().map(of_one).sum::<usize>();
        self.all.len() <= limits.hats_max
            && worn <= limits.hats_worn_max
            && bytes <= limits.hat_bytes_max
    }
}

/// Writes `<hat/>`.
pub(crate) fn write_hats<'a>(out: &mut Vec<u8>, hats: impl Iterator<Item = (&'a str, &'a Hat)>) {
    let mut hats = hats.peekable();
    if hats.peek().is_none() {
        return;
    }
    let mut writer = Writer::new(out);
    writer.open("hats").attr("xmlns", NS_HATS);
    for (uri, hat) in hats {
        writer
            .open("hat")
            .attr("uri", uri)
            .attr("title", &hat.title);
        if !hat.hue.is_empty() {
            writer.attr("hue", &hat.hue);
        }
        writer.close();
    }
    writer.close();
}

impl Room {
    /// Tells of those who are there of some addresses: their hats are others now.
    pub(crate) fn show_hats(&mut self, addresses: &[String]) {
        let occupants = self.occupants.iter();
        let theirs = occupants.filter(|(_, o)| addresses.iter().any(|bare| bare == o.bare()));
        let keys: Vec<Key> = theirs.map(|(key, _)| key).collect();
        for key in keys {
            let Some(occupant) = self.occupants.get(key) else {
                continue;
            };
            let was_shown = self.is_shown(occupant);
            self.tell(key, &Tell::default(), was_shown);
        }
    }
}
