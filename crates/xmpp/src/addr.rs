//! Owns addresses: parsing, normal form, and splitting of text that is known to be normal. What
//! an address means to the server (local or remote, online or not) is decided elsewhere.
//!
//! # Normal form
//!
//! Preparation is stringprep (Nodeprep, Nameprep after IDNA2008 checks, Resourceprep), as the
//! `jid` crate does it, not PRECIS (RFC 7622). Both agree on everything that deployed clients use;
//! stringprep knows the characters of Unicode 3.2 only and refuses later ones, which is the safe
//! side. Three rules are added:
//!
//! - a domain's final dot is dropped and its A-labels become U-labels, so that one domain has one
//!   spelling (RFC 7622 section 3.2);
//! - an address whose prepared form changes when it is prepared again is refused: the normal form
//!   must be a fixed point, or two spellings of one account could exist;
//! - an address over [`ADDRESS_BYTES_MAX`] bytes is refused before any preparation.
//!
//! # Homographs
//!
//! Letters that only look alike (Latin `a`, Cyrillic `а`) are different letters here and make
//! different addresses. Case and compatibility forms (`Ａ`, `ﬁ`) are folded away by preparation.
//! Mixed scripts are not refused: that is a matter of registration policy and of what clients
//! show. The server never treats two different normal forms as the same user.

use std::borrow::Cow;

pub use jid::{BareJid, DomainPart, FullJid, Jid, NodePart, ResourcePart};

use crate::limits::{
    ADDRESS_BYTES_MAX, ADDRESS_PART_BYTES_MAX, DOMAIN_BYTES_MAX, DOMAIN_LABEL_BYTES_MAX,
};

/// Why text is not an address. The peer who wrote it is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is empty, or a part announced by its separator is.
    #[error("an address or one of its parts is empty")]
    Empty,
    /// A part exceeds 1,023 bytes (a domain 253).
    #[error("an address or one of its parts is too long")]
    TooLong,
    /// A character is not allowed where it stands, or the domain is not a domain.
    #[error("an address has a character that is not allowed in it")]
    Forbidden,
    /// A resource is required but missing, or present where none may be.
    #[error("an address has a resource where none may be, or lacks one")]
    Resource,
}

impl From<jid::Error> for AddressError {
    fn from(error: jid::Error) -> AddressError {
        use jid::Error as E;
        match error {
            E::NodeEmpty | E::ResourceEmpty => AddressError::Empty,
            E::NodeTooLong | E::ResourceTooLong => AddressError::TooLong,
            E::NodePrep | E::NamePrep | E::ResourcePrep | E::TooManyAts | E::Idna => {
                AddressError::Forbidden
            }
            E::ResourceMissingInFullJid | E::ResourceInBareJid => AddressError::Resource,
        }
    }
}

/// The parts of an address, borrowed from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Local part, without its `@`.
    pub node: Option<&'a str>,
    /// Domain.
    pub domain: &'a str,
    /// Resource, without its `/`.
    pub resource: Option<&'a str>,
}

/// Cuts the text of an address at its separators (RFC 7622 section 3.1: the first `/`, then the
/// first `@` before it). Nothing is checked: the text should already be normal.
pub fn split(text: &str) -> Parts<'_> {
    let (bare, resource) = match text.split_once('/') {
        Some((bare, resource)) => (bare, Some(resource)),
        None => (text, None),
    };
    let (node, domain) = match bare.split_once('@') {
        Some((node, domain)) => (Some(node), domain),
        None => (None, bare),
    };
    Parts {
        node,
        domain,
        resource,
    }
}

/// The bare address within the text of a normal address: everything before the first `/`.
pub fn bare_part(text: &str) -> &str {
    text.split_once('/').map_or(text, |(bare, _)| bare)
}

/// The text of an address without its resource; borrows where `Jid::to_bare` allocates.
pub fn bare_of(jid: &Jid) -> &str {
    bare_part(jid.as_str())
}

/// Whether text is an address in normal form, decided in one pass without allocation for ASCII.
///
/// `false` means "not known to be normal": such text goes through [`parse`].
pub fn is_normal(text: &str) -> bool {
    let bytes = text.as_bytes();
    let slash = bytes.iter().position(|&b| b == b'/');
    let bare = &bytes[..slash.unwrap_or(bytes.len())];
    let domain = match bare.iter().position(|&b| b == b'@') {
        Some(at) => {
            let node = &bare[..at];
            if !part_fits(node) || !node.iter().all(|&b| class(b) & NODE != 0) {
                return false;
            }
            &bare[at + 1..]
        }
        None => bare,
    };
    if !is_normal_domain(domain) {
        return false;
    }
    match slash {
        Some(slash) => {
            let resource = &bytes[slash + 1..];
            part_fits(resource) && resource.iter().all(|&b| class(b) & RESOURCE != 0)
        }
        None => true,
    }
}

/// Parses an address and brings it into normal form.
///
/// # Errors
///
/// Any [`AddressError`] but [`AddressError::Resource`].
pub fn parse(text: &str) -> Result<Jid, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    if is_normal(text) {
        return Ok(Jid::new(text)?);
    }
    parse_slowly(text)
}

/// Brings the text of an address into normal form; borrows when it already is.
///
/// # Errors
///
/// Those of [`parse`].
pub fn normalize(text: &str) -> Result<Cow<'_, str>, AddressError> {
    if is_normal(text) {
        return Ok(Cow::Borrowed(text));
    }
    let jid = parse(text)?;
    Ok(if jid.as_str() == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(jid.into_inner())
    })
}

/// Parses an address that must not have a resource.
///
/// # Errors
///
/// Those of [`parse`], and [`AddressError::Resource`] if there is a resource.
pub fn parse_bare(text: &str) -> Result<BareJid, AddressError> {
    BareJid::try_from(parse(text)?).map_err(|_| AddressError::Resource)
}

/// Parses an address that must have a resource.
///
/// # Errors
///
/// Those of [`parse`], and [`AddressError::Resource`] if there is none.
pub fn parse_full(text: &str) -> Result<FullJid, AddressError> {
    FullJid::try_from(parse(text)?).map_err(|_| AddressError::Resource)
}

/// Brings a domain into normal form.
///
/// # Errors
///
/// [`AddressError::Empty`], [`AddressError::TooLong`] or [`AddressError::Forbidden`]; the last
/// also for text with an `@` or a `/`.
pub fn prepare_domain(text: &str) -> Result<DomainPart, AddressError> {
    if text.is_empty() || text == "." {
        return Err(AddressError::Empty);
    }
    if text.len() > ADDRESS_PART_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let once = domain_once(text)?;
    let twice = domain_once(once.as_str())?;
    if once == twice {
        Ok(once)
    } else {
        Err(AddressError::Forbidden)
    }
}

/// Brings a local part into normal form.
///
/// # Errors
///
/// [`AddressError::Empty`], [`AddressError::TooLong`] or [`AddressError::Forbidden`].
pub fn prepare_node(text: &str) -> Result<NodePart, AddressError> {
    if text.len() > ADDRESS_PART_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let once = NodePart::new(text)?.into_owned();
    let stable =
        matches!(NodePart::new(once.as_str()), Ok(twice) if twice.as_str() == once.as_str());
    if stable {
        Ok(once)
    } else {
        Err(AddressError::Forbidden)
    }
}

/// Brings a resource into normal form.
///
/// # Errors
///
/// [`AddressError::Empty`], [`AddressError::TooLong`] or [`AddressError::Forbidden`].
pub fn prepare_resource(text: &str) -> Result<ResourcePart, AddressError> {
    if text.len() > ADDRESS_PART_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let once = ResourcePart::new(text)?.into_owned();
    let stable =
        matches!(ResourcePart::new(once.as_str()), Ok(twice) if twice.as_str() == once.as_str());
    if stable {
        Ok(once)
    } else {
        Err(AddressError::Forbidden)
    }
}

// === helpers ===

/// The path for whatever the ASCII scan did not recognise. It goes part by part, because
/// `Jid::new` keeps a domain's final dot in the text while its index leaves the dot out.
fn parse_slowly(text: &str) -> Result<Jid, AddressError> {
    let parts = split(text);
    let node = parts.node.map(prepare_node).transpose()?;
    let domain = prepare_domain(parts.domain)?;
    let resource = parts.resource.map(prepare_resource).transpose()?;
    Ok(Jid::from_parts(
        node.as_deref(),
        &domain,
        resource.as_deref(),
    ))
}

fn domain_once(text: &str) -> Result<DomainPart, AddressError> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let has_a_label = text.split('.').any(|label| {
        label
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("xn--"))
    });
    let unicode = if has_a_label {
        let (unicode, result) = idna::domain_to_unicode(text);
        result.map_err(|_| AddressError::Forbidden)?;
        Cow::Owned(unicode)
    } else {
        Cow::Borrowed(text)
    };
    let part = DomainPart::new(&unicode)?.into_owned();
    // Preparation may produce separators out of compatibility characters.
    if part.as_str().is_empty() || part.as_str().contains(['@', '/']) {
        return Err(AddressError::Forbidden);
    }
    Ok(part)
}

fn part_fits(part: &[u8]) -> bool {
    (1..=ADDRESS_PART_BYTES_MAX).contains(&part.len())
}

/// Lower-case letters, digits, hyphens and dots that form labels needing no preparation at all.
fn is_normal_domain(domain: &[u8]) -> bool {
    if domain.is_empty() || domain.len() > DOMAIN_BYTES_MAX {
        return false;
    }
    let mut label = 0usize;
    for (index, &byte) in domain.iter().enumerate() {
        match byte {
            b'.' => {
                if label == 0 || domain[index - 1] == b'-' {
                    return false;
                }
                label = 0;
                continue;
            }
            // A hyphen may neither open a label nor stand third and fourth, where it marks
            // A-labels and their like.
            b'-' if label == 0 || label == 3 => return false,
            _ if class(byte) & DOMAIN == 0 => return false,
            _ => {}
        }
        label += 1;
        if label > DOMAIN_LABEL_BYTES_MAX {
            return false;
        }
    }
    label > 0 && domain[domain.len() - 1] != b'-'
}

const NODE: u8 = 1;
const DOMAIN: u8 = 2;
const RESOURCE: u8 = 4;

fn class(byte: u8) -> u8 {
    CLASSES[byte as usize]
}

/// For each byte, in which parts it stands for itself after preparation.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        let mut class = RESOURCE;
        let b = byte as u8;
        if b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-' {
            class |= NODE | DOMAIN;
        } else if !b.is_ascii_uppercase()
            && !matches!(
                b,
                b' ' | b'"' | b'&' | b'\'' | b'/' | b':' | b'<' | b'>' | b'@'
            )
        {
            // RFC 3920 appendix A.5: what a local part may not contain.
            class |= NODE;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests;
