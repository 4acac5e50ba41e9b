//! Who leads a stream, and that another server shall.

use std::time::Duration;

use serde_json::{Value, json};

use super::Engine;
use crate::journal::Seq;
use crate::layout::StreamId;

/// Longest wait for a stream's next leader. A publish waits for it, which is taken for one without
/// a quorum after a second.
pub(super) const LED_WITHIN: Duration = Duration::from_millis(500);
/// Pause between two looks for it, and the longest wait for what each finds.
const LED_PAUSE: Duration = Duration::from_millis(10);
const LED_ANSWER: Duration = Duration::from_millis(25);

/// How a stream stands, as its leader says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The first message that it still has; 0: none.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
    /// The server that leads it.
    pub leader: String,
    /// Other servers that have a copy which is up to date.
    pub others: Vec<String>,
}

impl Engine {
    /// How a stream stands. Only its leader answers.
    pub async fn standing(&self, stream: StreamId) -> Option<Standing> {
        self.standing_of(self.layout.stream_name(stream)).await
    }

    /// The name of the server that leads the stream.
    pub async fn leader(&self, stream: StreamId) -> Option<String> {
        self.leader_of(self.layout.stream_name(stream)).await
    }

    pub(super) async fn leader_of(&self, name: String) -> Option<String> {
        let standing = self.standing_of(name).await?;
        Some(standing.leader).filter(|leader| !leader.is_empty())
    }

    async fn standing_of(&self, name: String) -> Option<Standing> {
        let handle = self.jetstream.get_stream_no_info(name).await.ok()?;
        let info = self.ask(self.answer_within, handle.get_info()).await?;
        let info = info.ok()?;
        let (leader, others) = info
            .cluster
            .map(|cluster| (cluster.leader, cluster.replicas))
            .unwrap_or_default();
        let current = others.into_iter().filter(|one| one.current && !one.offline);
        Some(Standing {
            first: info.state.first_sequence,
            last: info.state.last_sequence,
            leader: leader.unwrap_or_default(),
            others: current.map(|one| one.name).collect(),
        })
    }

    /// Has a server lead a stream of which it has a current copy, and waits until it does, for half
    /// a second at most. Nobody answers a publish that is under way meanwhile; the stream has it or
    /// not. Whether it leads.
    pub async fn lead(&self, stream: StreamId, server: &str) -> bool {
        let name = self.layout.stream_name(stream);
        let subject = format!("STREAM.LEADER.STEPDOWN.{name}");
        let wanted = json!({ "placement": { "preferred": server } });
        let asked = self.jetstream.request::<_, _, Value>(subject, &wanted);
        let led = async {
            // Whatever it says: the leader shows what came of it.
            let _ = self.ask(LED_WITHIN, asked).await;
            loop {
                let leader = tokio::time::timeout(LED_ANSWER, self.leader(stream)).await;
                if leader.is_ok_and(|leader| leader.as_deref() == Some(server)) {
                    return;
                }
                tokio::time::sleep(LED_PAUSE).await;
            }
        };
        tokio::time::timeout(LED_WITHIN, led).await.is_ok()
    }
}
