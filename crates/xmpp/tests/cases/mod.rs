//! Bad input, by the row of `docs/limits.md` that says what happens to it.

pub(crate) const OPEN: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                               xmlns:stream='http://etherx.jabber.org/streams'>";

/// Where a stream stands before the bad input comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Start,
    /// Not logged in; TLS is not there.
    Features,
    /// Not logged in; TLS is there, with a channel to bind to.
    Tls,
    LoggedIn,
    Bound,
}

/// A row, where the stream stands, and inputs that all get the answer of the row.
pub(crate) type Case = (&'static str, At, Vec<String>);

fn some(inputs: &[&str]) -> Vec<String> {
    inputs.iter().map(|input| (*input).to_owned()).collect()
}

fn auth(mechanism: &str, message: &str) -> String {
    encoded_auth(mechanism, &xmpp::sasl::encode(message))
}

fn encoded_auth(mechanism: &str, content: &str) -> String {
    let ns = "urn:ietf:params:xml:ns:xmpp-sasl";
    format!("<auth xmlns='{ns}' mechanism='{mechanism}'>{content}</auth>")
}

pub(crate) fn plain(message: &str) -> String {
    auth("PLAIN", message)
}

fn response(message: &str) -> String {
    let message = xmpp::sasl::encode(message);
    format!("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{message}</response>")
}

/// A SCRAM-SHA-1 exchange with a last message whose proof belongs to nothing.
fn scram(first: &str, last: &str) -> String {
    let last = format!("{last},p=AAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    auth("SCRAM-SHA-1", first) + &response(&last)
}

pub(crate) fn xml() -> Vec<Case> {
    let deep = "<a>".repeat(70);
    let attributes: String = (0..65).map(|at| format!(" a{at}=''")).collect();
    let prefixes: String = (0..40).map(|at| format!(" xmlns:p{at}='u'")).collect();
    let broken = [
        "<message></presence>",
        "<message a=1/>",
        "<message a='<'/>",
        "<message a='1'b='2'/>",
        "<1/>",
        "<a:b:c/>",
        "<message>&amp</message>",
        "<message>]]></message>",
        "<message/ ></message>",
        "</message>",
    ];
    let characters = [
        "<message>\u{1}</message>",
        "<message>\u{ffff}</message>",
        "<message>&#0;</message>",
        "<message>&#xD800;</message>",
        "<message a='\u{b}'/>",
    ];
    let twice = [
        "<message to='a' to='b'/>",
        "<message xmlns:p='u' xmlns:q='u' p:a='1' q:a='2'/>",
        "<message xmlns='jabber:client' xmlns='jabber:server'/>",
    ];
    let declarations = [
        "<message xmlns:xml='u'/>",
        "<message xmlns:xmlns='u'/>",
        "<message xmlns:p=''/>",
        "<message xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
        "<message xmlns='http://www.w3.org/2000/xmlns/'/>",
    ];
    let prefixed = [
        "<p:message/>",
        "<message p:a='1'/>",
        "<message><b xmlns:p='u'/><p:c/></message>",
    ];
    let late = format!("<?xml version='1.0'{}?>", " ".repeat(128));
    let versions = [
        "<?xml version='1.1'?>",
        "<?xml encoding='utf-8'?>",
        " <?xml version='1.0'?>",
        &late,
    ];
    let types = [
        "<!DOCTYPE a [<!ENTITY b 'c'>]>",
        "<!ENTITY b 'c'>",
        "<message><!DOCTYPE a></message>",
    ];
    let references = [
        "<message xmlns='jabber:clien&#116;'/>",
        "<message xmlns:p='a\nb'/>",
    ];
    let at = At::Bound;
    vec![
        (
            "tags, attributes, names, references or end tags against XML 1.0",
            at,
            some(&broken),
        ),
        (
            "characters that XML does not know, also as references",
            at,
            some(&characters),
        ),
        (
            "text between stanzas",
            at,
            some(&["hello", "<message/>hello", "\u{feff}<message/>"]),
        ),
        (
            "an attribute twice, also by two prefixes of one namespace",
            at,
            some(&twice),
        ),
        ("a prefix that nothing declares", at, some(&prefixed)),
        (
            "a prefix for no namespace; `xml`, `xmlns` or their namespaces declared anew",
            at,
            some(&declarations),
        ),
        (
            "an XML declaration that is malformed, late or not of version 1.0; its bytes",
            At::Start,
            some(&versions),
        ),
        (
            "another encoding",
            At::Start,
            some(&["<?xml version='1.0' encoding='iso-8859-1'?>"]),
        ),
        (
            "a comment",
            at,
            some(&["<!-- c -->", "<message><!-- c --></message>"]),
        ),
        (
            "a processing instruction",
            at,
            some(&["<?p i?>", "<message><?p i?></message>"]),
        ),
        ("a document type or another declaration", at, some(&types)),
        (
            "an entity other than the five of XML",
            at,
            some(&["<message>&nbsp;</message>", "<message a='&b;'/>"]),
        ),
        (
            "a reference, tab or line end in the name of a namespace",
            at,
            some(&references),
        ),
        (
            "characters of a reference",
            at,
            some(&["<message>&#000000000065;</message>"]),
        ),
        (
            "nested elements",
            at,
            vec![deep.clone(), format!("<message>{deep}")],
        ),
        (
            "attributes of one element",
            at,
            vec![format!("<message{attributes}/>")],
        ),
        (
            "children of one stanza",
            at,
            vec![format!("<message>{}</message>", "<a/>".repeat(1025))],
        ),
        (
            "prefixes that are declared at one place",
            at,
            vec![format!(
                "<message{prefixes}><a{}/></message>",
                prefixes.replace('p', "q")
            )],
        ),
        (
            "bytes of one element before a session",
            At::Features,
            vec![format!("<{}", "a".repeat(9000)), plain(&"a".repeat(9000))],
        ),
    ]
}

pub(crate) fn streams() -> Vec<Case> {
    let foreign = [
        "<odd/>",
        "<message xmlns='jabber:server'/>",
        "<p:message xmlns:p='urn:p'/>",
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>",
        "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
    ];
    let requests = [
        "<iq type='get'><q/></iq>",
        "<iq type='odd' id='1'/>",
        "<iq id='1'/>",
        "<iq type='get' id='1'/>",
        "<iq type='set' id='1'><q/><q/></iq>",
    ];
    let starttls = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
    let early = "a stanza before a login, or before a resource is bound";
    let tls = "STARTTLS under TLS, after a login or without a certificate";
    vec![
        (
            "a header without `to`, or to a domain that is not served",
            At::Start,
            vec![
                OPEN.replace("to='localhost'", ""),
                OPEN.replace("localhost", "elsewhere.example"),
            ],
        ),
        (
            "a header to what is no domain",
            At::Start,
            vec![
                OPEN.replace("localhost", "a..b"),
                OPEN.replace("localhost", "a@b"),
            ],
        ),
        (
            "another namespace of the stream or of its content",
            At::Start,
            vec![
                OPEN.replace("etherx.jabber.org", "example.org"),
                OPEN.replace("jabber:client", "jabber:server"),
                "<stream>".to_owned(),
            ],
        ),
        (
            "another prefix than `stream`",
            At::Start,
            vec![
                OPEN.replace("stream:stream", "s:stream")
                    .replace("xmlns:stream", "xmlns:s"),
            ],
        ),
        (
            "another root than `stream`",
            At::Start,
            vec![OPEN.replace("stream:stream", "stream:flow")],
        ),
        (
            "a version below 1.0",
            At::Start,
            vec![OPEN.replace("1.0", "0.9"), OPEN.replace("version", "v")],
        ),
        (
            early,
            At::Features,
            some(&[
                "<message/>",
                "<presence/>",
                "<iq type='get' id='1'><q/></iq>",
            ]),
        ),
        (
            early,
            At::LoggedIn,
            some(&["<iq type='get' id='1'><q/></iq>", "<message/>"]),
        ),
        (
            "SASL after a login",
            At::LoggedIn,
            vec![plain("\0alice\0secret")],
        ),
        (tls, At::Tls, some(&[starttls])),
        (tls, At::LoggedIn, some(&[starttls])),
        (
            "an element of a session that is no stanza of `jabber:client`",
            At::Bound,
            some(&foreign),
        ),
        (
            "elements before a session; a registration that succeeds begins anew",
            At::LoggedIn,
            vec![
                "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                 <resource>\u{7f}</resource></bind></iq>"
                    .repeat(33),
            ],
        ),
        (
            "a sender that is not the session",
            At::Bound,
            some(&[
                "<message from='eve@localhost'/>",
                "<message from='alice@localhost/y'/>",
                "<message from='&#101;ve@localhost'/>",
            ]),
        ),
        (
            "an IQ without `id` or a known type, a request without exactly one child",
            At::Bound,
            some(&requests),
        ),
        (
            "presence of an unknown type",
            At::Bound,
            some(&["<presence type='odd'/>"]),
        ),
        (
            "a recipient that is no address",
            At::Bound,
            some(&[
                "<message to='@@'/>",
                "<message to=''/>",
                "<message to='a b@c'/>",
            ]),
        ),
    ]
}

pub(crate) fn logins() -> Vec<Case> {
    let long = |count| "x".repeat(count);
    let form = "bytes of a message; one that is not UTF-8 or not of the mechanism's form";
    let unknown = "a mechanism that is unknown or not offered";
    vec![
        (
            unknown,
            At::Tls,
            vec![
                auth("NOPE", "x"),
                auth("", "x"),
                auth("plain", "\0alice\0secret"),
            ],
        ),
        (
            unknown,
            At::Features,
            vec![auth("SCRAM-SHA-1-PLUS", "p=tls-exporter,,n=alice,r=1")],
        ),
        (
            "PLAIN without TLS, or anything where TLS is required",
            At::Features,
            vec![plain("\0alice\0secret")],
        ),
        (
            "what is not Base64, or not in its only spelling",
            At::Tls,
            ["?", "AGE", "AGF=", "A GE="]
                .map(|content| encoded_auth("PLAIN", content))
                .to_vec(),
        ),
        (
            form,
            At::Tls,
            vec![
                plain(&format!("\0alice\0{}", long(4096))),
                plain("alice"),
                plain("\0alice\0secret\0"),
                encoded_auth("PLAIN", "/w=="),
                encoded_auth("PLAIN", "<a/>"),
                auth("SCRAM-SHA-1", "n,,m=x,n=alice,r=1"),
                auth("SCRAM-SHA-1", "n,,n=al=41ice,r=1"),
                auth("SCRAM-SHA-1", "n,,n=alice,r="),
                auth("SCRAM-SHA-1", "p=tls-exporter,,n=alice,r=1"),
                auth("SCRAM-SHA-1-PLUS", "n,,n=alice,r=1"),
                auth("SCRAM-SHA-1", "n,,n=alice,r=1") + &response("c=biws"),
            ],
        ),
        (
            "bytes of a client's nonce",
            At::Tls,
            vec![auth("SCRAM-SHA-1", &format!("n,,n=alice,r={}", long(513)))],
        ),
        ("a response to no challenge", At::Tls, vec![response("x")]),
        (
            "an identity to act as that is not one's own",
            At::Tls,
            vec![
                plain("bob@localhost\0alice\0secret"),
                plain("alice@other.example\0alice\0secret"),
                plain("alice\0alice\0secret"),
                plain("alice@localhost/x\0alice\0secret"),
                plain("\u{430}lice@localhost\0alice\0secret"),
                auth("SCRAM-SHA-1", "n,a=bob@localhost,n=alice,r=1"),
            ],
        ),
        (
            "a wrong password, a user that does not exist or cannot exist",
            At::Tls,
            vec![
                plain("\0alice\0wrong"),
                plain("\0nobody\0secret"),
                plain("\0a b\0secret"),
                plain(&format!("\0alice\0{}", long(1025))),
                scram("n,,n=alice,r=1", "c=biws,r=1ours"),
                scram("n,,n=nobody,r=1", "c=biws,r=1ours"),
            ],
        ),
        (
            "a nonce, a proof or a channel binding that was changed on the way",
            At::Tls,
            vec![
                scram("n,,n=alice,r=1", "c=biws,r=1theirs"),
                scram("n,,n=alice,r=1", "c=biws,r=1"),
                scram("n,,n=alice,r=1", "c=eSws,r=1ours"),
                auth("SCRAM-SHA-1-PLUS", "p=tls-unique,,n=alice,r=1"),
            ],
        ),
        (
            "a client that was made to believe that there is no channel to bind to",
            At::Tls,
            vec![auth("SCRAM-SHA-1", "y,,n=alice,r=1")],
        ),
        (
            "a login that the client breaks off",
            At::Tls,
            vec![
                auth("SCRAM-SHA-1", "n,,n=alice,r=1")
                    + "<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
            ],
        ),
        (
            "an account that cannot be read, or a password that cannot be checked at the moment",
            At::Tls,
            vec![plain("\0busy\0secret"), plain("\0alice\0busy")],
        ),
        (
            "failed logins of one stream",
            At::Tls,
            vec![plain("\0alice\0wrong").repeat(5)],
        ),
    ]
}

/// Rows that other tests show, by file.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("bytes that are not UTF-8", HERE),
    ("an element that comes slowly, or not to its end", HERE),
    (
        "bytes of one stanza",
        "tests/scripts/stream_ends_at_a_stanza_that_is_too_large.xmpp",
    ),
    (
        "bytes before a session; likewise",
        "tests/scripts/stream_before_login_is_bounded.xmpp",
    ),
    (
        "`<enable/>` or `<resume/>` before there may be one",
        "tests/scripts/sm_before_a_login_is_refused.xmpp",
    ),
    (
        "what was sent in the clear behind STARTTLS",
        "crates/net/tests/tls.rs",
    ),
    ("another domain after a login", HERE),
    ("bytes of the header's language", HERE),
    ("a resource that is none", HERE),
    ("a message of an unknown type", HERE),
    ("a locked account", HERE),
];

const HERE: &str = "crates/xmpp/tests/bad_input.rs";

/// Rows on addresses: what is written, and its normal form (nothing if there is none).
pub(crate) const ADDRESSES: &[(&str, &[(&str, &str)])] = &[
    (
        "case, compatibility forms, A-labels, the final dot of a domain",
        &[
            ("Alice@LOCALHOST./X", "alice@localhost/X"),
            ("\u{ff21}lice@localhost", "alice@localhost"),
            ("\u{fb01}n@localhost", "fin@localhost"),
            ("a@XN--BCHER-KVA.example", "a@bücher.example"),
            ("a\u{ad}b@localhost", "ab@localhost"),
        ],
    ),
    (
        "letters that only look alike",
        &[("\u{430}lice@localhost", "\u{430}lice@localhost")],
    ),
    (
        "an empty part, a second `@`, separators out of other characters",
        &[
            ("@localhost", ""),
            ("alice@", ""),
            ("alice@localhost/", ""),
            ("a@b@c", ""),
            ("a\u{ff20}b@localhost", ""),
            ("alice@ex\u{ff0f}ample", ""),
        ],
    ),
    (
        "characters a part may not have, of mixed directions, or later than Unicode 3.2",
        &[
            ("a b@localhost", ""),
            ("a\"b@localhost", ""),
            ("alice@localhost/\u{7}", ""),
            ("alice@local host", ""),
            ("\u{5d0}a@localhost", ""),
            ("alice@localhost/\u{1F916}", ""),
        ],
    ),
];
