//! Requests that an account answers as a part of what it is: rosters, presence, nodes. What they
//! are called and announce is in `modules/`; a file here has what the account does.

mod blocking;
mod disco;
pub(crate) mod private_storage;
mod register;
pub(crate) mod roster;
mod vcard;

use actor::Context;

use super::User;
use crate::iq::{Answer, Request};
use crate::message::UserMsg;
use crate::modules::Act;

/// Answers a request.
pub(super) fn answer(
    user: &mut User,
    act: Act,
    request: &Request<'_>,
    cx: &mut Context<'_, UserMsg>,
) -> Answer {
    match act {
        Act::AccountInfo => disco::account_info(user, request, cx),
        Act::AccountItems => disco::account_items(user, request, cx),
        Act::Block => blocking::block(user, request, cx),
        Act::Blocklist => blocking::list(user, request),
        Act::Nodes => user.ask_nodes(request, cx),
        Act::PrivateStorage => private_storage::query(user, request, cx),
        Act::Register => register::query(user, request, cx),
        Act::Roster => roster::query(user, request, cx),
        Act::Unblock => blocking::unblock(user, request, cx),
        Act::VCard => vcard::vcard(user, request, cx),
    }
}
