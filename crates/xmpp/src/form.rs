//! Data forms (XEP-0004): read from a submission, written field by field. What a field means is its
//! form type's business.

use std::collections::BTreeMap;

use xml::Frame;
use xml::build::Writer;

use crate::error::Condition;
use crate::limits::FORM_FIELDS_MAX;
use crate::ns::DATA_FORMS;

/// A submitted form: its fields in order, each with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submission {
    fields: Vec<(String, Vec<String>)>,
}

/// What was done with a form.
pub enum Form {
    /// It was filled in.
    Submitted(Submission),
    /// It was put away.
    Cancelled,
}

impl Form {
    /// Reads `<x xmlns='jabber:x:data'/>` of a form type.
    ///
    /// # Errors
    /// `bad-request` for another form type, a field without a name or named twice, another type,
    /// or more than [`FORM_FIELDS_MAX`] fields.
    pub fn parse(x: &Frame, form_type: &str) -> Result<Form, Condition> {
        let form = Form::parse_lenient(x, form_type)?;
        match &form {
            // A submission of an empty form means all defaults (XEP-0045 section 10.1.2).
            Form::Submitted(submission)
                if submission.one("FORM_TYPE").is_none() && !submission.fields.is_empty() =>
            {
                Err(Condition::BadRequest)
            }
            _ => Ok(form),
        }
    }

    /// The same where the form need not name its type, because what is around it says what it is
    /// (XEP-0060 section 8.7.4).
    ///
    /// # Errors
    /// As of [`Form::parse`].
    pub fn parse_lenient(x: &Frame, form_type: &str) -> Result<Form, Condition> {
        match x.attr("type").as_deref() {
            Some("cancel") => return Ok(Form::Cancelled),
            Some("submit") => {}
            _ => return Err(Condition::BadRequest),
        }
        let mut fields: Vec<(String, Vec<String>)> = Vec::new();
        for field in x.children() {
            if field.name() != "field" || field.ns() != DATA_FORMS {
                continue;
            }
            let name = field.attr("var").ok_or(Condition::BadRequest)?.into_owned();
            let is_known = fields.iter().any(|(known, _)| *known == name);
            if is_known || fields.len() >= FORM_FIELDS_MAX {
                return Err(Condition::BadRequest);
            }
            let values = field.children().filter(|v| v.name() == "value");
            let values = values.map(|v| v.text().map(std::borrow::Cow::into_owned));
            let values: Option<Vec<String>> = values.collect();
            fields.push((name, values.ok_or(Condition::BadRequest)?));
        }
        let submission = Submission { fields };
        match submission.one("FORM_TYPE") {
            Some(name) if name != form_type => Err(Condition::BadRequest),
            _ => Ok(Form::Submitted(submission)),
        }
    }
}

/// The fields of a form with their values, by name: how a program keeps a form.
pub type Fields = BTreeMap<String, Vec<String>>;

impl Submission {
    /// Of these fields.
    pub fn of(fields: Fields) -> Submission {
        Submission {
            fields: fields.into_iter().collect(),
        }
    }

    /// The fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[String])> {
        let fields = self.fields.iter();
        fields.map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// The first value of a field.
    pub fn one(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let (_, values) = fields.find(|(known, _)| known == name)?;
        values.first().map(String::as_str)
    }
}

/// The fields of a form as it is shown to somebody, without its type.
pub fn shown(x: &Frame) -> Fields {
    let mut fields = Fields::new();
    for field in x.children().filter(|one| one.name() == "field") {
        let Some(name) = field.attr("var").filter(|name| name != "FORM_TYPE") else {
            continue;
        };
        let values = field.children().filter(|one| one.name() == "value");
        let values = values.filter_map(|one| one.text().map(std::borrow::Cow::into_owned));
        fields.insert(name.into_owned(), values.collect());
    }
    fields
}

/// A boolean of a form (XEP-0004 section 3.3).
pub fn flag(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Writes a form.
pub struct FormWriter<'a, 'b> {
    writer: &'a mut Writer<'b>,
}

impl<'a, 'b> FormWriter<'a, 'b> {
    /// Opens `<x/>` of a kind (`form`, `result`, `submit`) and names its form type.
    pub fn new(writer: &'a mut Writer<'b>, kind: &str, form_type: &str) -> Self {
        writer
            .open("x")
            .attr("xmlns", DATA_FORMS)
            .attr("type", kind);
        writer
            .open("field")
            .attr("var", "FORM_TYPE")
            .attr("type", "hidden");
        writer.open("value").text(form_type).close();
        writer.close();
        FormWriter { writer }
    }

    /// A field with its values, and the options it may be chosen from.
    pub fn field(
        &mut self,
        (name, kind, label): (&str, &str, &str),
        values: &[&str],
        options: &[(&str, &str)],
    ) -> &mut Self {
        self.writer
            .open("field")
            .attr("var", name)
            .attr("type", kind);
        if !label.is_empty() {
            self.writer.attr("label", label);
        }
        for (label, value) in options {
            self.writer.open("option").attr("label", label);
            self.writer.open("value").text(value).close();
            self.writer.close();
        }
        for value in values {
            self.writer.open("value").text(value).close();
        }
        self.writer.close();
        self
    }

    /// Closes the form.
    pub fn close(self) {
        self.writer.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<Form, Condition> {
        let x = format!("<x xmlns='jabber:x:data' {content}</x>");
        Form::parse(&Frame::parse(x).unwrap(), "urn:f")
    }

    #[test]
    fn a_submission_is_read() {
        let form = parse(
            "type='submit'><field var='FORM_TYPE'><value>urn:f</value></field>\
             <field var='a'><value>1</value><value>2</value></field><field var='b'/>",
        );
        let Ok(Form::Submitted(form)) = form else {
            panic!("not submitted")
        };
        assert_eq!(
            (form.one("a"), form.one("b"), form.one("c")),
            (Some("1"), None, None)
        );
        assert_eq!(form.fields().count(), 3);
        assert!(matches!(parse("type='cancel'>"), Ok(Form::Cancelled)));
        assert!(matches!(parse("type='submit'>"), Ok(Form::Submitted(_))));
    }

    #[test]
    fn what_is_no_submission_of_this_form_is_refused() {
        for bad in [
            ">",
            "type='form'>",
            "type='submit'><field/>",
            "type='submit'><field var='FORM_TYPE'><value>urn:g</value></field>",
            "type='submit'><field var='a'/>",
            "type='submit'><field var='a'/><field var='a'/>",
            "type='submit'><field var='a'><value><b/></value></field>",
        ] {
            assert_eq!(parse(bad).err(), Some(Condition::BadRequest), "{bad}");
        }
    }

    #[test]
    fn a_form_may_leave_its_type_out_where_what_is_around_it_says_so() {
        let lenient = |content: &str| {
            let x = format!("<x xmlns='jabber:x:data' type='submit'>{content}</x>");
            Form::parse_lenient(&Frame::parse(x).unwrap(), "urn:f")
        };
        assert!(lenient("<field var='a'/>").is_ok());
        let other = "<field var='FORM_TYPE'><value>urn:g</value></field>";
        assert_eq!(lenient(other).err(), Some(Condition::BadRequest));
    }

    #[test]
    fn a_form_of_too_many_fields_is_refused() {
        let form = |count: usize| {
            let fields = (1..count).map(|n| format!("<field var='f{n}'/>"));
            let fields: String = fields.collect();
            let kind = "<field var='FORM_TYPE'><value>urn:f</value></field>";
            parse(&format!("type='submit'>{kind}{fields}"))
        };
        assert!(form(FORM_FIELDS_MAX).is_ok());
        let one_more = form(FORM_FIELDS_MAX + 1).err();
        assert_eq!(one_more, Some(Condition::BadRequest));
        assert_eq!(form(10_000).err(), Some(Condition::BadRequest));
    }
}
