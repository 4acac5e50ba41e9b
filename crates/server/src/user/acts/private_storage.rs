//! XEP-0049 Private XML Storage: one element for each name and namespace, for the owner's eyes.

use actor::Context;
use net::ConnRef;
use store::Record;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::{Condition, StanzaError};

use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::message::credit::Debt;
use crate::modules::bookmarks;
use crate::modules::private_storage::NS;
use crate::user::{User, storage};

/// Elements that one set may store.
const ELEMENTS_MAX: usize = 16;

pub(super) fn query(
    user: &mut User,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if !request.asker.is_owner() {
        return Answer::error(Condition::Forbidden);
    }
    if request.is_set {
        set(user, request, cx)
    } else {
        get(user, request, cx)
    }
}

fn get(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    let mut elements = request.payload.children();
    let (Some(element), None) = (elements.next(), elements.next()) else {
        // Section 3: exactly one element names what is wanted.
        return Answer::error(Condition::BadRequest);
    };
    let (name, ns) = (element.name().to_owned(), element.ns().to_owned());
    if bookmarks::is_storage(&name, &ns)
        && let Some(answer) = user.show_bookmarks(request, cx)
    {
        return answer;
    }
    let owner = user.name.clone();
    user.ask_store(request, cx, move |store| {
        let stored = store
            .private(&owner, &ns, &name)
            .map_err(|_| StanzaError::new(Condition::InternalServerError))?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", NS);
        match &stored {
            Some(xml) => writer.raw(xml),
            None => writer.open(&name).attr("xmlns", &ns).close(),
        };
        writer.close();
        Ok(out)
    })
}

fn set(user: &mut User, request: &Request<'_>, cx: &mut Context<'_, UserMsg>) -> Answer {
    let Some(conn) = request.asker.conn() else {
        return Answer::error(Condition::Forbidden);
    };
    set_now(user, (request.frame, conn), || request.take_debt(), cx)
}

/// Carries out the set of a session, or lets it wait until it is known what there is. If it is
/// answered later, the credit of the stanza is taken.
pub(crate) fn set_now(
    user: &mut User,
    (set, conn): (&Frame, ConnRef),
    take_debt: impl FnOnce() -> Option<Debt>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    if user.storage().is_known() {
        return set_known(user, set, take_debt, cx);
    }
    // Whether there is room has to be read first.
    match user.wait_for_storage(set.clone(), conn, take_debt, cx) {
        true => Answer::Later,
        false => Answer::error(Condition::ResourceConstraint),
    }
}

/// Stores the elements of a set, now that it is known what there is.
fn set_known(
    user: &mut User,
    set: &Frame,
    take_debt: impl FnOnce() -> Option<Debt>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    let limits = user.home.limits();
    let elements: Vec<_> = crate::iq::payload(set)
        .iter()
        .flat_map(xml::Child::children)
        .collect();
    if elements.is_empty() || elements.len() > ELEMENTS_MAX {
        return Answer::error(Condition::BadRequest);
    }
    for element in &elements {
        if matches!(element.ns(), "jabber:client" | NS | "") {
            // Section 3: the element needs a namespace of its own.
            return Answer::error(Condition::NotAcceptable);
        }
        if element.as_bytes().len() > limits.private_bytes_max as usize {
            return StanzaError::new(Condition::NotAcceptable)
                .with_text("The element is too large to be stored.")
                .into();
        }
    }
    if !user.storage().is_known() {
        return Answer::error(Condition::InternalServerError);
    }
    let bytes = elements
        .iter()
        .map(|element| element.as_bytes().len())
        .sum();
    if !user.may_store(bytes, cx) {
        return storage::full().into();
    }
    let sizes = elements.iter().map(|element| {
        let key = (element.ns().to_owned(), element.name().to_owned());
        (key, element.as_bytes().len())
    });
    let sizes = sizes.collect();
    if !user
        .storage()
        .replace(sizes, limits.private_total_bytes_max)
    {
        return StanzaError::new(Condition::ResourceConstraint)
            .with_text("The private storage of this account is full.")
            .into();
    }
    let records = elements.iter().map(|element| Record::PrivatePut {
        user: String::from(&*user.name),
        ns: element.ns().to_owned(),
        name: element.name().to_owned(),
        xml: element.as_bytes().to_vec(),
    });
    let records: Vec<Record> = records.collect();
    let is_list = |element: &&Frame| bookmarks::is_storage(element.name(), element.ns());
    if let Some(list) = elements.iter().rfind(is_list)
        && user.converts_bookmarks()
    {
        user.store_bookmarks(set, list.as_bytes(), (records, take_debt()), cx);
        return Answer::Later;
    }
    for record in records {
        user.record(record);
    }
    Answer::done()
}
