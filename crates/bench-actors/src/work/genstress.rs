//! Questions by clients whose mailboxes are full of junk: `genstress CLIENTS JUNK CALLS`.
//!
//! An answer here comes by the priority lane and never stands behind junk.

use std::sync::mpsc::SyncSender;

use actor::{Actor, Addr, AskError, Context, Mail, Reply};

use super::Args;
use crate::shards::{Latch, Shards, WITHIN};

struct Server;

impl Actor for Server {
    type Msg = (u64, Reply<u64>);

    fn handle(&mut self, (n, reply): (u64, Reply<u64>), cx: &mut Context<'_, Self::Msg>) {
        reply.send(cx, n + 1);
    }
}

enum ClientMsg {
    Begin(Addr<(u64, Reply<u64>)>),
    Junk,
    Answer(Result<u64, AskError>),
}

struct Client {
    server: Option<Addr<(u64, Reply<u64>)>>,
    junk: usize,
    left: u64,
    done: SyncSender<u64>,
}

impl Client {
    fn call(&mut self, cx: &mut Context<'_, ClientMsg>) {
        let (Some(server), left) = (self.server, self.left) else {
            return;
        };
        cx.ask(
            server,
            move |reply| (left, reply),
            WITHIN,
            ClientMsg::Answer,
        );
    }
}

impl Actor for Client {
    type Msg = ClientMsg;

    fn started(&mut self, cx: &mut Context<'_, ClientMsg>) {
        // Held, so that the junk stays where it is.
        cx.hold();
        for _ in 0..self.junk {
            let _ = cx.send(cx.myself(), ClientMsg::Junk);
        }
    }

    fn handle(&mut self, msg: ClientMsg, cx: &mut Context<'_, ClientMsg>) {
        match msg {
            ClientMsg::Begin(server) => {
                self.server = Some(server);
                self.call(cx);
            }
            ClientMsg::Junk => {}
            ClientMsg::Answer(answer) => {
                // A missing answer shows as a run that does not end.
                self.left -= u64::from(answer.is_ok());
                if self.left == 0 {
                    let _ = self.done.try_send(0);
                } else {
                    self.call(cx);
                }
            }
        }
    }
}

pub(super) fn run(args: &Args) -> Result<f64, String> {
    let (clients, junk, calls) = (args.number(0)?, args.number(1)?, args.number(2)?);
    let shards = Shards::start(args.shards, move |shard| {
        shard.set_mailbox_max::<ClientMsg>(junk.max(1));
    })?;
    let latch = Latch::new(clients);
    let done = latch.sender();
    let server = shards.spawn_many(1, |_| Server)?[0];
    let all = shards.spawn_many(clients, move |_| Client {
        server: None,
        junk,
        left: calls as u64,
        done: done.clone(),
    })?;
    let began = shards.now();
    shards.tell_all(&all, move |_| ClientMsg::Begin(server))?;
    latch.wait()?;
    let micros = shards.micros_since(began);
    shards.stop();
    Ok(micros)
}
