//! The archive of a room (XEP-0313): the room's log, for those who may enter it. Who is behind a
//! nick nobody learns from it: entries are as they were sent to all, and there is no search by real
//! address.

use actor::{Context, Mail};
use room::{Affiliation, Room};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::{RoomActor, RoomMsg};
use crate::address;
use crate::guard::Charge;
use crate::iq::{self, Answer, Found, reply_of};
use crate::leaving::Out;
use crate::message::credit::Debt;
use crate::message::{Delivery, UserMsg};
use crate::modules::archive::{Of, ends, page};
use crate::modules::mam::{self, Query};

/// A page that was read.
pub struct Page {
    request: Frame,
    /// Entries, and what the answer says of them.
    found: Result<(Vec<Frame>, Vec<u8>), StanzaError>,
    /// Its reader may send another stanza when this is repaid.
    debt: Option<Box<Debt>>,
    /// What its reader's address is charged until his connection has taken it.
    charge: Charge,
}

/// What is asked of the store.
enum Asked {
    /// A page of results.
    Page(Box<Query>),
    /// Where the archive begins and ends (XEP-0313 section 5).
    Ends,
}

impl RoomActor {
    /// Whether a stanza is a question to the archive.
    pub(super) fn asks_archive(&self, frame: &Frame) -> bool {
        let is_question = frame.name() == "iq"
            && matches!(frame.attr_raw("type"), Some("get" | "set"))
            && frame.attr("to").as_deref() == Some(&*self.life.name);
        let is_there = self
            .room
            .as_ref()
            .is_some_and(|room| room.state().is_some());
        let payload = iq::payload(frame).filter(|_| is_question && is_there);
        payload.is_some_and(|payload| payload.ns() == mam::NS)
    }

    pub(super) fn ask_archive(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let Delivery { stanza, debt } = delivery;
        let frame = stanza.frame;
        let answer = match self.archive_answer(&frame, debt, cx) {
            Ok(answer) => answer,
            Err(condition) => Answer::error(condition),
        };
        self.life
            .leaving
            .extend(reply_of(&frame, answer).map(Out::One));
        self.life.leave_on(cx);
    }

    /// Whether somebody may read what was said: whoever may know what goes on there.
    fn may_read(&self, from: &str) -> Result<(), Condition> {
        let state = self.room.as_ref().and_then(Room::state);
        let state = state.ok_or(Condition::ItemNotFound)?;
        let affiliation = state.affiliation(address::bare(from));
        if state.is_locked && affiliation != Affiliation::Owner {
            return Err(Condition::ItemNotFound);
        }
        let room = self.room.as_ref();
        let may_follow = room.is_some_and(|room| room.may_follow(from));
        may_follow.then_some(()).ok_or(Condition::Forbidden)
    }

    fn archive_answer(
        &mut self,
        frame: &Frame,
        debt: Option<Box<Debt>>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<Answer, Condition> {
        let from = frame.attr("from").unwrap_or_default().into_owned();
        self.may_read(&from)?;
        let asked = match self.asked(frame) {
            Ok(asked) => asked,
            Err(answer) => return Ok(answer),
        };
        if self.pages >= self.life.home.options.rooms.pages_at_once {
            cx.stats().count(Counter::QuestionsRefused);
            return Err(Condition::ResourceConstraint);
        }
        let reader = debt.as_ref().and_then(|debt| debt.from());
        let Some(charge) = self.life.home.charge(reader, cx) else {
            return Err(Condition::ResourceConstraint);
        };
        let (store, name, request) = (
            self.life.home.store.clone(),
            self.life.name.clone(),
            frame.clone(),
        );
        let searched_max = self.life.home.options.archive.searched_max;
        let read = move || {
            let found = match &asked {
                Asked::Page(query) => page(&store, (&name, &from), query, (Of::Room, searched_max)),
                Asked::Ends => ends(&store, &name).map(|ends| (Vec::new(), ends)),
            };
            Box::new(Page {
                request,
                found: found.map(parsed),
                debt,
                charge,
            })
        };
        let map = |page| UserMsg::own(RoomMsg::Page(page));
        if cx.blocking(&self.life.home.later_reads, read, map).is_err() {
            return Err(Condition::ResourceConstraint);
        }
        self.pages += 1;
        Ok(Answer::Later)
    }

    /// What a question wants to know, or what it is answered without the store.
    fn asked(&self, frame: &Frame) -> Result<Asked, Answer> {
        let bad = || Answer::error(Condition::BadRequest);
        let payload = iq::payload(frame).ok_or_else(bad)?;
        let is_get = frame.attr_raw("type") == Some("get");
        match (payload.name(), is_get) {
            ("query" | "metadata", _) if !self.has_archive() => {
                Err(Answer::error(Condition::ServiceUnavailable))
            }
            ("query", true) => Err(Answer::Result(mam::form())),
            ("query", false) => {
                let query = Query::parse(&payload.to_xml().parse().map_err(|_| bad())?)?;
                let is_own = |with: &String| address::bare(with) == &*self.life.name;
                match query.filter.with.as_ref().is_none_or(is_own) {
                    true => Ok(Asked::Page(Box::new(query))),
                    false => Err(Answer::error(Condition::FeatureNotImplemented)),
                }
            }
            ("metadata", true) => Ok(Asked::Ends),
            ("metadata", false) => Err(bad()),
            _ => Err(Answer::error(Condition::ServiceUnavailable)),
        }
    }

    /// Whether what is said here is kept.
    fn has_archive(&self) -> bool {
        let state = self.room.as_ref().and_then(Room::state);
        self.life.home.options.archive.enabled
            && state.is_some_and(|state| state.config.is_persistent)
    }

    /// A page was read: it goes out, unless its reader may not read any more.
    pub(super) fn page_read(&mut self, page: Page, cx: &mut Context<'_, UserMsg>) {
        self.pages = self.pages.saturating_sub(1);
        let Page {
            request,
            found,
            mut debt,
            charge,
        } = page;
        let from = request.attr("from").unwrap_or_default().into_owned();
        let allowed = self.may_read(&from).map_err(StanzaError::new);
        let mut bytes = 0;
        let answer = match allowed.and(found) {
            Ok((leading, payload)) => {
                bytes = leading.iter().map(|frame| frame.as_bytes().len()).sum();
                self.life.leaving.extend(leading.into_iter().map(Out::One));
                Answer::Result(payload)
            }
            Err(error) => error.into(),
        };
        if let Some(reply) = reply_of(&request, answer) {
            bytes += reply.as_bytes().len();
            if let Some(debt) = &mut debt {
                debt.answered(charge, bytes);
            }
            self.life.leaving.push(Out::Answer(reply, debt));
        }
        self.life.leave_on(cx);
    }
}

/// Parsed where they were read: on a shard a page of large entries would keep others waiting.
fn parsed((leading, payload): Found) -> (Vec<Frame>, Vec<u8>) {
    let frames = leading.into_iter().map(Frame::parse);
    (frames.filter_map(Result::ok).collect(), payload)
}
