//! The others beside the checked users: when they have their turn, and the end that is brought
//! about with them. Owns these moments; who they are and what must hold is in `history/others`.

use super::super::others::{Others, Settling};
use super::Rig;
use crate::history::server::Server;
use std::time::{Duration, Instant};

/// How long they may take to do what they are there for once the last step is done.
const FINISH: Duration = Duration::from_secs(30);
const PACE: Duration = Duration::from_millis(4);

impl Rig {
    /// They come, if they are to, and if the server is one process of ours.
    pub(super) fn bring_others(&mut self) -> Result<(), String> {
        if self.plan.faults.others && matches!(self.server, Server::Roost(..)) {
            self.others = Some(Others::new(self.seed)?);
        }
        Ok(())
    }

    /// They do something, or nothing.
    pub(super) fn tend_others(&mut self) -> Result<(), String> {
        self.tick_others(false)
    }

    fn tick_others(&mut self, is_last: bool) -> Result<(), String> {
        let Some(others) = &mut self.others else {
            return Ok(());
        };
        let online = self.devices.iter().find(|device| device.is_ready());
        let online = online.map(|device| format!("u{}", device.plan.user));
        let online = online.as_deref();
        others.tick(&mut self.server, online, is_last, &mut self.history)
    }

    /// They read and write what there is to read and write.
    pub(super) fn turn_others(&mut self) {
        if let Some(others) = &mut self.others {
            others.turn(&mut self.history);
        }
    }

    /// The server is about to be killed.
    pub(super) fn hold_others(&mut self) -> Result<(), String> {
        self.others.as_mut().map_or(Ok(()), Others::hold)
    }

    /// It is there again.
    pub(super) fn let_others_go_on(&mut self) -> Result<(), String> {
        match &mut self.others {
            Some(others) => others.go_on(&mut self.history),
            None => Ok(()),
        }
    }

    /// All of the crowd write, and the victim is quarantined if it is to be. Checked users do
    /// nothing new meanwhile.
    pub(super) fn let_others_finish(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + FINISH;
        while let Some(others) = &self.others {
            if others.is_done() || Instant::now() > deadline {
                break;
            }
            self.tick_others(true)?;
            self.pump(PACE)?;
        }
        let is_tiny = self.plan.tiny.is_some();
        let wants_restart = |others: &Others| others.wants_restart(is_tiny);
        match self.others.as_ref().is_some_and(wants_restart) {
            true => self.kill(),
            false => Ok(()),
        }
    }

    /// Everything of theirs is settled and read; gives what is wrong.
    pub(super) fn settle_others(&mut self) -> Vec<String> {
        let mut go_on = || -> Result<(), String> {
            while let Some(others) = &mut self.others {
                match others.settle(&mut self.server, &mut self.history)? {
                    Settling::GoesOn => self.pump(PACE)?,
                    Settling::Restart => self.kill()?,
                    Settling::Over => break,
                }
            }
            Ok(())
        };
        let why = go_on().err();
        let findings = self.others.iter().flat_map(Others::findings);
        findings.chain(why).collect()
    }
}
