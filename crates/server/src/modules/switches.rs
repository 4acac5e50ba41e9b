//! Which extensions are on. Owns their names and what goes off with another one. What an extension
//! that is off does not do is in its own file, or in the actor that performs it.

use super::{MODULES, Module};
use crate::options::{Options, Switches};

/// Who decides whether an extension is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The operator, in section `[modules]`.
    ByOperator,
    /// Nobody: other parts of the server rest on it. The reason completes "is always on: ".
    Always(&'static str),
}

/// A name that nobody can switch off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSwitched {
    /// No extension has it.
    #[error("there is no extension {0}")]
    Unknown(String),
    /// The extension is always on, for the reason given.
    #[error("{0} is always on: {1}")]
    Always(&'static str, &'static str),
}

impl Switches {
    /// All but those with these names, and those that need one of them.
    ///
    /// # Errors
    /// A name is unknown, or its extension is always on.
    pub fn without<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Switches, NotSwitched> {
        let mut switches = Switches::default();
        for name in names {
            let module = MODULES.iter().find(|module| module.name == name);
            let module = module.ok_or_else(|| NotSwitched::Unknown(name.to_owned()))?;
            if let Switch::Always(why) = module.switch {
                return Err(NotSwitched::Always(module.name, why));
            }
            switches.turn_off(module);
        }
        Ok(switches)
    }

    /// Turns off an extension and, one after the other, those that need it.
    pub(crate) fn turn_off(&mut self, module: &Module) {
        if !self.has(module) {
            return;
        }
        self.off.push(module.name);
        for other in MODULES {
            if other.needs.contains(&module.name) {
                self.turn_off(other);
            }
        }
    }

    /// Whether an extension is on.
    pub fn has(&self, module: &Module) -> bool {
        !self.off.contains(&module.name)
    }

    /// The extensions that are on, in the order of [`MODULES`].
    pub fn modules(&self) -> impl Iterator<Item = &'static Module> {
        MODULES.iter().copied().filter(|module| self.has(module))
    }

    /// Extensions that are off, each with the one that it needs and that is off too, if that is
    /// why.
    pub fn off(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        let off = MODULES.iter().filter(|module| !self.has(module));
        off.map(|module| {
            let mut needs = module.needs.iter().copied();
            (module.name, needs.find(|need| self.off.contains(need)))
        })
    }
}

impl Options {
    /// Makes [`Options::modules`] and the extensions' own options say the same: what is off in one
    /// place is off in the other.
    pub(crate) fn settle_modules(&mut self) {
        if !self.archive.enabled {
            self.modules.turn_off(&super::archive::MODULE);
        }
        if !self.pep.enabled {
            // Both convert to and from nodes of accounts.
            self.modules.turn_off(&super::avatar::MODULE);
            self.modules.turn_off(&super::bookmarks::MODULE);
        }
        let on = &self.modules;
        self.archive.enabled = on.has(&super::archive::MODULE);
        self.registration_enabled &= on.has(&super::register::MODULE);
        self.pep.enabled &= on.has(&super::pubsub::MODULE);
        if !on.has(&super::pubsub::MODULE) {
            self.pubsub.hosts.clear();
        }
        if !on.has(&super::rooms::MODULE) {
            self.rooms.hosts.clear();
            self.rooms.search_hosts.clear();
        }
        if !on.has(&super::directory::MODULE) {
            self.directory.hosts.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn off(names: &[&'static str]) -> Vec<(&'static str, Option<&'static str>)> {
        Switches::without(names.iter().copied())
            .expect("known names")
            .off()
            .collect()
    }

    #[test]
    fn names_are_known_once_and_so_is_what_they_need() {
        for (at, module) in MODULES.iter().enumerate() {
            assert!(MODULES[..at].iter().all(|other| other.name != module.name));
            for need in module.needs {
                let needed = MODULES.iter().find(|other| other.name == *need);
                let needed = needed.expect("it is one of them");
                assert_eq!(needed.switch, Switch::ByOperator, "{need}");
                assert_eq!(module.switch, Switch::ByOperator, "{}", module.name);
            }
        }
    }

    #[test]
    fn what_needs_an_extension_goes_off_with_it() {
        assert_eq!(off(&[]), []);
        assert_eq!(off(&["ping"]), [("ping", None)]);
        assert_eq!(
            off(&["vcard"]),
            [("avatar", Some("vcard")), ("vcard", None)]
        );
        let all = [
            ("avatar", Some("pubsub")),
            ("bookmarks", Some("pubsub")),
            ("directory", Some("disco")),
            ("disco", None),
            ("pubsub", Some("disco")),
            ("rooms", Some("disco")),
        ];
        assert_eq!(off(&["disco"]), all);
        assert_eq!(off(&["rooms", "disco", "disco"]).len(), all.len());
    }

    #[test]
    fn what_cannot_be_switched_off_is_refused() {
        let refused = |name| {
            Switches::without([name])
                .map(|_| ())
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            refused("pink"),
            Err("there is no extension pink".to_owned())
        );
        let always = Err("roster is always on: it is a part of RFC 6121".to_owned());
        assert_eq!(refused("roster"), always);
    }
}
