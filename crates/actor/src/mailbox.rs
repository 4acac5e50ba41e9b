//! A mailbox: messages in order, and a priority lane that goes first (exits, timers, answers).

use std::any::Any;
use std::collections::VecDeque;

use crate::limits::PRIORITY_MAX;

/// A mailbox of 40 bytes that owns no memory while it is empty and small.
pub(crate) struct Mailbox<M> {
    normal: VecDeque<M>,
    priority: Option<Box<VecDeque<M>>>,
}

/// Messages above which an emptied mailbox gives its memory back.
const KEPT_CAPACITY: usize = 4;

impl<M> Mailbox<M> {
    pub(crate) fn new() -> Self {
        Mailbox {
            normal: VecDeque::new(),
            priority: None,
        }
    }

    pub(crate) fn push(&mut self, msg: M, max: usize) -> Result<(), M> {
        if self.normal.len() >= max {
            return Err(msg);
        }
        self.normal.push_back(msg);
        Ok(())
    }

    /// `reserved`: room was promised when the question was asked.
    pub(crate) fn push_priority(&mut self, msg: M, reserved: bool) -> Result<(), M> {
        let lane = self.priority.get_or_insert_default();
        if !reserved && lane.len() >= PRIORITY_MAX {
            return Err(msg);
        }
        lane.push_back(msg);
        Ok(())
    }

    /// The next message; while `held`, only of the priority lane.
    pub(crate) fn pop(&mut self, held: bool) -> Option<M> {
        if let Some(lane) = &mut self.priority {
            let msg = lane.pop_front();
            if lane.is_empty() {
                self.priority = None;
            }
            if msg.is_some() {
                return msg;
            }
        }
        if held {
            return None;
        }
        let msg = self.normal.pop_front();
        if self.normal.is_empty() && self.normal.capacity() > KEPT_CAPACITY {
            self.normal = VecDeque::new();
        }
        msg
    }
}

/// A mailbox of whatever type.
pub(crate) trait AnyMailbox {
    fn as_any(&mut self) -> &mut dyn Any;
    fn len(&self) -> usize;
    /// Whether there is something to handle.
    fn is_ready(&self, held: bool) -> bool;
    fn push_any(
        &mut self,
        msg: Box<dyn Any + Send>,
        priority: bool,
        max: usize,
    ) -> Result<(), Box<dyn Any + Send>>;
    /// Everything that waits, in order.
    fn drain_any(&mut self) -> Vec<Box<dyn Any + Send>>;
}

impl<M: Send + 'static> AnyMailbox for Mailbox<M> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        self.normal.len() + self.priority.as_ref().map_or(0, |lane| lane.len())
    }

    fn is_ready(&self, held: bool) -> bool {
        self.priority.is_some() || (!held && !self.normal.is_empty())
    }

    fn push_any(
        &mut self,
        msg: Box<dyn Any + Send>,
        priority: bool,
        max: usize,
    ) -> Result<(), Box<dyn Any + Send>> {
        let msg = *msg.downcast::<M>()?;
        let pushed = if priority {
            self.push_priority(msg, true)
        } else {
            self.push(msg, max)
        };
        pushed.map_err(|msg| Box::new(msg) as Box<dyn Any + Send>)
    }

    fn drain_any(&mut self) -> Vec<Box<dyn Any + Send>> {
        let lane = self.priority.take().map(|lane| *lane).unwrap_or_default();
        let all = lane.into_iter().chain(std::mem::take(&mut self.normal));
        all.map(|msg| Box::new(msg) as Box<dyn Any + Send>)
            .collect()
    }
}
