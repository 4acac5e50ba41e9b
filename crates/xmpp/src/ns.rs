//! Owns the names of the XML namespaces that more than one part of the server mentions. A
//! namespace used by one extension alone is declared in that extension's own file.

/// Content namespace of client streams (RFC 6120 section 4.8.2).
pub const CLIENT: &str = "jabber:client";
/// Content namespace of server streams (RFC 6120 section 4.8.2).
pub const SERVER: &str = "jabber:server";
/// Content namespace of streams of components (XEP-0114).
pub const COMPONENT_ACCEPT: &str = "jabber:component:accept";
/// The stream element itself and its features (RFC 6120 section 4.8.1).
pub const STREAMS: &str = "http://etherx.jabber.org/streams";
/// `<open/>` and `<close/>` of streams over WebSocket (RFC 7395 section 3.3.2).
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";
/// The `<body/>` of BOSH (XEP-0124 section 6).
pub const HTTP_BIND: &str = "http://jabber.org/protocol/httpbind";
/// What XMPP adds to BOSH (XEP-0206 section 3).
pub const XBOSH: &str = "urn:xmpp:xbosh";
/// Conditions of stream errors (RFC 6120 section 4.9.2).
pub const STREAM_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-streams";
/// Conditions of stanza errors (RFC 6120 section 8.3.2).
pub const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
/// STARTTLS (RFC 6120 section 5).
pub const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
/// SASL (RFC 6120 section 6).
pub const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
/// Advertisement of channel-binding types (XEP-0440).
pub const SASL_CHANNEL_BINDING: &str = "urn:xmpp:sasl-cb:0";
/// Resource binding (RFC 6120 section 7).
pub const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
/// Session establishment of RFC 3921, optional and without effect since RFC 6121.
pub const SESSION: &str = "urn:ietf:params:xml:ns:xmpp-session";
/// In-band registration requests (XEP-0077).
pub const REGISTER: &str = "jabber:iq:register";
/// In-band registration as a stream feature (XEP-0077 section 8).
pub const REGISTER_FEATURE: &str = "http://jabber.org/features/iq-register";
/// Rosters (RFC 6121 section 2).
pub const ROSTER: &str = "jabber:iq:roster";
/// Roster versioning as a stream feature (RFC 6121 section 2.6).
pub const ROSTER_VERSIONING: &str = "urn:xmpp:features:rosterver";
/// Subscription pre-approval as a stream feature (RFC 6121 section 3.4).
pub const PRE_APPROVAL: &str = "urn:xmpp:features:pre-approval";
/// Entity capabilities (XEP-0115).
pub const CAPS: &str = "http://jabber.org/protocol/caps";
/// Service discovery, information (XEP-0030).
pub const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";
/// Service discovery, items (XEP-0030).
pub const DISCO_ITEMS: &str = "http://jabber.org/protocol/disco#items";
/// Last activity (XEP-0012).
pub const LAST: &str = "jabber:iq:last";
/// Private XML storage (XEP-0049).
pub const PRIVATE: &str = "jabber:iq:private";
/// What somebody says who wants to enter a room (XEP-0045 section 7.2).
pub const MUC: &str = "http://jabber.org/protocol/muc";
/// vcard-temp (XEP-0054).
pub const VCARD: &str = "vcard-temp";
/// vCard-based avatars in presence (XEP-0153).
pub const VCARD_UPDATE: &str = "vcard-temp:x:update";
/// Software version (XEP-0092).
pub const VERSION: &str = "jabber:iq:version";
/// Blocking command (XEP-0191).
pub const BLOCKING: &str = "urn:xmpp:blocking";
/// Errors of the blocking command (XEP-0191 section 3.2).
pub const BLOCKING_ERRORS: &str = "urn:xmpp:blocking:errors";
/// Ping (XEP-0199).
pub const PING: &str = "urn:xmpp:ping";
/// Entity time (XEP-0202).
pub const TIME: &str = "urn:xmpp:time";
/// Delayed delivery (XEP-0203).
pub const DELAY: &str = "urn:xmpp:delay";
/// Stream management (XEP-0198).
pub const STREAM_MANAGEMENT: &str = "urn:xmpp:sm:3";
/// Stable and origin ids (XEP-0359).
pub const STANZA_ID: &str = "urn:xmpp:sid:0";
/// Message carbons (XEP-0280).
pub const CARBONS: &str = "urn:xmpp:carbons:2";
/// Stanza forwarding (XEP-0297).
pub const FORWARD: &str = "urn:xmpp:forward:0";
/// Message processing hints (XEP-0334).
pub const HINTS: &str = "urn:xmpp:hints";
/// Data forms (XEP-0004).
pub const DATA_FORMS: &str = "jabber:x:data";
/// Client state indication (XEP-0352).
pub const CLIENT_STATE: &str = "urn:xmpp:csi:0";
