//! What is wrong with a peer's bytes. Each variant maps to one stream error of RFC 6120 section
//! 4.9.3, which `xmpp::stream` writes.

/// Why input is refused. The peer is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Not well-formed XML 1.0: `not-well-formed`.
    NotWellFormed(&'static str),
    /// Well-formed, but forbidden by RFC 6120 section 11.1 (comments, processing instructions,
    /// document types, entities other than the five): `restricted-xml`.
    Restricted(&'static str),
    /// Not UTF-8, or an XML declaration of another encoding: `unsupported-encoding`.
    BadEncoding,
    /// An XML declaration of another version: `not-well-formed`.
    BadVersion,
    /// A prefix that nothing declares, or a name used against Namespaces in XML: `not-well-formed`.
    UnboundPrefix,
    /// An element has more bytes than [`crate::Limits::stanza_bytes`]: `policy-violation`.
    TooLarge,
    /// Elements are nested deeper than [`crate::Limits::depth`]: `policy-violation`.
    TooDeep,
    /// An element has more attributes than [`crate::Limits::attributes`]: `policy-violation`.
    TooManyAttributes,
    /// A stanza has more children than [`crate::Limits::children`]: `policy-violation`.
    TooManyChildren,
    /// More prefixes are in scope than [`crate::Limits::prefixes`]: `policy-violation`.
    TooManyPrefixes,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::NotWellFormed(why) => write!(f, "not well-formed: {why}"),
            Error::Restricted(what) => write!(f, "{what} is not allowed in a stream"),
            Error::BadEncoding => f.write_str("the stream is not UTF-8"),
            Error::BadVersion => f.write_str("the XML declaration is not of version 1.0"),
            Error::UnboundPrefix => f.write_str("a namespace prefix is not declared"),
            Error::TooLarge => f.write_str("an element is too large"),
            Error::TooDeep => f.write_str("elements are nested too deeply"),
            Error::TooManyAttributes => f.write_str("an element has too many attributes"),
            Error::TooManyChildren => f.write_str("a stanza has too many children"),
            Error::TooManyPrefixes => f.write_str("too many namespace prefixes are declared"),
        }
    }
}

impl std::error::Error for Error {}
