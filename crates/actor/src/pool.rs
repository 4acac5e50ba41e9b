//! Threads for work that blocks or takes long: store reads, key derivation.
//!
//! Owns the threads and their bounded queue, which refuses at once when it is full. Deliberately
//! not here: how the result gets back (see [`crate::Context::blocking`]).
//!
//! A simulation has no threads: its pool runs each job at once, or, while its [`Delay`] is on, when
//! it is told to, in any order, as threads that are slow would.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::{fmt, io, mem};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// There is no room for another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

impl fmt::Display for PoolFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many blocking jobs are waiting")
    }
}

impl std::error::Error for PoolFull {}

/// A pool of named threads. Its threads end when the last clone is gone and the queue is done.
#[derive(Clone, Debug)]
pub struct Pool(Runs, Lane);

/// Who runs the jobs of a pool.
#[derive(Clone, Debug)]
enum Runs {
    /// Its threads.
    Threads(Arc<Owner>),
    /// Whoever hands one over, unless it is delayed.
    Caller(Delay),
}

/// Which queue a clone's jobs wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    First,
    Later,
}

/// What all clones of a pool share; its end is the end of the threads.
#[derive(Debug)]
struct Owner(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    /// Jobs that no thread has taken yet, in each lane.
    max: usize,
    /// Jobs of the later lane that are done at a time.
    later_max: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Done when no other job waits.
    later: VecDeque<Job>,
    /// How many of those are under way.
    later_running: usize,
    /// Threads that sleep. A job wakes one of them, the one that fell asleep last: its memory is
    /// still in the caches, and where there is little to do the others are never touched.
    idle: Vec<Thread>,
    /// Threads that were woken and have not come yet. While one is on its way no job wakes another:
    /// it does so itself if it leaves something. Many jobs at once would otherwise cost their
    /// caller a system call each.
    coming: usize,
    /// No more jobs will come.
    is_closed: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("jobs", &self.jobs.len())
            .field("later", &self.later.len())
            .field("idle", &self.idle.len())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts `threads` threads behind a queue of at most `queue_max` jobs.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub fn new(name: &str, threads: usize, queue_max: usize) -> io::Result<Pool> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            // Without a thread, what waited would wait for ever.
            max: if threads == 0 { 0 } else { queue_max },
            later_max: (threads / 2).max(1),
        });
        let owner = Arc::new(Owner(Arc::clone(&queue)));
        let pool = Pool(Runs::Threads(owner), Lane::First);
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || queue.work())?;
        }
        Ok(pool)
    }

    /// A pool that runs each job at once on the caller's thread: for simulations.
    pub fn inline() -> Pool {
        Delay::default().pool()
    }

    /// The same threads, for jobs that are done when no others wait and by at most half of the
    /// threads at a time. They have a queue of their own, of the same length.
    pub fn later(&self) -> Pool {
        Pool(self.0.clone(), Lane::Later)
    }

    /// Hands a job over. A panic of the job stays with it.
    ///
    /// # Errors
    /// [`PoolFull`]; the job did not run and will not.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        self.offer(Box::new(job)).map_err(|_| PoolFull)
    }

    /// Hands a job over, or gives it back.
    pub(crate) fn offer(&self, job: Job) -> Result<(), Job> {
        match &self.0 {
            Runs::Threads(owner) => owner.0.offer(job, self.1),
            Runs::Caller(delay) => {
                delay.take(job);
                Ok(())
            }
        }
    }

    /// Hands a job over whose result is passed on. A delay may come between the two.
    pub(crate) fn run_and<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
        pass_on: impl FnOnce(R) + Send + 'static,
    ) -> Result<(), PoolFull> {
        let later = match &self.0 {
            Runs::Threads(_) => None,
            // What waits must not keep the delay that it waits for.
            Runs::Caller(delay) => Some(Arc::downgrade(&delay.0)),
        };
        self.run(move || {
            let result = job();
            match later.and_then(|delayed| delayed.upgrade()) {
                Some(delayed) => Delay(delayed).take(Box::new(move || pass_on(result))),
                None => pass_on(result),
            }
        })
    }
}

/// What a simulation delays of the jobs of its pool: their beginning, and their results. While it
/// is off they run at once.
#[derive(Clone, Debug, Default)]
pub struct Delay(Arc<Delayed>);

#[derive(Default)]
struct Delayed {
    is_on: AtomicBool,
    jobs: Mutex<VecDeque<Job>>,
}

impl fmt::Debug for Delayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delayed").finish_non_exhaustive()
    }
}

impl Delay {
    /// A pool whose jobs it delays.
    pub fn pool(&self) -> Pool {
        Pool(Runs::Caller(self.clone()), Lane::First)
    }

    /// Whether jobs and results that come from now on wait.
    pub fn set_on(&self, is_on: bool) {
        self.0.is_on.store(is_on, Ordering::SeqCst);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The one at this place goes on, if there is one: a job runs, or a result is passed on.
    pub fn let_go(&self, at: usize) {
        let job = self.lock().remove(at);
        if let Some(job) = job {
            run_one(job);
        }
    }

    fn take(&self, job: Job) {
        match self.0.is_on.load(Ordering::SeqCst) {
            true => self.lock().push_back(job),
            false => run_one(job),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // Nothing that may panic runs under the lock.
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let idle = {
            let mut state = self.0.lock();
            state.is_closed = true;
            mem::take(&mut state.idle)
        };
        idle.iter().for_each(Thread::unpark);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, job: Job, lane: Lane) -> Result<(), Job> {
        let sleeper = {
            let mut state = self.lock();
            let jobs = match lane {
                Lane::First => &mut state.jobs,
                Lane::Later => &mut state.later,
            };
            if jobs.len() >= self.max {
                return Err(job);
            }
            jobs.push_back(job);
            self.another(&mut state)
        };
        // Behind the lock, which the thread takes first of all.
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
        Ok(())
    }

    /// Whether a thread that has nothing to do could take a job. While as many later ones are under
    /// way as may be, one of their threads takes the next.
    fn has_work(&self, state: &State) -> bool {
        let has_later = state.later_running < self.later_max && !state.later.is_empty();
        has_later || !state.jobs.is_empty()
    }

    /// The thread to wake, if one has to be.
    fn another(&self, state: &mut State) -> Option<Thread> {
        if state.coming > 0 || !self.has_work(state) {
            return None;
        }
        let sleeper = state.idle.pop();
        state.coming += usize::from(sleeper.is_some());
        sleeper
    }

    fn work(&self) {
        let mut done = Lane::First;
        while let Some((job, lane)) = self.next(done) {
            run_one(job);
            done = lane;
        }
    }

    /// Waits for a job; `None` when there will be none any more. The thread has just done one of
    /// the lane `done`.
    fn next(&self, done: Lane) -> Option<(Job, Lane)> {
        let me = thread::current();
        let mut state = self.lock();
        if done == Lane::Later {
            state.later_running -= 1;
        }
        loop {
            if let Some((job, lane)) = self.take(&mut state) {
                let sleeper = self.another(&mut state);
                drop(state);
                if let Some(sleeper) = sleeper {
                    sleeper.unpark();
                }
                return Some((job, lane));
            }
            if state.is_closed {
                return None;
            }
            state.idle.push(me.clone());
            drop(state);
            thread::park();
            state = self.lock();
            // Who wakes it takes it off the list; a thread may also wake of itself.
            match state.idle.iter().position(|idle| idle.id() == me.id()) {
                Some(place) => drop(state.idle.remove(place)),
                None => state.coming = state.coming.saturating_sub(1),
            }
        }
    }

    fn take(&self, state: &mut State) -> Option<(Job, Lane)> {
        if let Some(job) = state.jobs.pop_front() {
            return Some((job, Lane::First));
        }
        if state.later_running >= self.later_max {
            return None;
        }
        let job = state.later.pop_front()?;
        state.later_running += 1;
        Some((job, Lane::Later))
    }
}

/// A job that panics takes its question with it, which tells the asker; the thread goes on.
fn run_one(job: Job) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        // The payload may panic when dropped.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(panic)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// A pool of which every thread is asleep.
    fn asleep(threads: usize, queue_max: usize) -> Pool {
        let pool = Pool::new("test", threads, queue_max).unwrap();
        wait_for(&pool, |state| state.idle.len() == threads);
        pool
    }

    fn wait_for(pool: &Pool, is_so: impl Fn(&State) -> bool) {
        let Runs::Threads(owner) = &pool.0 else {
            panic!("it has threads");
        };
        while !is_so(&owner.0.lock()) {
            thread::yield_now();
        }
    }

    fn thread_of_job(pool: &Pool) -> String {
        let (sender, receiver) = sync_channel(1_024);
        let job = move || drop(sender.send(thread::current().name().unwrap().to_owned()));
        pool.run(job).unwrap();
        receiver.recv().unwrap()
    }

    /// Keeps a thread until something comes.
    fn block(pool: &Pool, until: Receiver<()>) {
        pool.run(move || until.recv().unwrap()).unwrap();
    }

    #[test]
    fn one_job_at_a_time_is_done_by_one_thread() {
        let pool = asleep(4, 8);
        let first = thread_of_job(&pool);
        for _ in 0..20 {
            wait_for(&pool, |state| state.idle.len() == 4);
            assert_eq!(thread_of_job(&pool), first);
        }
    }

    #[test]
    fn jobs_at_once_have_a_thread_each_and_the_queue_has_its_bound() {
        let pool = asleep(3, 2);
        let mut kept = Vec::new();
        for busy in 1..=3 {
            let (sender, receiver) = sync_channel(1_024);
            block(&pool, receiver);
            wait_for(&pool, |state| {
                state.jobs.is_empty() && state.idle.len() == 3 - busy
            });
            kept.push(sender);
        }
        let (done, results) = sync_channel(1_024);
        for number in 0..2 {
            let done = done.clone();
            pool.run(move || done.send(number).unwrap()).unwrap();
        }
        assert_eq!(pool.run(|| ()), Err(PoolFull));
        kept.pop().unwrap().send(()).unwrap();
        assert_eq!([results.recv().unwrap(), results.recv().unwrap()], [0, 1]);
        for sender in kept {
            sender.send(()).unwrap();
        }
        wait_for(&pool, |state| state.idle.len() == 3);
    }

    #[test]
    fn a_job_wakes_nobody_while_a_thread_is_on_its_way() {
        let state = State {
            idle: vec![thread::current(); 3],
            ..State::default()
        };
        let queue = Queue {
            state: Mutex::new(state),
            max: 8,
            later_max: 1,
        };
        let looks = |queue: &Queue| {
            let state = queue.lock();
            (state.idle.len(), state.coming)
        };
        for lane in [Lane::Later, Lane::First, Lane::Later] {
            assert!(queue.offer(Box::new(|| ()), lane).is_ok());
            assert_eq!(looks(&queue), (2, 1));
        }
        // It comes, takes one, and wakes the next for what is left.
        queue.lock().coming = 0;
        let lanes: Vec<Lane> = (0..2).map(|_| queue.next(Lane::First).unwrap().1).collect();
        assert_eq!(lanes, [Lane::First, Lane::Later]);
        assert_eq!(looks(&queue), (1, 1));
        // What is left may not be begun now.
        queue.lock().coming = 0;
        assert!(queue.offer(Box::new(|| ()), Lane::Later).is_ok());
        assert_eq!(looks(&queue), (1, 0));
    }

    #[test]
    fn later_jobs_wait_for_others_and_leave_them_threads() {
        let pool = asleep(2, 2);
        let later = pool.later();
        let (done, results) = sync_channel(1_024);
        let note = |what: &'static str| {
            let done = done.clone();
            move || done.send(what).unwrap()
        };
        // One of the two threads may do a later job; the other one is for the first lane.
        let (go_on, until) = sync_channel(1_024);
        block(&later, until);
        wait_for(&pool, |state| state.later.is_empty());
        later.run(note("later")).unwrap();
        later.run(note("later still")).unwrap();
        assert_eq!(later.run(|| ()), Err(PoolFull));
        pool.run(note("at once")).unwrap();
        assert_eq!(results.recv().unwrap(), "at once");
        // When both are free again, what waits in the first lane comes first.
        let (go_on_too, until) = sync_channel(1_024);
        block(&pool, until);
        wait_for(&pool, |state| state.jobs.is_empty());
        pool.run(note("first")).unwrap();
        pool.run(note("second")).unwrap();
        go_on.send(()).unwrap();
        let order: Vec<&str> = (0..4).map(|_| results.recv().unwrap()).collect();
        assert_eq!(order, ["first", "second", "later", "later still"]);
        go_on_too.send(()).unwrap();
        wait_for(&pool, |state| {
            state.idle.len() == 2 && state.later_running == 0
        });
    }

    /// A simulation lets jobs and their results go in any order.
    #[test]
    fn what_is_delayed_goes_on_when_it_is_let() {
        let delay = Delay::default();
        let pool = delay.pool();
        let (done, results) = sync_channel(1_024);
        let begin = |number: u32| {
            let (begun, done) = (done.clone(), done.clone());
            let job = move || {
                begun.send(number).unwrap();
                number * 10
            };
            let result = move |result| done.send(result).unwrap();
            pool.run_and(job, result).unwrap();
        };
        let seen = || results.try_iter().collect::<Vec<u32>>();
        begin(1);
        assert_eq!((seen(), delay.len()), (vec![1, 10], 0));
        delay.set_on(true);
        begin(2);
        begin(3);
        assert_eq!((seen(), delay.len()), (vec![], 2));
        delay.let_go(1);
        assert_eq!((seen(), delay.len()), (vec![3], 2), "its result waits");
        delay.let_go(1);
        assert_eq!((seen(), delay.len()), (vec![30], 1));
        delay.let_go(7);
        assert_eq!(delay.len(), 1);
        delay.set_on(false);
        delay.let_go(0);
        assert_eq!((seen(), delay.is_empty()), (vec![2, 20], true));
    }

    #[test]
    fn threads_do_what_waits_and_end_with_the_last_clone() {
        let pool = asleep(1, 8);
        let Runs::Threads(owner) = &pool.0 else {
            panic!("it has threads");
        };
        let queue = Arc::downgrade(&owner.0);
        let (go, until) = sync_channel(1_024);
        block(&pool, until);
        let (done, results) = sync_channel(1_024);
        let clone = pool.clone();
        clone.run(move || done.send(()).unwrap()).unwrap();
        drop((pool, clone));
        go.send(()).unwrap();
        results.recv().unwrap();
        while queue.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
