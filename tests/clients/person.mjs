// @xmpp/client, unmodified, with stanzas that are kept until somebody waits for them.

import assert from "node:assert/strict";
import { client, xml } from "@xmpp/client";

export const DEADLINE_MS = 60_000;
const ROSTER = "jabber:iq:roster";

// A client whose stanzas are kept until somebody waits for them.
export class Person {
  constructor(name, resource, service) {
    this.bare = `${name}@localhost`;
    this.stanzas = [];
    this.waiting = [];
    this.xmpp = client({
      service,
      domain: "localhost",
      resource,
      // SCRAM by name: a silent fall-back to PLAIN would hide a broken SCRAM.
      credentials: async (authenticate) => {
        await authenticate({ username: name, password: `${name} secret` }, "SCRAM-SHA-1");
      },
    });
    this.xmpp.reconnect.stop();
    this.xmpp.on("error", failUnlessLate);
    this.xmpp.on("stanza", (stanza) => {
      const index = this.waiting.findIndex(({ test }) => test(stanza));
      if (index < 0) this.stanzas.push(stanza);
      else this.waiting.splice(index, 1)[0].resolve(stanza);
    });
  }

  // The client listens for the answer to its stream header only after its write has called back. It
  // misses one that comes at once, and says so in the end, but has gone on all the same.
  start() {
    return new Promise((resolve) => {
      const late = () => fail(new Error(`${this.bare} never came online`));
      const timer = setTimeout(late, DEADLINE_MS);
      this.xmpp.once("online", (address) => (clearTimeout(timer), resolve(address)));
      this.xmpp.start().catch(failUnlessLate);
    });
  }

  async logIn() {
    const address = await this.start();
    await this.roster();
    await this.managed();
    await this.xmpp.send(xml("presence"));
    await this.next("own presence", (s) => s.is("presence") && s.attrs.from === address.toString());
  }

  // The client begins to count what it hears some ticks after it has heard <enabled/>. A stanza
  // in the same packet is not counted, and one would come twice after a resumption.
  async managed() {
    while (!this.xmpp.streamManagement.enabled) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  next(what, test) {
    const index = this.stanzas.findIndex(test);
    if (index >= 0) return Promise.resolve(this.stanzas.splice(index, 1)[0]);
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`${this.bare} never got ${what}`));
      const timer = setTimeout(late, DEADLINE_MS);
      this.waiting.push({ test, resolve: (stanza) => (clearTimeout(timer), resolve(stanza)) });
    });
  }

  presence(type, from) {
    const fits = (s) => s.is("presence") && s.attrs.type === type && s.attrs.from.startsWith(from);
    return this.next(`presence ${type} from ${from}`, fits);
  }

  async roster() {
    const query = await this.xmpp.iqCaller.get(xml("query", ROSTER));
    return query.getChildren("item").map((item) => item.attrs);
  }

  async say(to, text) {
    await this.xmpp.send(xml("message", { type: "chat", to }, xml("body", {}, text)));
  }

  async hears(from) {
    const message = await this.next("a message", (s) => s.is("message"));
    assert.equal(message.attrs.from, from);
    return message.getChildText("body");
  }
}

export function fail(error) {
  console.error(error);
  process.exit(1);
}

export function failUnlessLate(error) {
  if (error.name !== "TimeoutError") fail(error);
}

// Runs a play to its end, or to the exit code 1.
export function play(scene) {
  setTimeout(() => fail(new Error("the play takes too long")), 4 * DEADLINE_MS).unref();
  process.on("unhandledRejection", failUnlessLate);
  scene().catch(fail);
}
