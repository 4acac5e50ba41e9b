// @xmpp/client, unmodified: two people log in with SCRAM over TLS, become contacts, see each
// other's presence, chat, and change a roster. Any broken expectation ends with exit code 1.
//
// Usage: node chat.mjs ROMEOS_SERVICE JULIETS_SERVICE

import assert from "node:assert/strict";
import { xml } from "@xmpp/client";
import { Person, play } from "./person.mjs";

const [romeos, juliets] = process.argv.slice(2);
const ROSTER = "jabber:iq:roster";

async function main() {
  const romeo = new Person("romeo", "orchard", romeos);
  const juliet = new Person("juliet", "balcony", juliets);
  await Promise.all([romeo.logIn(), juliet.logIn()]);

  const item = xml("item", { jid: juliet.bare, name: "Juliet" });
  await romeo.xmpp.iqCaller.set(xml("query", ROSTER, item));
  for (const [asker, asked] of [[romeo, juliet], [juliet, romeo]]) {
    await asker.xmpp.send(xml("presence", { to: asked.bare, type: "subscribe" }));
    await asked.presence("subscribe", asker.bare);
    await asked.xmpp.send(xml("presence", { to: asker.bare, type: "subscribed" }));
    await asker.presence("subscribed", asked.bare);
    await asker.presence(undefined, `${asked.bare}/`);
  }
  const [contact] = await romeo.roster();
  const { jid, name, subscription } = contact;
  assert.deepEqual([jid, name, subscription], [juliet.bare, "Juliet", "both"]);

  for (const text of ["one", "two & <three>", "☃"]) {
    await romeo.say(juliet.bare, text);
    assert.equal(await juliet.hears("romeo@localhost/orchard"), text);
    await juliet.say("romeo@localhost/orchard", text);
    assert.equal(await romeo.hears("juliet@localhost/balcony"), text);
  }

  await juliet.xmpp.send(xml("presence", {}, xml("show", {}, "away")));
  const away = (s) => s.is("presence") && s.getChildText("show") === "away";
  await romeo.next("juliet's absence", away);
  await juliet.xmpp.stop();
  await romeo.presence("unavailable", juliet.bare);

  const removal = xml("item", { jid: juliet.bare, subscription: "remove" });
  await romeo.xmpp.iqCaller.set(xml("query", ROSTER, removal));
  assert.deepEqual(await romeo.roster(), []);
  await romeo.xmpp.stop();
}

play(main);
