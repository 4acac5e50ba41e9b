//! What is asked of strangers about nodes and rooms, although some accounts have none of the former
//! and none is the latter: kind, in words, and what. Owns no answer.

pub(crate) const IQS: [(&str, &str, &str); 26] = [
    (
        "set",
        "a node of one's own there",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='mine'/></pubsub>",
    ),
    (
        "set",
        "an item of such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <publish node='http://jabber.org/protocol/tune'><item id='a'/></publish></pubsub>",
    ),
    (
        "set",
        "an item of such a node, gone",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <retract node='http://jabber.org/protocol/tune'><item id='a'/></retract></pubsub>",
    ),
    (
        "get",
        "one item of such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='http://jabber.org/protocol/tune'><item id='current'/></items></pubsub>",
    ),
    (
        "get",
        "items of a node that is not there",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='none'/></pubsub>",
    ),
    (
        "set",
        "end of a subscription to such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <unsubscribe node='http://jabber.org/protocol/tune' jid='asker@localhost'/></pubsub>",
    ),
    (
        "get",
        "options of a subscription to such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <options node='http://jabber.org/protocol/tune' jid='asker@localhost'/></pubsub>",
    ),
    (
        "set",
        "options of a subscription to such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <options node='http://jabber.org/protocol/tune' jid='asker@localhost'>\
         <x xmlns='jabber:x:data' type='submit'/></options></pubsub>",
    ),
    (
        "get",
        "who subscribes to such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <subscriptions node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "get",
        "who may what at such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <affiliations node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "set",
        "who may what at such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <affiliations node='http://jabber.org/protocol/tune'>\
         <affiliation jid='asker@localhost' affiliation='owner'/></affiliations></pubsub>",
    ),
    (
        "set",
        "configuration of such a node",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <configure node='http://jabber.org/protocol/tune'>\
         <x xmlns='jabber:x:data' type='submit'/></configure></pubsub>",
    ),
    (
        "set",
        "all items of such a node, gone",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <purge node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "set",
        "such a node, gone",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <delete node='http://jabber.org/protocol/tune'/></pubsub>",
    ),
    (
        "get",
        "service discovery, what such a node is",
        "<query xmlns='http://jabber.org/protocol/disco#info' \
         node='http://jabber.org/protocol/tune'/>",
    ),
    (
        "get",
        "service discovery, what such a node has",
        "<query xmlns='http://jabber.org/protocol/disco#items' \
         node='http://jabber.org/protocol/tune'/>",
    ),
    (
        "get",
        "service discovery, commands",
        "<query xmlns='http://jabber.org/protocol/disco#items' \
         node='http://jabber.org/protocol/commands'/>",
    ),
    (
        "get",
        "avatar, where none was published",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='urn:xmpp:avatar:metadata'/></pubsub>",
    ),
    (
        "get",
        "bookmarks",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:xmpp:bookmarks:1'/>\
         </pubsub>",
    ),
    (
        "get",
        "what was displayed",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='urn:xmpp:mds:displayed:0'/></pubsub>",
    ),
    (
        "get",
        "nickname, where none was published",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='http://jabber.org/protocol/nick'/></pubsub>",
    ),
    (
        "get",
        "keys of encryption, where none were published",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='urn:xmpp:omemo:2:devices'/></pubsub>",
    ),
    (
        "get",
        "what a room's owner may configure",
        "<query xmlns='http://jabber.org/protocol/muc#owner'/>",
    ),
    (
        "get",
        "lists of a room",
        "<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='owner'/>\
         </query>",
    ),
    (
        "set",
        "a message in a room, gone",
        "<moderate xmlns='urn:xmpp:message-moderate:1' id='1'>\
         <retract xmlns='urn:xmpp:message-retract:1'/></moderate>",
    ),
    (
        "get",
        "entry in the directory",
        "<query xmlns='jabber:iq:search'/>",
    ),
];
