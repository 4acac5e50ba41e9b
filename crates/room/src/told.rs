//! What presence of a room tells its recipient of himself (XEP-0045 section 15.6.2), as his home
//! reads it.

use xml::{Child, Frame};

use crate::broadcast::NS_USER;
use crate::enter::NS_MUC;

/// Status codes of those who did not leave by themselves: banned, kicked, of another affiliation,
/// in a room for members from now on, at the end of the service, lost.
const PUT_OUT: [&str; 6] = ["301", "307", "321", "322", "332", "333"];

/// Whether it has a status code: it says what became of its recipient, or of a nick.
pub fn has_status(presence: &Frame) -> bool {
    codes(presence, |_| true)
}

/// Whether it is about its recipient.
pub fn is_of_recipient(presence: &Frame) -> bool {
    codes(presence, |code| code == "110")
}

/// Whether it says that its recipient was put out (sections 8.2, 9.1 and 10.9). One that answers
/// his own leave does not: his home knows of that, and he may have entered again since.
pub fn is_put_out(presence: &Frame) -> bool {
    let is_destroyed = |x: Child<'_>| x.children().any(|child| child.name() == "destroy");
    is_of_recipient(presence)
        && (codes(presence, |code| PUT_OUT.contains(&code))
            || presence.child("x", NS_USER).is_some_and(is_destroyed))
}

/// Whether an error says that its recipient did not enter: what a room refuses to one who is there
/// has no element of those who enter.
pub fn is_refused(error: &Frame) -> bool {
    error.child("x", NS_MUC).is_some()
}

/// Whether it tells its recipient that he is not there: a refusal, or his own end. One that takes
/// another nick goes on under that.
pub fn is_not_there(presence: &Frame) -> bool {
    match presence.attr_raw("type") {
        Some("error") => true,
        Some("unavailable") => is_of_recipient(presence) && !codes(presence, |code| code == "303"),
        _ => false,
    }
}

/// Whether it has a status code like that.
fn codes(presence: &Frame, is_one: impl Fn(&str) -> bool) -> bool {
    let Some(x) = presence.child("x", NS_USER) else {
        return false;
    };
    let mut all = x.children().filter(|child| child.name() == "status");
    all.any(|child| child.attr("code").is_some_and(|code| is_one(&code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(kind: &str, parts: &str) -> Frame {
        let text = format!(
            "<presence type='{kind}'><x xmlns='http://jabber.org/protocol/muc#user'>\
             <item role='none'/>{parts}</x></presence>"
        );
        Frame::parse(text.into_bytes()).unwrap()
    }

    fn status(codes: &[u16]) -> String {
        let codes = codes.iter();
        codes
            .map(|code| format!("<status code='{code}'/>"))
            .collect()
    }

    #[test]
    fn who_left_was_kicked_or_took_another_nick_is_told_apart() {
        // Codes; of the recipient, put out, not there.
        let all: [(&[u16], [bool; 3]); 5] = [
            (&[110], [true, false, true]),
            (&[110, 307], [true, true, true]),
            (&[110, 303], [true, false, false]),
            (&[307], [false, false, false]),
            (&[], [false, false, false]),
        ];
        for (codes, expected) in all {
            let told = presence("unavailable", &status(codes));
            let is = [
                is_of_recipient(&told),
                is_put_out(&told),
                is_not_there(&told),
            ];
            assert_eq!(is, expected, "{codes:?}");
            assert_eq!(has_status(&told), !codes.is_empty(), "{codes:?}");
        }
        let destroyed = format!("{}<destroy/>", status(&[110]));
        assert!(is_put_out(&presence("unavailable", &destroyed)));
    }

    #[test]
    fn an_error_says_whether_it_refuses_an_entry() {
        let error = |x: &str| {
            Frame::parse(format!("<presence type='error'>{x}<error/></presence>").into_bytes())
                .unwrap()
        };
        let (entry, nick) = (
            error("<x xmlns='http://jabber.org/protocol/muc'/>"),
            error(""),
        );
        assert!(is_refused(&entry) && !is_refused(&nick));
        assert!(is_not_there(&entry) && is_not_there(&nick));
        assert!(!is_not_there(&presence("", &status(&[110]))));
    }
}
