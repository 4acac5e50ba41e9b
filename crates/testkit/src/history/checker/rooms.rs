//! What must hold of the room (docs/rooms.md): one order for all, nothing lost or doubled for those
//! who were there, nothing accepted that is neither in the room nor returned, and in the end
//! everybody is told the same of who is there.

use super::View;
use crate::history::record::Fate;
use std::collections::HashMap;

/// By what was said: where it is in the room's archive.
fn places(view: &View<'_>) -> HashMap<usize, usize> {
    let archive = view.history.room_archive.iter().enumerate();
    archive.map(|(place, number)| (*number, place)).collect()
}

pub(super) fn what_was_said_is_in_the_room_once(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let places = places(view);
    if places.len() != view.history.room_archive.len() {
        found.push("the room has something twice".to_owned());
    }
    for (number, said) in view.history.said.iter().enumerate() {
        let name = &view.finals[said.device].name;
        match (said.fate, places.contains_key(&number)) {
            (Fate::Accepted, false) => {
                found.push(format!(
                    "r{number} of {name} was acknowledged and is not in the room"
                ));
            }
            (Fate::Refused, true) => {
                found.push(format!("r{number} of {name} came back and is in the room"));
            }
            _ => {}
        }
    }
    found
}

pub(super) fn occupants_hear_all_of_it_in_one_order(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let places = places(view);
    for (session, chain) in view.chains() {
        let name = view.name(chain);
        for heard in &chain.heard {
            for pair in heard.windows(2) {
                let (first, second) = (places.get(&pair[0]), places.get(&pair[1]));
                if first
                    .zip(second)
                    .is_none_or(|(first, second)| first + 1 != *second)
                {
                    found.push(format!(
                        "{name} heard r{} behind r{} in session {session}, at {second:?} \
                         and {first:?}",
                        pair[1], pair[0]
                    ));
                }
            }
        }
        let is_last = view.finals[chain.device].chain == Some(session);
        let heard = chain.heard.last().filter(|_| is_last && chain.is_managed);
        let last = heard.and_then(|heard| heard.last());
        let end = view.history.room_archive.last();
        if last.is_some() && last != end {
            found.push(format!(
                "{name} heard up to {last:?} in session {session}, not {end:?}"
            ));
        }
    }
    found
}

pub(super) fn everybody_is_told_who_is_there(view: &View<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let all = view.finals.iter().filter(|end| end.there.is_some());
    let nicks: Vec<String> = all.clone().map(|end| end.name.replace('/', "-")).collect();
    for end in all {
        let told: Vec<&String> = end.there.iter().flat_map(|there| there.iter()).collect();
        let mut expected: Vec<&String> = nicks.iter().collect();
        expected.sort();
        if told != expected {
            let name = &end.name;
            found.push(format!(
                "{name} was told that {told:?} are there, and {expected:?} are"
            ));
        }
    }
    found
}
