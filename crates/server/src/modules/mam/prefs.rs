//! What a user wants archived (XEP-0441 Message Archive Management Preferences 0.2).

use minidom::Element;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};

use super::NS;

/// Addresses on both lists together.
const ADDRESSES_MAX: usize = 1_000;

/// Whose messages are archived if no list names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Others {
    /// Everybody's.
    #[default]
    Always,
    /// Nobody's.
    Never,
    /// Those of contacts.
    Roster,
}

/// A user's preferences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prefs {
    /// Those whom no list names.
    pub others: Others,
    /// Normalised addresses; a bare one stands for all its resources.
    pub always: Vec<String>,
    /// As above. It wins over the other list.
    pub never: Vec<String>,
}

impl Prefs {
    /// Reads `<prefs/>` of a set, or what [`Prefs::write`] wrote.
    ///
    /// # Errors
    /// `bad-request`, `jid-malformed`, and `resource-constraint` for too many addresses.
    pub(crate) fn parse(prefs: &Element) -> Result<Prefs, StanzaError> {
        let others = match prefs.attr("default") {
            Some("always") => Others::Always,
            Some("never") => Others::Never,
            Some("roster") => Others::Roster,
            _ => {
                let error = StanzaError::new(Condition::BadRequest);
                return Err(error.with_text("The default is one of always, never and roster."));
            }
        };
        let (always, never) = (addresses(prefs, "always")?, addresses(prefs, "never")?);
        if always.len() + never.len() > ADDRESSES_MAX {
            return Err(StanzaError::new(Condition::ResourceConstraint)
                .with_text("There are too many addresses."));
        }
        Ok(Prefs {
            others,
            always,
            never,
        })
    }

    /// Writes `<prefs/>`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.open("prefs").attr("xmlns", NS);
        writer.attr(
            "default",
            match self.others {
                Others::Always => "always",
                Others::Never => "never",
                Others::Roster => "roster",
            },
        );
        for (name, list) in [("always", &self.always), ("never", &self.never)] {
            writer.open(name);
            for jid in list {
                writer.open("jid").text(jid).close();
            }
            writer.close();
        }
        writer.close();
    }

    /// Whether a message from or to `peer`, a normalised address, is archived.
    pub(crate) fn archives(&self, peer: &str, is_contact: bool) -> bool {
        let bare = addr::bare_part(peer);
        let names = |list: &[String]| list.iter().any(|jid| jid == peer || jid == bare);
        if names(&self.never) {
            return false;
        }
        names(&self.always)
            || match self.others {
                Others::Always => true,
                Others::Never => false,
                Others::Roster => is_contact,
            }
    }
}

fn addresses(prefs: &Element, name: &str) -> Result<Vec<String>, StanzaError> {
    let Some(list) = prefs.get_child(name, NS) else {
        return Ok(Vec::new());
    };
    let jids = list.children().filter(|child| child.is("jid", NS));
    let mut addresses: Vec<String> = Vec::new();
    for jid in jids.take(ADDRESSES_MAX + 1) {
        let jid = jid.text();
        let jid = addr::normalize(jid.trim());
        let jid = jid.map_err(|_| StanzaError::new(Condition::JidMalformed))?;
        addresses.push(jid.into_owned());
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(prefs: &str) -> Result<Prefs, Condition> {
        let prefs = prefs.replacen("<prefs", "<prefs xmlns='urn:xmpp:mam:2'", 1);
        Prefs::parse(&prefs.parse().unwrap()).map_err(|error| error.condition)
    }

    #[test]
    fn preferences_come_back_as_they_were_set() {
        let prefs = "<prefs default='roster'><always><jid>Romeo@Montague.lit</jid></always>\
                     <never><jid>a@b/C</jid><jid>a@b/C</jid><jid>a@b</jid></never></prefs>";
        let prefs = parse(prefs).unwrap();
        assert_eq!(prefs.always, ["romeo@montague.lit"]);
        assert_eq!(prefs.never, ["a@b", "a@b/C"]);
        let mut out = Vec::new();
        prefs.write(&mut out);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(Prefs::parse(&written.parse().unwrap()).unwrap(), prefs);
    }

    #[test]
    fn preferences_that_mean_nothing_are_refused() {
        assert_eq!(parse("<prefs/>"), Err(Condition::BadRequest));
        assert_eq!(
            parse("<prefs default='sometimes'/>"),
            Err(Condition::BadRequest)
        );
        let broken = "<prefs default='always'><never><jid>@</jid></never></prefs>";
        assert_eq!(parse(broken), Err(Condition::JidMalformed));
        let many = "<jid>a@b</jid>".repeat(ADDRESSES_MAX);
        let many = |list: &str| format!("<prefs default='always'><{list}>{many}</{list}></prefs>");
        assert!(parse(&many("never")).is_ok(), "an address counts once");
        let many: String = (0..=ADDRESSES_MAX)
            .map(|n| format!("<jid>{n}@b</jid>"))
            .collect();
        let many = format!("<prefs default='always'><never>{many}</never></prefs>");
        assert_eq!(parse(&many), Err(Condition::ResourceConstraint));
    }

    #[test]
    fn lists_win_over_the_default_and_never_over_always() {
        let prefs = |others| Prefs {
            others,
            always: vec!["a@b".to_owned(), "c@d/e".to_owned()],
            never: vec!["a@b/no".to_owned(), "x@y".to_owned()],
        };
        let never = prefs(Others::Never);
        assert!(never.archives("a@b/yes", false) && !never.archives("a@b/no", true));
        assert!(never.archives("c@d/e", false) && !never.archives("c@d/f", false));
        let always = prefs(Others::Always);
        assert!(always.archives("q@r/s", false) && !always.archives("x@y/z", true));
        let roster = prefs(Others::Roster);
        assert!(roster.archives("q@r/s", true) && !roster.archives("q@r/s", false));
    }
}
