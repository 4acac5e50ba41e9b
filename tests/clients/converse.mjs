// Converse.js, unmodified, in two Chromium profiles, as a server shows it: two people log in,
// become contacts, chat; a page is loaded again and shows what was said; the server is killed and
// comes back, and nothing is lost on the screen. Screenshots are left in a folder.
//
// The server is killed and started by whoever runs this: it writes a line "kill" and reads one.
//
// Usage: node converse.mjs PAGE FOLDER

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { launch, open } from "./browser.mjs";
import { fail, play } from "./person.mjs";

const [home, folder] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

class Screen {
  constructor(name, page) {
    this.name = name;
    this.page = page;
  }

  async logIn() {
    const { page, name } = this;
    await page.fill("input[name=jid]", `${name}@localhost`);
    await page.fill("input[name=password]", `${name} secret`);
    await page.click("input[type=submit], button[type=submit]");
    await this.isThere();
  }

  isThere() {
    return this.page.waitForSelector("#converse-roster, converse-rosterview");
  }

  // Has a session again. It is connected some moments before, when what is sent is lost.
  isBack() {
    return this.page.waitForFunction(
      () => globalThis.reconnections > 0 && globalThis.converseApi.connection.connected(),
    );
  }

  async openChat(jid) {
    await this.page.evaluate(async (contact) => {
      await globalThis.converseApi.chats.open(contact, {}, true);
    }, jid);
    await this.page.waitForSelector("textarea.chat-textarea");
  }

  async say(text) {
    const { page } = this;
    await page.fill("textarea.chat-textarea", text);
    await page.press("textarea.chat-textarea", "Enter");
    await this.shows(text);
  }

  // The lines of the open chat, each once, as a person reads them.
  async lines() {
    const texts = await this.page.$$eval("converse-chat-message-body", (all) =>
      all.map((body) => body.innerText.trim()),
    );
    return texts.filter((text) => text.startsWith("line"));
  }

  async shows(text) {
    await this.page.waitForFunction(
      (wanted) =>
        [...document.querySelectorAll("converse-chat-message-body")].some(
          (body) => body.innerText.trim() === wanted,
        ),
      text,
    );
  }

  async hasPresence(jid, expected) {
    await this.page.waitForFunction(
      async ([contact, show]) => {
        const found = await globalThis.converseApi.contacts.get(contact);
        return found?.presence?.get?.("show") === show || found?.getStatus?.() === show;
      },
      [jid, expected],
    );
  }

  picture(name) {
    return this.page.screenshot({ path: `${folder}/${name}-${this.name}.png` });
  }
}

// Runs before the page's own scripts: keeps the API that plugins get.
function tap() {
  globalThis.addEventListener("DOMContentLoaded", () => {
    globalThis.converse.plugins.add("tap", {
      initialize() {
        globalThis.converseApi = this._converse.api;
        globalThis.reconnections = 0;
        this._converse.api.listen.on("reconnected", () => globalThis.reconnections++);
      },
    });
    const { initialize } = globalThis.converse;
    globalThis.converse.initialize = (settings) =>
      initialize({ ...settings, whitelisted_plugins: ["tap"] });
  });
}

async function become_contacts(romeo, juliet) {
  const ask = ([to, type]) => {
    const { $pres } = globalThis.converse.env;
    globalThis.converseApi.send($pres({ to, type }));
  };
  for (const [asker, asked] of [[romeo, juliet], [juliet, romeo]]) {
    await asker.page.evaluate(ask, [`${asked.name}@localhost`, "subscribe"]);
    await asked.page.waitForTimeout(300);
    await asked.page.evaluate(ask, [`${asker.name}@localhost`, "subscribed"]);
  }
}

async function main() {
  const browser = await launch();
  const screens = [];
  for (const name of ["romeo", "juliet"]) {
    const page = await open(browser, "about:blank", fail);
    await page.addInitScript(tap);
    await page.goto(home);
    const screen = new Screen(name, page);
    await screen.picture("1-login");
    await screen.logIn();
    screens.push(screen);
  }
  const [romeo, juliet] = screens;
  await become_contacts(romeo, juliet);
  await romeo.hasPresence("juliet@localhost", "online");
  await juliet.hasPresence("romeo@localhost", "online");

  await romeo.openChat("juliet@localhost");
  await juliet.openChat("romeo@localhost");
  const said = [];
  const speak = async (speaker, listener, text) => {
    said.push(text);
    await speaker.say(text);
    await listener.shows(text);
  };
  await speak(romeo, juliet, "line 1 of romeo");
  await speak(juliet, romeo, "line 2 of juliet");
  await speak(romeo, juliet, "line 3 <b>not bold</b> ☃");
  for (const screen of screens) await screen.picture("2-chat");

  await juliet.page.reload();
  await juliet.isThere();
  await juliet.openChat("romeo@localhost");
  await juliet.shows(said[2]);
  assert.deepEqual(await juliet.lines(), said);
  await juliet.picture("3-reloaded");

  console.log("kill");
  assert.equal((await answers.next()).value, "back");
  // Both pages find the server again by themselves.
  for (const screen of screens) await screen.isBack();
  await speak(romeo, juliet, "line 4 after the kill");
  await speak(juliet, romeo, "line 5 after the kill");
  for (const screen of screens) {
    await screen.page.waitForTimeout(1000);
    await screen.picture("4-after-the-kill");
    assert.deepEqual(await screen.lines(), said, screen.name);
  }

  await juliet.page.close();
  await romeo.hasPresence("juliet@localhost", "offline");
  await browser.close();
  process.exit(0);
}

play(main);
