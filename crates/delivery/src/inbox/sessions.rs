//! The sessions of one user by number: a few, in no more memory than they need.

use super::session::Session;
use crate::place::SessionNumber;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sessions<L> {
    /// By number.
    all: Vec<(SessionNumber, Session<L>)>,
}

impl<L> FromIterator<(SessionNumber, Session<L>)> for Sessions<L> {
    fn from_iter<I: IntoIterator<Item = (SessionNumber, Session<L>)>>(sessions: I) -> Self {
        let mut all: Vec<_> = sessions.into_iter().collect();
        all.sort_by_key(|(number, _)| *number);
        all.shrink_to_fit();
        Sessions { all }
    }
}

impl<L> Sessions<L> {
    fn find(&self, session: SessionNumber) -> Result<usize, usize> {
        self.all.binary_search_by_key(&session, |(own, _)| *own)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of the session at this place of the list.
    pub(crate) fn at(&self, at: usize) -> SessionNumber {
        self.all[at].0
    }

    pub(crate) fn get(&self, session: SessionNumber) -> Option<&Session<L>> {
        let at = self.find(session).ok()?;
        Some(&self.all[at].1)
    }

    pub(crate) fn get_mut(&mut self, session: SessionNumber) -> Option<&mut Session<L>> {
        let at = self.find(session).ok()?;
        Some(&mut self.all[at].1)
    }

    /// Adds a session, in the place of one with its number.
    pub(crate) fn put(&mut self, session: SessionNumber, own: Session<L>) {
        match self.find(session) {
            Ok(at) => self.all[at].1 = own,
            Err(at) => {
                self.all.reserve_exact(1);
                self.all.insert(at, (session, own));
            }
        }
    }

    pub(crate) fn remove(&mut self, session: SessionNumber) -> Option<Session<L>> {
        let at = self.find(session).ok()?;
        let (_, own) = self.all.remove(at);
        self.all.shrink_to_fit();
        Some(own)
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Session<L>) -> bool) {
        self.all.retain(|(_, own)| is_kept(own));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionNumber, &Session<L>)> + Clone {
        self.all.iter().map(|(session, own)| (*session, own))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SessionNumber, &mut Session<L>)> {
        self.all.iter_mut().map(|(session, own)| (*session, own))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Session<L>> + Clone {
        self.all.iter().map(|(_, own)| own)
    }
}
