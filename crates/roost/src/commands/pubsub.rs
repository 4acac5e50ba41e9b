//! `roost pubsub`: what nodes there are, what is in them, who may what there, and the end of one.

use std::io;

use serde::Serialize;

use super::text::in_line;
use super::{print, unexpected};
use crate::cli::{NodePlace, Place, PubsubCommand};
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{NodesAct, Request, Response};

/// Nodes that are asked for at a time.
const PAGE: usize = 1_000;

pub(super) fn run(command: PubsubCommand) -> Result<(), Failure> {
    match command {
        PubsubCommand::List {
            address,
            json,
            place,
        } => list(&place, address.as_deref(), json),
        PubsubCommand::Show { node, json } => show(node, json),
        PubsubCommand::Items { node, json } => items(&node, json),
        PubsubCommand::Affiliations { node, json } => people(node, false, json),
        PubsubCommand::Subscriptions { node, json } => people(node, true, json),
        PubsubCommand::Purge { node } => change(node, NodesAct::Purge),
        PubsubCommand::Delete { node } => change(node, NodesAct::Delete),
    }
}

fn open(place: &Place) -> Result<Door, Failure> {
    Door::open(&place.source().load()?, Absent::Refuse)
}

fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    print(&format!("{text}\n"))
}

fn list(place: &Place, address: Option<&str>, json: bool) -> Result<(), Failure> {
    let mut door = open(place)?;
    let mut after = None;
    loop {
        let request = Request::NodeList {
            address: address.map(str::to_owned),
            after,
            limit: PAGE,
        };
        let Response::Nodes { nodes } = door.call(request)? else {
            return Err(unexpected());
        };
        for node in &nodes {
            if json {
                json_line(node)?;
                continue;
            }
            print(&format!(
                "{} {:?} with {} items, {} subscriptions {:?}\n",
                node.address, node.node, node.items, node.subscriptions, node.title,
            ))?;
        }
        if nodes.len() < PAGE {
            return Ok(());
        }
        after = nodes
            .last()
            .map(|one| (one.address.clone(), one.node.clone()));
    }
}

fn show(at: NodePlace, json: bool) -> Result<(), Failure> {
    let request = Request::NodeShow {
        address: at.address,
        node: at.node,
    };
    let Response::Node { node } = open(&at.place)?.call(request)? else {
        return Err(unexpected());
    };
    if json {
        return json_line(&node);
    }
    print(&format!(
        "address        {}\n\
         node           {}\n\
         made by        {}\n\
         made           {}\n\
         items          {} of {} bytes\n\
         subscriptions  {}\n\
         affiliations   {}\n\
         owners         {}\n",
        node.line.address,
        in_line(&node.line.node),
        node.creator,
        stdx::time::Timestamp::from_millis(node.created_ms),
        node.line.items,
        node.bytes,
        node.line.subscriptions,
        node.affiliations,
        node.owners.join(", "),
    ))?;
    for (field, values) in &node.config {
        let values = values.join(", ");
        print(&format!("{}  {}\n", in_line(field), in_line(&values)))?;
    }
    Ok(())
}

fn items(at: &NodePlace, json: bool) -> Result<(), Failure> {
    let mut door = open(&at.place)?;
    let mut after = 0;
    loop {
        let request = Request::NodeItems {
            address: at.address.clone(),
            node: at.node.clone(),
            after,
        };
        let Response::Items { items, is_last } = door.call(request)? else {
            return Err(unexpected());
        };
        for item in &items {
            if json {
                json_line(item)?;
                continue;
            }
            print(&format!(
                "{:?} {} by {}: {}\n",
                item.id,
                stdx::time::Timestamp::from_millis(item.at_ms),
                in_line(&item.publisher),
                in_line(&item.payload),
            ))?;
        }
        match items.last() {
            Some(last) if !is_last => after = last.seq,
            _ => return Ok(()),
        }
    }
}

fn people(at: NodePlace, subscriptions: bool, json: bool) -> Result<(), Failure> {
    let request = Request::NodePeople {
        address: at.address,
        node: at.node,
        subscriptions,
    };
    let Response::People { people } = open(&at.place)?.call(request)? else {
        return Err(unexpected());
    };
    for (who, what) in &people {
        match json {
            true => json_line(&serde_json::json!({ "jid": who, "is": what }))?,
            false => print(&format!("{who} {what}\n"))?,
        }
    }
    Ok(())
}

fn change(at: NodePlace, act: NodesAct) -> Result<(), Failure> {
    let request = Request::NodeChange {
        address: at.address,
        node: at.node,
        act,
    };
    match open(&at.place)?.call(request)? {
        Response::Ok => Ok(()),
        _ => Err(unexpected()),
    }
}
