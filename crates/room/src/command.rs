//! Commands of a room (XEP-0050): those of owners that make hats and give them away (XEP-0317).
//! A command is done by one request that brings its form, or by two, of which the first asks for
//! the form; nothing is remembered in between.

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns::{self, DATA_FORMS};

use crate::affiliation::Affiliation;
use crate::form::{Form, FormWriter, Submission};
use crate::hats::{Hat, Hats};
use crate::record::Record;
use crate::room::Room;

pub(crate) const NS_COMMANDS: &str = "http://jabber.org/protocol/commands";
const FORM_TYPE: &str = "urn:xmpp:hats:commands";

const BAD_ACTION: &str = "<bad-action xmlns='http://jabber.org/protocol/commands'/>";
const MALFORMED_ACTION: &str = "<malformed-action xmlns='http://jabber.org/protocol/commands'/>";
const BAD_PAYLOAD: &str = "<bad-payload xmlns='http://jabber.org/protocol/commands'/>";

/// What an owner may want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Create,
    Destroy,
    List,
    Assign,
    Unassign,
    ListAssigned,
}

/// Their nodes, behind [`FORM_TYPE`], and what people are shown. The last two are how version 0.2
/// of XEP-0317 calls two of them.
const COMMANDS: [(&str, &str, Command); 8] = [
    ("create", "Make a hat", Command::Create),
    ("destroy", "Remove a hat", Command::Destroy),
    ("list", "List hats", Command::List),
    ("assign", "Give a hat", Command::Assign),
    ("unassign", "Take a hat", Command::Unassign),
    (
        "list-assigned",
        "List whose hats are whose",
        Command::ListAssigned,
    ),
    ("don", "Assigning a Hat", Command::Assign),
    ("doff", "Removing a Hat", Command::Unassign),
];

fn find(node: &str) -> Option<(&'static str, Command)> {
    let name = node.strip_prefix(FORM_TYPE)?.strip_prefix(':')?;
    let found = COMMANDS.iter().find(|(own, ..)| *own == name)?;
    Some((found.1, found.2))
}

/// Whether an action puts a command away; others do it.
fn is_cancelled(action: Option<&str>) -> Result<bool, StanzaError> {
    let bad = |app| Err(StanzaError::new(Condition::BadRequest).with_app(app));
    match action {
        None | Some("execute" | "complete") => Ok(false),
        Some("cancel") => Ok(true),
        Some("next" | "prev") => bad(BAD_ACTION),
        Some(_) => bad(MALFORMED_ACTION),
    }
}

fn bad_payload() -> StanzaError {
    StanzaError::new(Condition::BadRequest).with_app(BAD_PAYLOAD)
}

impl Room {
    /// `<command/>`.
    pub(crate) fn command(&mut self, frame: &Frame, is_set: bool, from: &str, now: Timestamp) {
        if let Err(error) = self.try_command(frame, is_set, from, now) {
            self.refuse_with(frame, &error);
        }
    }

    fn try_command(
        &mut self,
        frame: &Frame,
        is_set: bool,
        from: &str,
        now: Timestamp,
    ) -> Result<(), StanzaError> {
        let payload = frame.child("command", NS_COMMANDS).filter(|_| is_set);
        let payload = payload.and_then(|payload| Frame::parse(payload.to_xml()).ok());
        let payload = payload.ok_or_else(|| StanzaError::new(Condition::BadRequest))?;
        let node = payload.attr("node").unwrap_or_default();
        let (_, command) = find(&node).ok_or_else(|| StanzaError::new(Condition::ItemNotFound))?;
        if self.affiliation_of(from) != Affiliation::Owner {
            return Err(StanzaError::new(Condition::Forbidden));
        }
        let session = match payload.attr("sessionid") {
            Some(session) => session.into_owned(),
            None => self.new_execution(),
        };
        let reply = Reply {
            request: frame.clone(),
            node: node.into_owned(),
            session,
        };
        if is_cancelled(payload.attr("action").as_deref())? {
            self.reply(&reply, "canceled", &[]);
            return Ok(());
        }
        let form = payload.child("x", DATA_FORMS);
        let form = form.and_then(|x| Frame::parse(x.to_xml()).ok());
        let form = match (command, &form) {
            (Command::List | Command::ListAssigned, _) => {
                let list = self.listed_hats(command);
                self.reply(&reply, "completed", &list);
                return Ok(());
            }
            (_, None) => {
                let form = self.hat_form(command);
                self.reply(&reply, "executing", &form);
                return Ok(());
            }
            (_, Some(x)) => match Form::parse(x, FORM_TYPE) {
                Ok(Form::Submitted(form)) => Fields { form, x },
                Ok(Form::Cancelled) => {
                    self.reply(&reply, "canceled", &[]);
                    return Ok(());
                }
                Err(_) => return Err(bad_payload()),
            },
        };
        let (hats, shown) = self.changed_hats(command, &form)?;
        let then = move |room: &mut Room, _| {
            room.reply(&reply, "completed", &[]);
            room.show_hats(&shown);
        };
        if self.state.as_ref().is_some_and(|state| state.hats == hats) {
            then(self, now);
            return Ok(());
        }
        self.commit(vec![Record::Hats(Box::new(hats))], frame, now, then);
        Ok(())
    }

    /// Names an execution; of use to the one who asked alone.
    fn new_execution(&mut self) -> String {
        self.commands += 1;
        format!("{:x}", self.commands)
    }

    /// The hats as a command makes them, and whose are shown anew.
    fn changed_hats(
        &self,
        command: Command,
        form: &Fields<'_>,
    ) -> Result<(Hats, Vec<String>), StanzaError> {
        let state = self.state.as_ref();
        let mut hats = state.map(|state| state.hats.clone()).unwrap_or_default();
        let limits = &self.options.limits;
        let uri = form.one(&["hats#uri", "hat"]).ok_or_else(bad_payload)?;
        let shown = match command {
            Command::Create => {
                let title = form.one(&["hats#title"]).ok_or_else(bad_payload)?;
                let hue = form.one(&["hats#hue"]).unwrap_or_default();
                let bytes_max = limits.hat_text_bytes_max;
                if uri.len() > bytes_max || title.len() > bytes_max || !is_hue(&hue) {
                    return Err(StanzaError::new(Condition::NotAcceptable));
                }
                hats.make(&uri, Hat { title, hue });
                hats.wearers(&uri)
            }
            Command::Destroy => {
                let wearers = hats.wearers(&uri);
                hats.unmake(&uri).map_err(StanzaError::new)?;
                wearers
            }
            _ => {
                let bare = form
                    .one(&["hats#jid", "accountjid"])
                    .ok_or_else(bad_payload)?;
                let malformed = |_| StanzaError::new(Condition::JidMalformed);
                let address = addr::normalize(&bare).map_err(malformed)?;
                let bare = addr::bare_part(&address).to_owned();
                let changed = match command {
                    Command::Assign => hats.don(&bare, &uri),
                    _ => hats.doff(&bare, &uri),
                };
                changed.map_err(StanzaError::new)?;
                vec![bare]
            }
        };
        let is_less = matches!(command, Command::Destroy | Command::Unassign);
        if !is_less && !hats.fits(limits) {
            return Err(StanzaError::new(Condition::ResourceConstraint));
        }
        Ok((hats, shown))
    }

    fn reply(&mut self, reply: &Reply, status: &str, content: &[u8]) {
        let mut out = Vec::with_capacity(256);
        let mut writer = Writer::new(&mut out);
        writer.open("command").attr("xmlns", NS_COMMANDS);
        writer.attr("node", &reply.node);
        writer.attr("sessionid", &reply.session);
        writer.attr("status", status);
        if status == "executing" {
            writer.open("actions").attr("execute", "complete");
            writer.open("complete").close().close();
        }
        writer.raw(content).close();
        self.answer(&reply.request, &out);
    }

    fn hat_form(&self, command: Command) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
        let text = "text-single";
        if command == Command::Create {
            form.field(("hats#title", text, "Title"), &[], &[]);
            form.field(("hats#uri", text, "URI"), &[], &[]);
            form.field(("hats#hue", text, "Colour (degrees)"), &[], &[]);
        } else {
            if command != Command::Destroy {
                form.field(("hats#jid", "jid-single", "User address"), &[], &[]);
            }
            let state = self.state.as_ref();
            let hats = state.into_iter().flat_map(|state| state.hats.all());
            let options: Vec<(&str, &str)> =
                hats.map(|(uri, hat)| (hat.title.as_str(), uri)).collect();
            form.field(("hat", "list-single", "The hat"), &[], &options);
        }
        form.close();
        out
    }

    /// A form with one item for each hat, or for each that somebody has.
    fn listed_hats(&self, command: Command) -> Vec<u8> {
        let Some(state) = &self.state else {
            return Vec::new();
        };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("x").attr("xmlns", DATA_FORMS);
        writer.attr("type", "result");
        let mut field = |name: &str, kind: Option<&str>, value: Option<&str>| {
            writer.open("field").attr("var", name);
            if let Some(kind) = kind {
                writer.attr("type", kind);
            }
            if let Some(value) = value {
                writer.open("value").text(value).close();
            }
            writer.close();
        };
        field("FORM_TYPE", Some("hidden"), Some(FORM_TYPE));
        let is_assigned = command == Command::ListAssigned;
        writer.open("reported");
        let columns = [("hats#jid", "jid-single"), ("hats#uri", "text-single")];
        let columns = columns.iter().skip(usize::from(!is_assigned));
        for (name, kind) in
            columns.chain(&[("hats#title", "text-single"), ("hats#hue", "text-single")])
        {
            writer
                .open("field")
                .attr("var", name)
                .attr("type", kind)
                .close();
        }
        writer.close();
        let mut item = |bare: Option<&str>, uri: &str, hat: &Hat| {
            writer.open("item");
            let hue = Some(hat.hue.as_str()).filter(|hue| !hue.is_empty());
            for (name, value) in [
                ("hats#jid", bare),
                ("hats#uri", Some(uri)),
                ("hats#title", Some(hat.title.as_str())),
                ("hats#hue", hue),
            ] {
                let Some(value) = value else { continue };
                writer.open("field").attr("var", name);
                writer.open("value").text(value).close().close();
            }
            writer.close();
        };
        match is_assigned {
            true => {
                for (bare, uri, hat) in state.hats.worn() {
                    item(Some(bare), uri, hat);
                }
            }
            false => {
                for (uri, hat) in state.hats.all() {
                    item(None, uri, hat);
                }
            }
        }
        writer.close();
        out
    }

    /// The commands that somebody may use, of whom there are none but for owners.
    pub(crate) fn list_commands(&mut self, frame: &Frame, from: &str) {
        let is_owner = self.affiliation_of(from) == Affiliation::Owner;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_ITEMS);
        writer.attr("node", NS_COMMANDS);
        for (name, label, _) in COMMANDS.iter().filter(|_| is_owner) {
            writer.open("item").attr("jid", &self.address);
            writer.attr("node", &format!("{FORM_TYPE}:{name}"));
            writer.attr("name", label).close();
        }
        writer.close();
        self.answer(frame, &out);
    }

    /// What a node is that names a command, or their list (XEP-0050 section 2); false if there is
    /// none.
    pub(crate) fn command_info(&mut self, frame: &Frame, from: &str, node: &str) -> bool {
        let is_owner = self.affiliation_of(from) == Affiliation::Owner;
        let (kind, label) = match find(node) {
            _ if node == NS_COMMANDS => ("command-list", "Commands"),
            Some((label, _)) if is_owner => ("command-node", label),
            _ => return false,
        };
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_INFO);
        writer.attr("node", node);
        writer.open("identity").attr("category", "automation");
        writer.attr("type", kind).attr("name", label).close();
        for feature in [NS_COMMANDS, DATA_FORMS] {
            writer.open("feature").attr("var", feature).close();
        }
        writer.close();
        self.answer(frame, &out);
        true
    }
}

/// Where the answers to one execution go.
struct Reply {
    request: Frame,
    node: String,
    session: String,
}

/// A form that was filled in.
struct Fields<'a> {
    form: Submission,
    x: &'a Frame,
}

impl Fields<'_> {
    /// The value of the first of some fields that has one.
    fn one(&self, names: &[&str]) -> Option<String> {
        let named = names.iter().find_map(|name| match self.form.one(name) {
            Some(value) => Some(value.to_owned()),
            None => self.option(name),
        });
        named.filter(|value| !value.is_empty())
    }

    /// A value inside an option, as XEP-0317 0.2 has it in its example of a removal.
    fn option(&self, name: &str) -> Option<String> {
        let is_it = |field: &xml::Child<'_>| field.attr("var").as_deref() == Some(name);
        let field = self.x.children().find(is_it)?;
        let mut options = field.children();
        let option = options.find(|option| option.name() == "option")?;
        let value = option.children().find(|value| value.name() == "value")?;
        Some(value.text()?.into_owned())
    }
}

/// Whether a text is an angle of a colour, or none.
fn is_hue(text: &str) -> bool {
    let angle = text.parse::<f64>();
    text.is_empty() || text.len() <= 16 && angle.is_ok_and(|angle| (0.0..=360.0).contains(&angle))
}
