//! Three servers of the engine as processes of this test: on free ports, in a temporary folder,
//! syncing every write, and ended by their process ids.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use cluster::check;
use cluster::engine::{self, Engine};
use cluster::layout::Layout;
use cluster::observe;
use tokio::runtime::{Builder, Runtime};

use crate::secured::Secured;

const SERVERS: usize = 3;

/// What their clients have to know, and the same where an address has it.
const PASSWORD: &str = "p@ss/word";
const IN_AN_ADDRESS: &str = "p%40ss%2Fword";

pub(crate) struct Servers {
    folder: tempfile::TempDir,
    binary: PathBuf,
    ports: Vec<[u16; 3]>,
    running: Vec<Option<Child>>,
    syncs: bool,
    /// Clients are told of the other servers, and go there if theirs falls silent.
    tells: bool,
    /// They ask for certificates and JWTs, and not for a password.
    secured: Option<Secured>,
}

/// The server that `make test` installs, or the one that `NATS_SERVER` names.
fn binary() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/nats-server");
    let named = env::var_os("NATS_SERVER").map(PathBuf::from);
    let binary = named.unwrap_or(installed);
    assert!(
        binary.exists(),
        "{} is missing: `make nats` installs it, which needs Go",
        binary.display()
    );
    binary
}

/// Ports that nobody listens on now. All are held until the last is known, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    held.iter().map(port).collect()
}

impl Servers {
    /// Starts them and waits until streams can be made.
    pub(crate) fn start(syncs: bool) -> Servers {
        Servers::with(syncs, true, false)
    }

    /// The same, which ask for certificates and JWTs.
    pub(crate) fn start_secured() -> Servers {
        Servers::with(true, true, true)
    }

    /// The same, of which none tells clients of the others: who knows a server knows that one.
    pub(crate) fn start_untold() -> Servers {
        Servers::with(true, false, false)
    }

    fn with(syncs: bool, tells: bool, is_secured: bool) -> Servers {
        let ports = free_ports(3 * SERVERS);
        let folder = tempfile::tempdir().unwrap();
        let mut servers = Servers {
            secured: is_secured.then(|| Secured::new(folder.path())),
            folder,
            binary: binary(),
            ports: ports.chunks(3).map(|p| [p[0], p[1], p[2]]).collect(),
            running: (0..SERVERS).map(|_| None).collect(),
            syncs,
            tells,
        };
        for server in 0..SERVERS {
            servers.run(server);
        }
        servers.wait();
        servers
    }

    /// Starts one, with what it had.
    pub(crate) fn run(&mut self, server: usize) {
        self.run_with(server, true);
    }

    /// The same without JetStream.
    pub(crate) fn run_bare(&mut self, server: usize) {
        self.run_with(server, false);
    }

    fn run_with(&mut self, server: usize, has_jetstream: bool) {
        let [client, route, monitor] = self.ports[server];
        let routes: Vec<String> = self.ports.iter().map(|p| route_of(p[1])).collect();
        let sync = if self.syncs {
            "sync_interval: always"
        } else {
            ""
        };
        let folder = self.folder.path().join(server.to_string());
        let folder = folder.display();
        let jetstream = match has_jetstream {
            true => format!("jetstream {{ store_dir: \"{folder}\"\n {sync}\n }}\n"),
            false => String::new(),
        };
        let asks = match &self.secured {
            Some(secured) => secured.configuration.clone(),
            None => format!("authorization {{ user: roost, password: \"{PASSWORD}\" }}\n"),
        };
        // Servers of another test, which may come to ports that were theirs, are refused.
        let name = self.folder.path().display();
        let text = format!(
            "server_name: n{server}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             {asks}{jetstream}cluster {{ name: \"{name}\"\n listen: 127.0.0.1:{route}\n \
             routes: [{}]\n no_advertise: {} }}\n",
            routes.join(", "),
            !self.tells
        );
        let config = self.folder.path().join(format!("{server}.conf"));
        fs::write(&config, text).unwrap();
        let log = fs::File::create(self.folder.path().join(format!("{server}.log"))).unwrap();
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.running[server] = Some(child.unwrap());
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, server: usize) {
        if let Some(mut child) = self.running[server].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// `-STOP` or `-CONT`.
    pub(crate) fn signal(&self, server: usize, name: &str) {
        let child = self.running[server].as_ref().unwrap();
        let sent = Command::new("kill")
            .args([name, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn options(&self) -> engine::Options {
        let access = self.secured.as_ref().map(Secured::access);
        engine::Options {
            access: access.unwrap_or_default(),
            ..engine::Options::new((0..SERVERS).map(|server| self.address(server)).collect())
        }
    }

    /// Files of an engine that asks for them.
    pub(crate) fn secured(&self) -> &Secured {
        self.secured.as_ref().unwrap()
    }

    /// Options of who knows one server, and connects to that.
    pub(crate) fn options_of(&self, server: usize) -> engine::Options {
        engine::Options::new(vec![self.address(server)])
    }

    /// Those of who does not know the password.
    pub(crate) fn options_of_strangers(&self) -> [engine::Options; 2] {
        let port = self.ports[0][0];
        ["", "roost:other@"]
            .map(|login| engine::Options::new(vec![format!("nats://{login}127.0.0.1:{port}")]))
    }

    fn address(&self, server: usize) -> String {
        let login = match &self.secured {
            Some(_) => String::new(),
            None => format!("roost:{IN_AN_ADDRESS}@"),
        };
        format!("nats://{login}127.0.0.1:{}", self.ports[server][0])
    }

    pub(crate) fn observe(&self, layout: &Layout, create: bool) -> observe::Options {
        let monitor = |ports: &[u16; 3]| format!("http://127.0.0.1:{}", ports[2]);
        observe::Options {
            engine: self.options(),
            monitor: self.ports.iter().map(monitor).collect(),
            layout: layout.clone(),
            create,
            check: check::Options::default(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes the streams of a layout, however long the servers take to find each other.
    pub(crate) fn create(&self, layout: &Layout) {
        let started = Instant::now();
        while let Err(error) = observe::run(&self.observe(layout, true)) {
            assert!(started.elapsed() < Duration::from_secs(30), "{error}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// The number of the server that leads the map, however long the others take to elect it.
    pub(crate) fn leader_of_map(&self, layout: &Layout) -> usize {
        let leader = runtime().block_on(async {
            let engine = Engine::connect(&self.options(), layout.clone()).await;
            let engine = engine.unwrap();
            for _ in 0..100 {
                if let Some(leader) = engine.map_leader().await {
                    return leader;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            panic!("nobody leads the map");
        });
        leader.strip_prefix('n').unwrap().parse().unwrap()
    }

    /// Waits until a server answers what the leader of the map has to answer.
    pub(crate) fn await_answers(&self, server: usize, layout: &Layout) {
        let started = Instant::now();
        let has_answer = async || {
            let engine = Engine::connect(&self.options_of(server), layout.clone()).await;
            match engine {
                Ok(engine) => engine.map_leader().await.is_some(),
                Err(_) => false,
            }
        };
        while !runtime().block_on(has_answer()) {
            assert!(started.elapsed() < Duration::from_secs(30), "no answer");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks the engine.
    pub(crate) fn ask<T>(&self, layout: &Layout, ask: impl AsyncFnOnce(Engine) -> T) -> T {
        runtime().block_on(async {
            let engine = Engine::connect(&self.options(), layout.clone()).await;
            ask(engine.unwrap()).await
        })
    }

    async fn jetstream(&self) -> async_nats::jetstream::Context {
        let login = async_nats::ConnectOptions::new();
        let login = login.user_and_password("roost".to_owned(), PASSWORD.to_owned());
        let client = login.connect(self.address(0)).await.unwrap();
        async_nats::jetstream::new(client)
    }

    /// Bounds the bytes of a stream of the engine's own.
    pub(crate) fn limit(&self, stream: &str, bytes_max: i64) {
        runtime().block_on(async {
            let jetstream = self.jetstream().await;
            let mut handle = jetstream.get_stream(stream).await.unwrap();
            let mut config = handle.info().await.unwrap().config.clone();
            config.max_bytes = bytes_max;
            jetstream.update_stream(config).await.unwrap();
        });
    }

    /// Removes what has such a subject from a stream of the engine's own.
    pub(crate) fn purge(&self, stream: &str, subject: &str) {
        runtime().block_on(async {
            let jetstream = self.jetstream().await;
            let handle = jetstream.get_stream(stream).await.unwrap();
            let purged = handle.purge().filter(subject).await.unwrap();
            assert!(purged.purged > 0);
        });
    }

    /// Deletes an entry of a map as an operator does.
    pub(crate) fn delete(&self, layout: &Layout, key: &str) {
        runtime().block_on(async {
            let jetstream = self.jetstream().await;
            let bucket = jetstream.get_key_value(layout.map_bucket()).await.unwrap();
            bucket.delete(key).await.unwrap();
        });
    }

    /// Writes one.
    pub(crate) fn put(&self, layout: &Layout, key: &str, value: &str) {
        runtime().block_on(async {
            let jetstream = self.jetstream().await;
            let bucket = jetstream.get_key_value(layout.map_bucket()).await.unwrap();
            bucket.put(key, value.to_owned().into()).await.unwrap();
        });
    }

    fn wait(&self) {
        self.create(&Layout::new("wait", 1).unwrap());
    }
}

/// To wait in.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn route_of(port: u16) -> String {
    format!("\"nats://127.0.0.1:{port}\"")
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in 0..SERVERS {
            self.kill(server);
        }
    }
}
