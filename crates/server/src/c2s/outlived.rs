//! A client's stream whose session outlived the home of its account: how it goes on at this one,
//! and what is noted of a stream so that it can outlive this home too (`crate::join`).

use actor::Mail as _;
use net::Cx;
use wire::Kind;
use xml::Frame;

use super::{Attempt, C2sService, Conn};
use crate::lines::{Marks, lost_answer};
use crate::message::UserMsg;
use crate::message::control::TakenOver;

impl C2sService {
    /// Notes something of a client that is at another node.
    pub(crate) fn mark(&self, cx: &Cx<'_>, conn: &Conn, note: impl FnOnce(&mut Marks)) {
        if conn.is_far {
            self.home.lines.mark(cx.id(), note);
        }
    }

    /// A stanza came once more that the home before this one has handled. Who made a request that
    /// was not answered there is told so.
    pub(super) fn skip_stanza(&self, cx: &mut Cx<'_>, conn: &mut Conn, stanza: Option<&Frame>) {
        let (id, end) = (cx.id(), self.heard);
        if self.home.lines.comes_again(id, stanza, end) {
            let answer = stanza.filter(|_| self.hears_of_answers());
            let lost = answer.and_then(lost_answer).zip(conn.user);
            let is_sent = lost.is_some_and(|(answer, user)| {
                let lost = UserMsg::LostAnswer { conn: id, answer };
                cx.mail().send(user, lost).is_ok()
            });
            if !is_sent {
                self.home.lines.answers_not(id);
            }
        }
        let Some(login) = &mut conn.login else { return };
        login.skip = login.skip.saturating_sub(1);
        if login.skip == 0 {
            conn.login = None;
            let heard = self.heard;
            self.mark(cx, conn, |marks| marks.skipped(heard));
        }
    }

    /// Whether edges say which requests were answered. Others may have been, too, where they do
    /// not.
    fn hears_of_answers(&self) -> bool {
        let cluster = self.home.options.cluster.as_ref();
        cluster.is_some_and(|cluster| {
            wire::version_at(cluster.away.level()) >= Kind::JoinedMarkedAnswers.since()
        })
    }

    /// A session that outlived its home goes on; its client's next stanzas, so many, were handled
    /// there.
    pub(crate) fn go_on_with(
        &self,
        cx: &mut Cx<'_>,
        conn: &mut Conn,
        TakenOver { session, .. }: TakenOver,
        skip: u32,
    ) {
        let (full, user) = session;
        conn.machine.resumed(Some(full));
        conn.user = Some(user);
        conn.login = (skip > 0).then(|| {
            Box::new(Attempt {
                skip,
                ..Attempt::default()
            })
        });
        conn.is_managed = true;
        self.deadline_of_session(cx);
        Self::pause_or_resume(cx, conn);
    }
}

impl Conn {
    /// Whether the next stanza comes once more.
    pub(super) fn skips(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.skip > 0)
    }

    /// Whether it has a session.
    pub(crate) fn has_session(&self) -> bool {
        self.user.is_some()
    }

    /// The account of its session.
    pub(crate) fn user_name(&self) -> &str {
        let full = self.machine.full_jid();
        full.map_or("", |full| crate::address::bare(full))
    }
}
