// @xmpp/client, unmodified, on a bad link: Juliet's link is cut while Romeo writes to her; she
// resumes her session, has every message once and in order, and reads her archive.
//
// Usage: node delivery.mjs ROMEOS_SERVICE JULIETS_SERVICE

import assert from "node:assert/strict";
import { xml } from "@xmpp/client";
import { Person, play } from "./person.mjs";

const [romeos, juliets] = process.argv.slice(2);
const ARCHIVE = "urn:xmpp:mam:2";
const PAGES = "http://jabber.org/protocol/rsm";

const texts = (what, count) => Array.from({ length: count }, (_, number) => `${what} ${number}`);

async function say(sender, to, what) {
  for (const text of what) await sender.say(to, text);
}

async function hear(listener, from, what) {
  for (const text of what) assert.equal(await listener.hears(from), text);
}

function event(emitter, name) {
  return new Promise((resolve) => emitter.once(name, resolve));
}

// What the archive has, page by page.
async function archived(reader, max) {
  const bodies = [];
  let after = [];
  for (;;) {
    const page = xml("set", PAGES, xml("max", {}, String(max)), ...after);
    const query = xml("iq", { type: "set" }, xml("query", ARCHIVE, page));
    const fin = (await reader.xmpp.iqCaller.request(query)).getChild("fin", ARCHIVE);
    const last = fin.getChild("set", PAGES).getChildText("last");
    for (;;) {
      const result = reader.stanzas.findIndex((s) => s.getChild("result", ARCHIVE));
      if (result < 0) break;
      const [stanza] = reader.stanzas.splice(result, 1);
      const forwarded = stanza.getChild("result", ARCHIVE).getChild("forwarded");
      bodies.push(forwarded.getChild("message").getChildText("body"));
    }
    if (fin.attrs.complete === "true") return bodies;
    after = [xml("after", {}, last)];
  }
}

async function main() {
  const romeo = new Person("romeo", "orchard", romeos);
  const juliet = new Person("juliet", "balcony", juliets);
  await Promise.all([romeo.logIn(), juliet.logIn()]);
  const { streamManagement } = juliet.xmpp;
  assert.ok(streamManagement.enabled && streamManagement.id);
  const from = "romeo@localhost/orchard";

  await say(romeo, juliet.bare, texts("early", 10));
  await hear(juliet, from, texts("early", 10));
  const [cut, resumed] = [event(juliet.xmpp, "disconnect"), event(streamManagement, "resumed")];
  juliet.xmpp.reconnect.start();
  // The socket inside the one that speaks TLS: nothing says goodbye. A WebSocket can only be
  // closed, without the end of the stream that would end the session.
  const link = juliet.xmpp.socket.socket;
  if (link.destroy) link.destroy();
  else link.close();
  await cut;
  await say(romeo, juliet.bare, texts("late", 30));
  await resumed;
  await hear(juliet, from, texts("late", 30));
  await juliet.say(from, "back");
  assert.equal(await romeo.hears("juliet@localhost/balcony"), "back");

  const expected = [...texts("early", 10), ...texts("late", 30), "back"];
  for (const reader of [romeo, juliet]) {
    const bodies = await archived(reader, 9);
    assert.deepEqual(bodies.slice(-expected.length), expected);
    assert.deepEqual(reader.stanzas.filter((stanza) => stanza.is("message")), []);
  }
  juliet.xmpp.reconnect.stop();
  await Promise.all([romeo.xmpp.stop(), juliet.xmpp.stop()]);
}

play(main);
