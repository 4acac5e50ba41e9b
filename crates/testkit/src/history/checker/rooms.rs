//! What must hold of the room (docs/rooms.md): one order for all, nothing lost or doubled for those
//! who were there, nothing accepted that is neither in the room nor returned, and in the end
//! everybody is told the same of who is there.

use super::View;
use crate::history::record::{Fate, Life};
use std::collections::{HashMap, HashSet};

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

/// That a session hears all in the room's order, without a gap, is for members as for occupants:
/// above. What his sessions were given together is everything since he became a member, and nothing
/// again that was acknowledged, unless the server was killed since.
pub(super) fn members_who_are_away_are_given_all_of_it(view: &View<'_>) -> Vec<String> {
    let (Some(user), Some(since)) = (view.rules.absent, view.history.member_since) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut given = HashSet::new();
    // By what was said: when its acknowledgement was confirmed.
    let mut confirmed: HashMap<usize, Life> = HashMap::new();
    for (session, chain) in view.chains() {
        if view.finals[chain.device].user != user {
            continue;
        }
        let heard = chain.heard.concat();
        for (number, life) in heard.iter().zip(&chain.heard_at) {
            given.insert(*number);
            let before = confirmed.get(number);
            if before.is_some_and(|before| view.history.is_same_life(*before, *life)) {
                found.push(format!(
                    "the member u{user} was given r{number} again in session {session} after he \
                     acknowledged it"
                ));
            }
        }
        let done = chain.heard_confirmed.min(heard.len());
        confirmed.extend(
            heard[..done]
                .iter()
                .map(|number| (*number, chain.confirmed_at)),
        );
    }
    for number in &view.history.room_archive {
        if *number >= since && !given.contains(number) {
            found.push(format!("the member u{user} was never given r{number}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::checker::{Final, Rules};
    use crate::history::record::{Chain, History};

    /// What is wrong if the room has r0 to r3 and a member since r1 was given this in sessions, of
    /// which so many are known to be acknowledged.
    fn findings(sessions: &[(&[usize], usize)]) -> Vec<String> {
        let mut history = History::new(1);
        history.room_archive = vec![0, 1, 2, 3];
        history.member_since = Some(1);
        for (heard, confirmed) in sessions {
            history.chains.push(Chain {
                is_managed: true,
                heard: vec![heard.to_vec()],
                heard_at: vec![Life::default(); heard.len()],
                heard_confirmed: *confirmed,
                ..Chain::new(0, false)
            });
        }
        let known = HashSet::new();
        let finals = [Final {
            user: 0,
            is_managed: true,
            name: "u0/d0".to_owned(),
            chain: None,
            known: &known,
            there: None,
        }];
        let rules = Rules {
            has_ordered_ids: true,
            may_refuse: false,
            absent: Some(0),
            ranges_move: false,
        };
        let view = View::new(&history, &finals, rules);
        let mut found = occupants_hear_all_of_it_in_one_order(&view);
        found.extend(members_who_are_away_are_given_all_of_it(&view));
        found
    }

    #[test]
    fn a_member_may_be_given_again_what_nobody_knows_him_to_have() {
        assert_eq!(findings(&[(&[1, 2, 3], 3)]), Vec::<String>::new());
        assert_eq!(findings(&[(&[0, 1, 2, 3], 0)]), Vec::<String>::new());
        assert_eq!(
            findings(&[(&[1, 2], 1), (&[2, 3], 0)]),
            Vec::<String>::new()
        );
        for wrong in [
            &[(&[1, 2][..], 2)][..],
            &[(&[2, 3], 0)],
            &[(&[1, 2], 2), (&[2, 3], 0)],
            &[(&[1, 3, 2], 0)],
            &[(&[1, 2, 2, 3], 0)],
            &[],
        ] {
            assert!(!findings(wrong).is_empty(), "{wrong:?}");
        }
    }
}
