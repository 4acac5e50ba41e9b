//! Result sets (XEP-0059): which part of a list is asked for, and how that is said in the answer.

use std::ops::Range;

use xml::Frame;
use xml::build::Writer;

use crate::error::Condition;

/// The namespace of `<set/>`, and the feature.
pub const NS: &str = "http://jabber.org/protocol/rsm";

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    max: Option<usize>,
    from: From,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum From {
    #[default]
    Start,
    After(String),
    Before(String),
    End,
    Index(usize),
}

impl Set {
    /// Finds a `<set/>` among elements.
    ///
    /// # Errors
    /// `bad-request` if it has a number that is none.
    pub fn find(elements: &[Frame]) -> Result<Option<Set>, Condition> {
        let set = elements
            .iter()
            .find(|one| one.name() == "set" && one.ns() == NS);
        set.map(Set::parse).transpose()
    }

    fn parse(set: &Frame) -> Result<Set, Condition> {
        let number = |text: &str| text.trim().parse().map_err(|_| Condition::BadRequest);
        let mut found = Set::default();
        for child in set.children().filter(|child| child.ns() == NS) {
            let text = child.text().ok_or(Condition::BadRequest)?;
            match child.name() {
                "max" => found.max = Some(number(&text)?),
                "index" => found.from = From::Index(number(&text)?),
                "after" => found.from = From::After(text.into_owned()),
                "before" if text.is_empty() => found.from = From::End,
                "before" => found.from = From::Before(text.into_owned()),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// A part of a list, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The places of its entries.
    pub range: Range<usize>,
    count: usize,
    ends: Option<(String, String)>,
    is_asked: bool,
}

/// Bytes of an entry of a list that says these texts, with the element around them.
pub fn entry_bytes(texts: &[&str]) -> u64 {
    const ELEMENT: usize = 64;
    let written = |byte: u8| match byte {
        b'<' | b'>' => 4,
        b'&' => 5,
        b'"' | b'\'' => 6,
        _ => 1,
    };
    let bytes = texts.iter().flat_map(|text| text.bytes()).map(written);
    (ELEMENT + bytes.sum::<usize>()) as u64
}

/// The part of a list that a set asks for: at most so many entries, and at most so many bytes
/// unless one entry alone has more.
///
/// # Errors
/// `item-not-found` if it asks for what is before or behind an entry that is not there.
pub fn page<'a>(
    (count, key): (usize, impl Fn(usize) -> &'a str),
    set: Option<&Set>,
    (entries_max, bytes_max): (usize, u64),
    bytes: impl Fn(usize) -> u64,
) -> Result<Page, Condition> {
    let place = |id: &str| {
        let found = (0..count).find(|at| key(*at) == id);
        found.ok_or(Condition::ItemNotFound)
    };
    let max = set
        .and_then(|set| set.max)
        .unwrap_or(usize::MAX)
        .min(entries_max);
    let all = match set.map(|set| &set.from) {
        None | Some(From::Start | From::End) => 0..count,
        Some(From::After(id)) => place(id)? + 1..count,
        Some(From::Before(id)) => 0..place(id)?,
        Some(From::Index(at)) => (*at).min(count)..count,
    };
    let is_backward = matches!(
        set,
        Some(Set {
            from: From::Before(_) | From::End,
            ..
        })
    );
    let (mut taken, mut sum) = (0, 0_u64);
    while taken < max.min(all.len()) {
        let at = if is_backward {
            all.end - 1 - taken
        } else {
            all.start + taken
        };
        sum += bytes(at);
        if taken > 0 && sum > bytes_max {
            break;
        }
        taken += 1;
    }
    let range = match is_backward {
        true => all.end - taken..all.end,
        false => all.start..all.start + taken,
    };
    let ends = (taken > 0).then(|| (key(range.start).to_owned(), key(range.end - 1).to_owned()));
    Ok(Page {
        range,
        count,
        ends,
        is_asked: set.is_some(),
    })
}

impl Page {
    /// Writes `<set/>`, if a set was asked for or the page is not everything.
    pub fn write(&self, writer: &mut Writer<'_>) {
        if !self.is_asked && self.range.len() == self.count {
            return;
        }
        writer.open("set").attr("xmlns", NS);
        if let Some((first, last)) = &self.ends {
            let index = self.range.start.to_string();
            writer
                .open("first")
                .attr("index", &index)
                .text(first)
                .close();
            writer.open("last").text(last).close();
        }
        writer.open("count").text(&self.count.to_string()).close();
        writer.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn cut(set: &str, entries_max: usize, bytes_max: u64) -> Result<(String, String), Condition> {
        let set = Frame::parse(format!("<set xmlns='{NS}'>{set}</set>")).unwrap();
        let set = Set::find(&[set])?;
        let all = (KEYS.len(), |at: usize| KEYS[at]);
        let page = page(all, set.as_ref(), (entries_max, bytes_max), |_| 10)?;
        let mut out = Vec::new();
        page.write(&mut Writer::new(&mut out));
        Ok((KEYS[page.range].concat(), String::from_utf8(out).unwrap()))
    }

    #[test]
    fn a_page_is_what_the_set_asks_for() {
        let everything = u64::MAX;
        for (set, expected) in [
            ("", "abcde"),
            ("<max>2</max>", "ab"),
            ("<max>2</max><after>b</after>", "cd"),
            ("<after>e</after>", ""),
            ("<max>2</max><before/>", "de"),
            ("<max>2</max><before>d</before>", "bc"),
            ("<max>0</max>", ""),
            ("<index>3</index>", "de"),
            ("<index>9</index>", ""),
        ] {
            assert_eq!(cut(set, 9, everything).unwrap().0, expected, "{set}");
        }
        assert_eq!(cut("<after>x</after>", 9, 0), Err(Condition::ItemNotFound));
        assert_eq!(
            cut("<before>x</before>", 9, 0),
            Err(Condition::ItemNotFound)
        );
        for bad in [
            "<max>x</max>",
            "<max>-1</max>",
            "<index/>",
            "<after><b/></after>",
        ] {
            assert_eq!(cut(bad, 9, 0), Err(Condition::BadRequest), "{bad}");
        }
    }

    #[test]
    fn a_page_has_bounds_of_its_own_and_says_so() {
        assert_eq!(cut("<max>4</max>", 3, u64::MAX).unwrap().0, "abc");
        assert_eq!(cut("<before/>", 3, u64::MAX).unwrap().0, "cde");
        assert_eq!(cut("", 9, 20).unwrap().0, "ab");
        assert_eq!(cut("<before/>", 9, 20).unwrap().0, "de");
        assert_eq!(cut("", 9, 1).unwrap().0, "a");
        let (_, text) = cut("<max>2</max><after>b</after>", 9, u64::MAX).unwrap();
        let expected = "<first index='2'>c</first><last>d</last><count>5</count></set>";
        assert!(text.ends_with(expected), "{text}");
        let all = (KEYS.len(), |at: usize| KEYS[at]);
        let whole = page(all, None, (5, u64::MAX), |_| 1).unwrap();
        let mut out = Vec::new();
        whole.write(&mut Writer::new(&mut out));
        assert!(out.is_empty());
    }
}
