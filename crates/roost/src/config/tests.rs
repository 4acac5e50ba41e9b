//! The configuration as tables: what is refused and with which words, what is accepted and as what.

use std::time::Duration;

use super::table::SECTIONS;
use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Some(Path::new("/etc/roost/roost.toml")))
}

fn problems(text: &str) -> String {
    let error = parse(text).expect_err("refused").to_string();
    error.replace("/etc/roost/roost.toml:", "")
}

#[test]
fn an_empty_file_is_the_defaults() {
    let config = parse("").expect("defaults");
    let keys: usize = SECTIONS.iter().map(|section| section.keys.len()).sum();
    assert_eq!(
        config.resolved.len(),
        keys,
        "every key of the table is read"
    );
    assert_eq!(
        config.settings.node.data,
        Path::new("/etc/roost/roost-data")
    );
    assert_eq!(config.domains(), ["localhost"]);
    assert!(config.resolved.iter().all(|key| !key.is_given));
    assert_eq!(config.notes(), Vec::<String>::new());
}

/// The default file must parse to the defaults, as printed and with every key switched on.
#[test]
fn the_default_file_says_the_defaults() {
    let printed = default_file();
    let defaults = parse("").expect("defaults");
    let as_printed = parse(&printed).expect("as printed");
    assert_eq!(as_printed.settings, defaults.settings);
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    let switched_on: String = printed
        .lines()
        .map(|line| if is_key(&line) { &line[1..] } else { line })
        .flat_map(|line| [line, "\n"])
        .collect();
    let all = parse(&switched_on).expect("every key given");
    assert_eq!(all.settings, defaults.settings);
    assert!(
        all.resolved.iter().all(|key| key.is_given),
        "every key is in the file"
    );
    assert!(
        printed.lines().all(|line| line.len() <= 100),
        "lines stay readable"
    );
}

#[test]
fn the_contract_of_outside_tools() {
    let config = parse(
        "domain = \"localhost\"\n\
         data = \"/var/tmp/d\"\n\
         [c2s]\n\
         listen = [\"127.0.0.1:5222\"]\n\
         listen_tls = []\n\
         require_tls = false\n\
         [auth]\n\
         mechanisms = [\"SCRAM-SHA-1\", \"PLAIN\"]\n\
         plain_without_tls = true\n\
         [registration]\n\
         enabled = true\n\
         [store]\n\
         durability = \"memory\"\n\
         [archive]\n\
         enabled = false\n\
         [limits]\n\
         exempt_addresses = [\"127.0.0.0/8\", \"::1\"]\n",
    )
    .expect("accepted");
    let settings = &config.settings;
    assert_eq!(settings.node.data, Path::new("/var/tmp/d"));
    assert_eq!(
        settings.c2s.listen,
        ["127.0.0.1:5222".parse().expect("address")]
    );
    assert!(settings.c2s.listen_tls.is_empty());
    assert!(!settings.c2s.require_tls && settings.auth.plain_without_tls);
    assert_eq!(settings.auth.mechanisms, ["SCRAM-SHA-1", "PLAIN"]);
    assert!(settings.registration.enabled && !settings.archive.enabled);
    assert_eq!(settings.store.durability, Durability::Memory);
    assert!(config.is_given("c2s.listen") && !config.is_given("http.listen"));
    assert_eq!(config.notes().len(), 2);
    let address = |text: &str| vec![text.parse::<SocketAddr>().expect("address")];
    assert_eq!(settings.http.listen, address("127.0.0.1:5280"));
    assert_eq!(settings.http.listen_tls, address("127.0.0.1:5443"));
    assert!(settings.http.websocket && settings.http.bosh && settings.web.client);
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let cases = [
        (
            "domian = \"a\"",
            "1: unknown key `domian`; did you mean `domain`?",
        ),
        (
            "\n[c2s]\nlisten_ssl = []",
            "3: unknown key `c2s.listen_ssl`; did you mean `listen_tls`?",
        ),
        (
            "[c2]\nlisten = []",
            "1: unknown section [c2]; did you mean [c2s]?",
        ),
        (
            "listen = []",
            "1: unknown key `listen`; `listen` belongs in section [c2s]",
        ),
        (
            "[c2s]\ndata = \"x\"",
            "2: unknown key `c2s.data`; `data` stands before the first [section]",
        ),
        (
            "[auth]\nrequire_tls = true",
            "2: unknown key `auth.require_tls`; `require_tls` belongs in section [c2s]",
        ),
        (
            "[store]\nstanza_byte_max = 1",
            "2: unknown key `store.stanza_byte_max`; did you mean `limits.stanza_bytes_max`?",
        ),
        (
            "[store]\ncolour = 1",
            "2: unknown key `store.colour`; `roost config` prints every key there is",
        ),
        (
            "[modules]\ncarbon = false",
            "2: unknown key `modules.carbon`; did you mean `carbons`?",
        ),
        (
            "[modules]\nroster = false",
            "2: unknown key `modules.roster`; roster is always on: it is a part of RFC 6121",
        ),
        ("c2s = 5", "1: `c2s` is a section: write [c2s]"),
        (
            "[limits.more]\nx = 1",
            "1: unknown key `limits.more`; `roost config` prints every key \
                                  there is",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(
            problems(text),
            format!(" {expected}").trim_start(),
            "{text}"
        );
    }
    let section = problems("[zebra]\nx = 1");
    assert!(
        section.starts_with("1: unknown section [zebra]; there are c2s, tls, "),
        "{section}"
    );
}

#[test]
fn wrong_types_and_values_say_what_is_taken() {
    let cases = [
        (
            "domain = 5",
            "1: `domain` takes a domain such as \"example.org\", not an integer",
        ),
        (
            "domain = \"a b\"",
            "1: `domain` takes a domain such as \"example.org\", not \"a b\"",
        ),
        ("data = \"\"", "1: `data` takes a path, not \"\""),
        (
            "[domain]\nx = 1",
            "1: `domain` takes a domain such as \"example.org\", not a table",
        ),
        (
            "[c2s]\nrequire_tls = \"yes\"",
            "2: `c2s.require_tls` takes true or false, not a string",
        ),
        (
            "[c2s]\nlisten = \"127.0.0.1:5222\"",
            "2: `c2s.listen` takes a list of 0 to 256 entries, each an address and port such as \
             \"127.0.0.1:5222\" or \"[::1]:5222\", not a string",
        ),
        (
            "[c2s]\nlisten = [\"localhost:5222\"]",
            "2: `c2s.listen` takes an address and port such as \"127.0.0.1:5222\" or \
             \"[::1]:5222\", not \"localhost:5222\"",
        ),
        (
            "[limits]\nstanza_bytes_max = 9_999",
            "2: `limits.stanza_bytes_max` takes a whole number from 10_000 to 16_777_216 (bytes), \
             not 9999",
        ),
        (
            "[limits]\nwindow_max = -1",
            "2: `limits.window_max` takes a whole number from 1 to 10_000 (stanzas), not -1",
        ),
        (
            "[limits]\nwindow_max = 1.5",
            "2: `limits.window_max` takes a whole number from 1 to 10_000 (stanzas), not a float",
        ),
        (
            "[limits]\nlogin_timeout = 30",
            "2: `limits.login_timeout` takes a time from \"1s\" to \"1h\" (units: ms, s, m, h, d), \
             not an integer",
        ),
        (
            "[limits]\nlogin_timeout = \"2d\"",
            "2: `limits.login_timeout` takes a time from \"1s\" to \"1h\" (units: ms, s, m, h, d), \
             not \"2d\"",
        ),
        (
            "[limits]\nexempt_addresses = [\"1.2.3.4/40\"]",
            "2: `limits.exempt_addresses` takes an address or network such as \"127.0.0.0/8\" or \
             \"2001:db8::/32\", not \"1.2.3.4/40\"",
        ),
        (
            "[store]\ndurability = \"disk\"",
            "2: `store.durability` takes one of \"fsync\", \"memory\", not \"disk\"",
        ),
        (
            "[auth]\nmechanisms = []",
            "2: `auth.mechanisms` takes a list of 1 to 256 entries, each one of \
             \"SCRAM-SHA-256-PLUS\", \"SCRAM-SHA-256\", \"SCRAM-SHA-1-PLUS\", \"SCRAM-SHA-1\", \
             \"PLAIN\", not 0",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(problems(text), expected, "{text}");
    }
}

#[test]
fn integers_of_any_radix_are_read() {
    for text in ["0x40", "64", "+64", "0o100", "0b1000000", "6_4"] {
        let config = parse(&format!("[limits]\nwindow_max = {text}")).expect(text);
        assert_eq!(config.settings.limits.window_max, 64);
    }
}

#[test]
fn every_problem_is_reported_at_once_in_order() {
    let text = "[c2s]\nrequire_tls = 1\n\n[limits]\nwindow = 1\nwindow_max = 0\n";
    let report = problems(text);
    let lines: Vec<&str> = report.lines().collect();
    assert_eq!(lines.len(), 3, "{report}");
    assert!(
        lines[0].starts_with("2: ") && lines[1].starts_with("5: "),
        "{report}"
    );
    let many: String = (0..50).map(|n| format!("zz{n} = 1\n")).collect();
    assert!(problems(&many).ends_with("and 30 more problems"));
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let report = problems("domain = \"a\"\nlisten = [\n");
    assert!(
        report.starts_with("2: not TOML: ") || report.starts_with("3: not TOML: "),
        "{report}"
    );
    let twice = problems("domain = \"a\"\ndomain = \"b\"\n");
    assert!(twice.starts_with("2: not TOML: duplicate key"), "{twice}");
}

#[test]
fn contradictions_say_what_to_do() {
    let cases = [
        (
            "domains = [\"localhost\"]",
            "domain localhost is given twice",
        ),
        (
            "domains = [\"a.example\", \"A.example\"]",
            "domain a.example is given twice",
        ),
        (
            "[pubsub]\nhost = \"conference\"",
            "conference.localhost is a domain of accounts or rooms: give nodes another \
             `pubsub.host` than conference",
        ),
        (
            "[rooms]\nsearch_host = \"pubsub\"",
            "pubsub.localhost is a domain of accounts, rooms or nodes: give searches another \
             `rooms.search_host` than pubsub",
        ),
        (
            "domains = [\"pubsub.localhost\"]",
            "pubsub.localhost is a domain of accounts or rooms: give nodes another `pubsub.host` \
             than pubsub",
        ),
        (
            "[tls]\ncertificate = \"c\"",
            "`tls.certificate` needs `tls.key`",
        ),
        ("[tls]\nkey = \"c\"", "`tls.key` needs `tls.certificate`"),
        (
            "[c2s]\nlisten = [\"127.0.0.1:1\"]\nlisten_tls = [\"127.0.0.1:1\"]",
            "127.0.0.1:1 is given twice",
        ),
        (
            "[c2s]\nrequire_tls = false\n[auth]\nmechanisms = [\"PLAIN\"]",
            "there must be a mechanism",
        ),
        (
            "[server]\nsplit = true\n[cluster]\nengine = [\"nats://localhost:4222\"]",
            "`server.split` is for a server that stands alone",
        ),
        (
            "[limits]\nstanza_bytes_max = 4_194_305\n[cluster]\nengine = [\"nats://localhost:4222\"]",
            "`limits.stanza_bytes_max` is at most 4194304 in a cluster",
        ),
        (
            "[limits]\nstanza_bytes_max = 3_000_000",
            "`limits.backlog_bytes_max` must be at least `limits.stanza_bytes_max`",
        ),
    ];
    for (text, expected) in cases {
        let report = problems(text);
        assert!(report.contains(expected), "{text}: {report}");
    }
}

/// Goal: more places to listen at than the network takes are refused with the keys that name them;
/// components that share a place are one.
#[test]
fn places_to_listen_at_are_bounded() {
    let listen: Vec<String> = (1..=60)
        .map(|port| format!("\"127.0.0.2:{port}\""))
        .collect();
    let text = |component: &str| {
        let rest = "listen_tls = []\n[http]\nlisten = [\"127.0.0.1:5280\", \"127.0.0.1:5281\"]\n\
                    listen_tls = [\"127.0.0.1:5443\"]\n";
        let listen = listen.join(", ");
        let sms = COMPONENT.replace("irc.localhost", "sms.localhost");
        format!("[c2s]\nlisten = [{listen}]\n{rest}{COMPONENT}{sms}{component}")
    };
    assert!(parse(&text("")).is_ok());
    let third = COMPONENT
        .replace("irc.localhost", "x.localhost")
        .replace("5347", "5348");
    let said = problems(&text(&third));
    assert!(
        said.contains("have 65 places to listen at: there may be 64"),
        "{said}"
    );
    assert!(said.contains("`c2s.listen`"), "{said}");
}

#[test]
fn a_reload_knows_what_it_can_apply() {
    let old = parse("[server]\ndrain_timeout = \"5m\"").expect("old");
    let new = parse("domain = \"b.example\"\n[server]\ndrain_timeout = \"90s\"").expect("new");
    let (live, later) = old.changes(&new);
    assert_eq!(live, ["server.drain_timeout = \"90s\" (was \"5m\")"]);
    assert_eq!(later, ["domain = \"b.example\" (was \"localhost\")"]);
    assert_eq!(new.settings.server.drain_timeout, Duration::from_secs(90));
}

#[test]
fn relative_paths_start_at_the_file() {
    let config =
        parse("data = \"d\"\n[tls]\ncertificate = \"c.pem\"\nkey = \"/k.pem\"").expect("ok");
    assert_eq!(config.settings.node.data, Path::new("/etc/roost/d"));
    assert_eq!(
        config.settings.tls.certificate.as_deref(),
        Some(Path::new("/etc/roost/c.pem"))
    );
    assert_eq!(
        config.settings.tls.key.as_deref(),
        Some(Path::new("/k.pem"))
    );
    let here = Config::parse("data = \"d\"", None).expect("ok");
    assert_eq!(here.settings.node.data, Path::new("d"));
}

#[test]
fn the_markdown_page_names_every_key() {
    let page = markdown();
    for section in SECTIONS {
        for key in section.keys {
            assert!(page.contains(&format!("| `{}`", key.name)), "{}", key.name);
        }
    }
}

#[test]
fn the_page_of_the_documentation_is_the_printed_one() {
    let page = include_str!("../../../../docs/configuration.md");
    assert!(
        markdown() == page,
        "write it again: roost config --markdown > docs/configuration.md"
    );
}

#[test]
fn every_extension_has_its_switch_and_says_what_it_needs() {
    let section = SECTIONS.iter().find(|section| section.name == "modules");
    let keys = section.expect("the section").keys;
    let switched = server::modules::MODULES.iter();
    let switched = switched.filter(|module| module.switch == server::modules::Switch::ByOperator);
    let switched: Vec<_> = switched.collect();
    let names: Vec<&str> = switched.iter().map(|module| module.name).collect();
    assert_eq!(keys.iter().map(|key| key.name).collect::<Vec<_>>(), names);
    for (key, module) in keys.iter().zip(switched) {
        let help = key.help.concat();
        for need in module.needs {
            assert!(help.contains(&format!("`{need}`")), "{}: {need}", key.name);
        }
        let config = parse(&format!("[modules]\n{} = false", key.name)).expect("a switch");
        assert_eq!(config.switched_off().collect::<Vec<_>>(), [key.name]);
    }
}

#[test]
fn what_needs_an_extension_that_is_off_is_off_or_refused() {
    let config = parse("[modules]\nvcard = false").expect("it may be off");
    let note = "modules.avatar is off too: it needs modules.vcard";
    assert!(config.notes().iter().any(|found| found == note));
    let refused = problems("[modules]\nvcard = false\navatar = true");
    assert!(
        refused.contains("`modules.avatar` needs `modules.vcard`, which is off"),
        "{refused}"
    );
    assert!(parse("[modules]\nvcard = false\navatar = false").is_ok());
}

/// Goal: a section [cluster] that could not serve is refused with what to write instead; without an
/// engine it does nothing, and says so.
#[test]
fn a_cluster_that_could_not_serve_is_refused() {
    let good = "[cluster]\nengine = [\"nats://n1:4222\"]\nmonitor = [\"http://n1:8222\"]\n\
                name = \"a\"\n";
    parse(good).expect("a good one");
    let with = |line: &str| problems(&format!("{good}{line}\n"));
    let cases = [
        ("streams = 3", "3 streams: choose a power of two"),
        ("deployment = \"a.b\"", "\"a.b\" is no name"),
        (
            "listen = \"192.0.2.1:5290\"",
            "links are not encrypted, and only a loopback address is accepted",
        ),
        (
            "listen = \"[::]:5290\"",
            "`roost cluster certificates` makes the files",
        ),
        ("certificate = \"a.pem\"", "belong together: give all three"),
        ("ca = \"ca.pem\"\nkey = \"a.key\"", "belong together"),
        ("engine_key = \"a.key\"", "give both, or none"),
        ("engine_certificate = \"a.pem\"", "give both, or none"),
        ("address = \"a.example.org\"", "is no host with a port"),
        ("address = \"a.example.org:0\"", "is no host with a port"),
        ("listen = \"127.0.0.1:0\"", "needs a port"),
        ("[chaos]\nenabled = true", "switch them off in a cluster"),
        ("[debug]\ncommit_delay = \"1s\"", "switch them off"),
    ];
    for (line, expected) in cases {
        let said = with(line);
        assert!(said.contains(expected), "{line}: {said}");
    }
    let files = "certificate = \"a.pem\"\nkey = \"a.key\"\nca = \"ca.pem\"";
    let everywhere = with(&format!("listen = \"0.0.0.0:5290\"\n{files}"));
    let expected = "say in `cluster.address` where other nodes reach this one";
    assert!(everywhere.contains(expected), "{everywhere}");
    let address = "address = \"a.example.org:5290\"";
    let text = format!("{good}listen = \"0.0.0.0:5290\"\n{address}\n{files}");
    let machines = parse(&text).expect("links over machines");
    let ca = machines.settings.cluster.ca;
    assert_eq!(ca.as_deref(), Some(Path::new("/etc/roost/ca.pem")));
    let engine = "engine_ca = \"ca.pem\"\nengine_certificate = \"a.pem\"\nengine_key = \"a.key\"\n\
                  engine_credentials = \"/a.creds\"\nengine_near = \"n1\"";
    let text = format!("{good}{engine}");
    let secured = crate::node::engine(&parse(&text).expect("a secured one"));
    let place = |name: &str| Path::new("/etc/roost").join(name);
    assert_eq!(secured.servers, ["nats://n1:4222"]);
    assert_eq!(secured.near.as_deref(), Some("n1"));
    assert_eq!(
        secured.access,
        cluster::engine::Access {
            ca: Some(place("ca.pem")),
            certificate: Some((place("a.pem"), place("a.key"))),
            credentials: Some(place("/a.creds")),
        }
    );
    let twice = problems(&text.replace("//n1", "//roost:secret@n1"));
    assert!(
        twice.contains("leave the user before the host out"),
        "{twice}"
    );
    for name in ["A", "7", "-a"] {
        let named = problems(&format!("{good}{files}").replace("\"a\"", &format!("\"{name}\"")));
        assert!(named.contains("cannot be in a certificate"), "{named}");
    }
    let alone = problems("[cluster]\nengine = [\"http://n1:4222\"]");
    for expected in [
        "needs `cluster.name`",
        "needs `cluster.monitor`",
        "is no server",
    ] {
        assert!(alone.contains(expected), "{alone}");
    }
    let named = problems(&good.replace("\"a\"", "\"a b\""));
    assert!(named.contains("\"a b\" is no name"), "{named}");
    let idle = Config::parse("[cluster]\nname = \"a\"", None).unwrap();
    assert!(!idle.is_clustered());
    let notes = idle.notes().join("\n");
    assert!(notes.contains("[cluster] does nothing"), "{notes}");
}

const COMPONENT: &str = "[[components]]\ndomain = \"irc.localhost\"\n\
                         listen = \"127.0.0.1:5347\"\nsecret = \"0123456789abcdef\"\n";

#[test]
fn components_have_a_table_each() {
    let text = format!(
        "{COMPONENT}{}",
        COMPONENT
            .replace("irc.localhost", "SMS.Example.org")
            .replace("listen = \"127.0.0.1:5347\"", "socket = \"sms.sock\"")
    );
    let config = parse(&text).expect("accepted");
    let domains = config.components.iter().map(|one| one.domain.as_str());
    assert_eq!(
        domains.collect::<Vec<_>>(),
        ["irc.localhost", "sms.example.org"]
    );
    let place = |at: usize| config.components[at].place.clone();
    let address = "127.0.0.1:5347".parse().expect("an address");
    assert_eq!(place(0), ComponentPlace::Address(address));
    assert_eq!(
        place(1),
        ComponentPlace::Socket("/etc/roost/sms.sock".into())
    );
    assert_eq!(config.components[0].secret.reveal(), "0123456789abcdef");
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
    assert_eq!(config.notes(), Vec::<String>::new());
    let outside = COMPONENT.replace("127.0.0.1", "192.0.2.1");
    let outside = parse(&outside).expect("accepted");
    assert_eq!(outside.notes().len(), 1, "its stream is not encrypted");
    let (_, later) = config.changes(&outside);
    assert_eq!(later, ["[[components]] are others"]);
}

#[test]
fn what_is_wrong_with_a_component_is_said() {
    let with = |from: &str, to: &str| COMPONENT.replace(from, to);
    let cases = [
        (
            with("secret =", "secrt ="),
            "4: unknown key `components.secrt`; did you mean `secret`?",
        ),
        (
            with("domain =", "colour ="),
            "2: unknown key `components.colour`; there are domain,",
        ),
        (
            with("domain = \"irc.localhost\"\n", ""),
            "1: [[components]] needs `domain`",
        ),
        (
            with("listen = \"127.0.0.1:5347\"\n", ""),
            "needs `listen` or `socket`",
        ),
        (
            with("secret = \"0123456789abcdef\"\n", ""),
            "needs `secret` or `secret_file`",
        ),
        (
            with("listen =", "socket = \"a\"\nlisten ="),
            "has `listen` and `socket`",
        ),
        (
            with("secret =", "secret_file = \"a\"\nsecret ="),
            "has `secret` and `secret_file`",
        ),
        (
            with("0123456789abcdef", "short"),
            "4: `components.secret` takes text of 16 to 1024",
        ),
        (
            with("0123456789abcdef", ""),
            "4: `components.secret` is empty",
        ),
        (
            with("127.0.0.1:5347", "localhost"),
            "3: `components.listen` takes an address",
        ),
        (
            with("irc.localhost", "localhost"),
            "localhost is served by the server itself",
        ),
        (
            with("irc.localhost", "conference.localhost"),
            "conference.localhost is served by",
        ),
        (
            with("127.0.0.1:5347", "127.0.0.1:5280"),
            "127.0.0.1:5280 is given twice",
        ),
        (
            format!("{COMPONENT}{COMPONENT}"),
            "the domain irc.localhost is given twice",
        ),
        (
            format!("{COMPONENT}[server]\nsplit = true\n"),
            "cannot be had with",
        ),
        (
            "[components]\ndomain = \"a\"\n".to_owned(),
            "1: `components` is a list of tables",
        ),
        (
            "components = [1]\n".to_owned(),
            "1: `components` is a list of tables",
        ),
    ];
    for (text, expected) in cases {
        let said = problems(&text);
        assert!(said.contains(expected), "{text}: {said}");
        assert!(!said.contains("0123456789abcdef"), "{said}");
    }
}

#[test]
fn the_secret_of_a_component_may_be_in_a_file() {
    let folder = std::env::temp_dir().join(format!("roost-secret-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let text = COMPONENT.replace(
        "secret = \"0123456789abcdef\"",
        "secret_file = \"irc.secret\"",
    );
    let parse = || Config::parse(&text, Some(&folder.join("roost.toml")));
    let missing = parse().expect_err("it is not there").to_string();
    assert!(missing.contains("`components.secret_file`"), "{missing}");
    let write = |secret: &str| fs::write(folder.join("irc.secret"), secret).expect("a file");
    write("short\n");
    let short = parse().expect_err("too short").to_string();
    assert!(short.contains("16 to 1024 bytes, this one 5"), "{short}");
    write("0123456789abcdef\n");
    let config = parse().expect("accepted");
    assert_eq!(config.components[0].secret.reveal(), "0123456789abcdef");
    fs::remove_dir_all(&folder).expect("a folder");
}
