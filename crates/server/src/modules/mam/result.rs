//! What an archive answers: entries, the end of a page, the form of a query, metadata.

use stdx::time::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::ns;

use super::{FULL_TEXT, NS, NS_RSM, id_of, self_contained};

/// Writes one entry as a message from the archive to the session that asked (XEP-0313 section 4.2).
pub(crate) fn write_result(
    (archive, to): (&str, &str),
    query_id: Option<&str>,
    (seq, at): (u64, Timestamp),
    message: &Frame,
    out: &mut Vec<u8>,
) {
    out.reserve(message.as_bytes().len() + 384);
    let mut writer = Writer::new(out);
    writer.open("message").attr("from", archive).attr("to", to);
    write_result_in(&mut writer, query_id, (seq, at), message);
    writer.close();
}

/// Writes `<result/>` of an entry.
pub(crate) fn write_result_in(
    writer: &mut Writer<'_>,
    query_id: Option<&str>,
    (seq, at): (u64, Timestamp),
    message: &Frame,
) {
    writer.open("result").attr("xmlns", NS);
    if let Some(id) = query_id {
        writer.attr("queryid", id);
    }
    writer.attr("id", &id_of(seq));
    writer.open("forwarded").attr("xmlns", ns::FORWARD);
    writer
        .open("delay")
        .attr("xmlns", ns::DELAY)
        .attr("stamp", &at.to_string())
        .close();
    writer.raw(&self_contained(message));
    writer.close().close();
}

/// The end of a page (section 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fin {
    /// Nothing is left behind it, in the direction in which it was asked for.
    pub is_complete: bool,
    /// The first and the last place on it, by age, flipped or not.
    pub ends: Option<(u64, u64)>,
    /// How many entries match in all, where that is known.
    pub count: Option<u64>,
}

/// Writes `<fin/>`.
pub(crate) fn write_fin(fin: Fin, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.open("fin").attr("xmlns", NS);
    if fin.is_complete {
        writer.attr("complete", "true");
    }
    writer.open("set").attr("xmlns", NS_RSM);
    if let Some((first, last)) = fin.ends {
        writer.open("first").text(&id_of(first)).close();
        writer.open("last").text(&id_of(last)).close();
    }
    if let Some(count) = fin.count {
        writer.open("count").text(&count.to_string()).close();
    }
    writer.close().close();
}

/// The answer to a `get`: which fields a query may have (section 4.1.5).
pub(crate) fn form() -> Vec<u8> {
    let mut out = Vec::with_capacity(640);
    let mut writer = Writer::new(&mut out);
    writer.open("query").attr("xmlns", NS);
    writer
        .open("x")
        .attr("xmlns", ns::DATA_FORMS)
        .attr("type", "form");
    writer
        .open("field")
        .attr("type", "hidden")
        .attr("var", "FORM_TYPE");
    writer.open("value").text(NS).close().close();
    for (kind, name) in [
        ("jid-single", "with"),
        ("text-single", "start"),
        ("text-single", "end"),
        ("text-single", "before-id"),
        ("text-single", "after-id"),
        ("text-single", FULL_TEXT),
    ] {
        writer
            .open("field")
            .attr("type", kind)
            .attr("var", name)
            .close();
    }
    writer
        .open("field")
        .attr("type", "list-multi")
        .attr("var", "ids");
    // XEP-0122: any id may be named, and they are not listed here.
    writer
        .open("validate")
        .attr("xmlns", "http://jabber.org/protocol/xdata-validate")
        .attr("datatype", "xs:string");
    writer.open("open").close().close().close();
    writer.close().close();
    out
}

/// `<metadata/>` (section 5): the first and the last entry, if there is any.
pub(crate) fn metadata(ends: Option<[(u64, Timestamp); 2]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(192);
    let mut writer = Writer::new(&mut out);
    writer.open("metadata").attr("xmlns", NS);
    for (name, (seq, at)) in ["start", "end"].into_iter().zip(ends.into_iter().flatten()) {
        writer
            .open(name)
            .attr("id", &id_of(seq))
            .attr("timestamp", &at.to_string())
            .close();
    }
    writer.close();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_278_803_305_000);

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        Frame::parse(out.clone()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_entry_is_a_message_in_a_message() {
        let message = Frame::parse("<message from='a@b/c' to='d@e'><body>Hail</body></message>");
        let message = message.unwrap();
        let ends = ("d@e", "d@e/f");
        assert_eq!(
            text(|out| write_result(ends, Some("f'27"), (42, AT), &message, out)),
            "<message from='d@e' to='d@e/f'><result xmlns='urn:xmpp:mam:2' queryid='f&apos;27' \
             id='000000000000002a'><forwarded xmlns='urn:xmpp:forward:0'>\
             <delay xmlns='urn:xmpp:delay' stamp='2010-07-10T23:08:25Z'/>\
             <message from='a@b/c' to='d@e' xmlns='jabber:client'><body>Hail</body></message>\
             </forwarded></result></message>"
        );
        let without = text(|out| write_result(ends, None, (1, AT), &message, out));
        assert!(without.contains("<result xmlns='urn:xmpp:mam:2' id='0000000000000001'>"));
    }

    #[test]
    fn the_end_says_where_it_is() {
        let fin = Fin {
            is_complete: true,
            ends: Some((1, 16)),
            count: Some(20),
        };
        assert_eq!(
            text(|out| write_fin(fin, out)),
            "<fin xmlns='urn:xmpp:mam:2' complete='true'>\
             <set xmlns='http://jabber.org/protocol/rsm'><first>0000000000000001</first>\
             <last>0000000000000010</last><count>20</count></set></fin>"
        );
        assert_eq!(
            text(|out| write_fin(Fin::default(), out)),
            "<fin xmlns='urn:xmpp:mam:2'><set xmlns='http://jabber.org/protocol/rsm'/></fin>"
        );
    }

    #[test]
    fn the_form_has_the_fields_that_are_understood() {
        let form = text(|out| out.extend(form()));
        for field in [
            "FORM_TYPE",
            "with",
            "start",
            "end",
            "before-id",
            "after-id",
            FULL_TEXT,
            "ids",
        ] {
            assert!(form.contains(&format!("var='{field}'")), "{field}");
        }
    }

    #[test]
    fn metadata_names_both_ends() {
        assert_eq!(
            text(|out| out.extend(metadata(Some([(1, AT), (2, AT)])))),
            "<metadata xmlns='urn:xmpp:mam:2'>\
             <start id='0000000000000001' timestamp='2010-07-10T23:08:25Z'/>\
             <end id='0000000000000002' timestamp='2010-07-10T23:08:25Z'/></metadata>"
        );
        assert_eq!(
            text(|out| out.extend(metadata(None))),
            "<metadata xmlns='urn:xmpp:mam:2'/>"
        );
    }
}
