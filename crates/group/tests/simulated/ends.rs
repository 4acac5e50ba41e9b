//! What a process has its node do in its last event is done: nobody hears of its end before.

use std::sync::atomic::Ordering;

use group::{
    Answer, Body, CallError, Command, Event, Limits, Mode, Name, Pid, Process, Reason, Scope,
};

use crate::lab::{Lab, SECOND, name, parse};

/// Asks its node for one of everything in its last event, and ends.
struct Last {
    heir: Pid,
}

impl Process for Last {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        let Event::Request { from, body } = event else {
            return;
        };
        let register = Command::Register {
            group: "g".into(),
            name: Name::from("heir"),
            pid: self.heir.clone(),
            mode: Mode::New,
        };
        cx.command(register, 0).expect("room");
        cx.send(&self.heir, "farewell").expect("room");
        cx.reply(from, body.clone()).expect("room");
        assert_ne!(&body[..], b"panic", "told to");
        cx.stop(Reason::Normal);
    }
}

#[test]
fn last_words_are_heard() {
    for (node, word) in [("a", "stop"), ("b", "stop"), ("a", "panic"), ("b", "panic")] {
        let mut lab = Lab::new();
        for start in ["a", "b"] {
            let options = lab.options(start).function("last", |args: &Body| {
                let heir = parse(args);
                Box::new(Last { heir }) as Box<dyn Process>
            });
            lab.world.start(options).unwrap();
        }
        lab.group("a", "g", &["a", "b"]);
        let heir = lab.spawn("a", "a", "worker", "").unwrap();
        let args = format!("{} {} {}", heir.node, heir.life, heir.id);
        let last = lab.spawn("a", node, "last", &args).unwrap();
        lab.watch("a", &last);
        assert_eq!(lab.call("a", &last, word).unwrap(), word, "at {node}");
        lab.world.run_for(SECOND);
        assert_eq!(lab.heard.load(Ordering::Relaxed), 1, "at {node}: {word}");
        assert_eq!(
            lab.whereis("b", "g", "heir"),
            Some(heir),
            "at {node}: {word}"
        );
        assert_eq!(lab.noted().len(), 2, "the end is heard of: {node} {word}");
        assert_eq!(lab.call("a", &last, word), Err(CallError::NoProcess));
    }
}

/// Answers once.
struct Once;

impl Process for Once {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event {
            // Without room in the node's queue the asker hears that there is no answer.
            let _ = cx.reply(from, body);
            cx.stop(Reason::Normal);
        }
    }
}

/// All at once, with queues that are long and with some that hold two: every asker hears something,
/// with room everybody the answer, and no process stays.
#[test]
fn many_that_answer_and_end_are_all_heard() {
    for queue_max in [Limits::default().queue_max, 2, 0] {
        let mut lab = Lab::new();
        let limits = Limits {
            queue_max,
            ..Limits::default()
        };
        for start in ["a", "b"] {
            let options = lab.options(start).limits(limits.clone());
            let once = |_: &Body| Box::new(Once) as Box<dyn Process>;
            lab.world.start(options.function("once", once)).unwrap();
        }
        let spawn = |at: usize| lab.spawn("a", ["a", "b"][at % 2], "once", "").unwrap();
        let pids: Vec<Pid> = (0..200).map(spawn).collect();
        let call = |to: &Pid| Command::Call {
            to: to.clone(),
            body: "x".into(),
            deadline: SECOND * 5,
        };
        let ask = |pid| lab.world.command(&name("a"), call(pid));
        let tickets: Vec<_> = pids.iter().map(ask).collect();
        lab.world.run_for(SECOND);
        let mut answered = 0;
        for ticket in tickets {
            match ticket.take().expect("an answer") {
                Answer::Called(Ok(body)) if body == "x" => answered += 1,
                Answer::Called(Err(CallError::Dropped)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(answered > 0);
        assert!(answered == 200 || queue_max <= 2, "{answered}");
        for pid in pids {
            assert_eq!(lab.call("a", &pid, "x"), Err(CallError::NoProcess));
        }
    }
}
