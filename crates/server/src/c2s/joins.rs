//! What a connection keeps of its client's login so that another node can go on with it, and the
//! way to that node (`crate::join`).

use stdx::time::Moment;

use super::Conn;
use crate::join::{Joining, Line, Prelude};

impl Conn {
    /// What its client has said.
    pub(crate) fn take_prelude(&mut self) -> Prelude {
        std::mem::take(&mut self.attempt().prelude)
    }

    /// Nobody else has heard it.
    pub(crate) fn put_prelude(&mut self, prelude: Prelude) {
        self.attempt().prelude = prelude;
    }

    /// Looks for a node that goes on with it as this user's: since when.
    pub(crate) fn joins_since(&mut self, user: &str, now: Moment) -> Moment {
        let joins = &mut self.attempt().joins;
        joins.get_or_insert_with(|| (user.into(), now)).1
    }

    /// Keeps what the node was told that goes on with it, for another one.
    pub(crate) fn set_joining(&mut self, joining: Joining) {
        self.attempt().joining = Some(Box::new(joining));
    }

    /// The same, once.
    pub(crate) fn take_joining(&mut self) -> Option<Box<Joining>> {
        self.login.take()?.joining
    }

    /// Another node goes on with it.
    pub(crate) fn set_line(&mut self, line: Line) {
        self.attempt().line = Some(Box::new(line));
    }

    /// The way to the node that goes on with it, once.
    pub(crate) fn take_line(&mut self) -> Option<Line> {
        self.login.as_mut()?.line.take().map(|line| *line)
    }
}
