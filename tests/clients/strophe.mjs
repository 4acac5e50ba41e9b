// Strophe.js, unmodified, in Chromium: two people log in with SCRAM over WebSocket or BOSH, see
// each other, chat, and lose nothing that is sent at once.
//
// Usage: node strophe.mjs PAGE ROMEOS_SERVICE JULIETS_SERVICE

import assert from "node:assert/strict";
import { launch, open } from "./browser.mjs";
import { fail, play } from "./person.mjs";

const [home, ...services] = process.argv.slice(2);
const LIBRARY = new URL("node_modules/strophe.js/dist/strophe.umd.min.js", import.meta.url);
const COUNT = 50;

// Runs in the page: logs in, and collects what is heard.
function logIn({ name, service }) {
  const { $pres, $msg, Strophe } = { ...globalThis, ...globalThis.Strophe };
  const connection = new Strophe.Connection(service);
  const heard = [];
  const say = (to, text) =>
    connection.send($msg({ to, type: "chat" }).c("body").t(text));
  globalThis.person = { connection, heard, say };
  connection.addHandler(
    (stanza) => {
      heard.push(stanza.querySelector("body").textContent);
      return true;
    },
    null,
    "message",
    "chat",
  );
  return new Promise((resolve, reject) => {
    connection.connect(`${name}@localhost`, `${name} secret`, (status) => {
      if (status === Strophe.Status.CONNECTED) {
        connection.send($pres());
        resolve(connection.jid);
      }
      if (status === Strophe.Status.AUTHFAIL || status === Strophe.Status.CONNFAIL) {
        reject(new Error(`status ${status}`));
      }
    });
  });
}

async function main() {
  const browser = await launch();
  const pages = [];
  for (const [number, name] of ["romeo", "juliet"].entries()) {
    const page = await open(browser, home, fail);
    await page.addScriptTag({ path: LIBRARY.pathname });
    const jid = await page.evaluate(logIn, { name, service: services[number] });
    pages.push({ page, jid });
  }
  const [romeo, juliet] = pages;
  const expected = Array.from({ length: COUNT }, (_, number) => `line ${number} <&> ☃`);
  for (const [from, to] of [[romeo, juliet], [juliet, romeo]]) {
    await from.page.evaluate(
      ([jid, lines]) => lines.forEach((line) => globalThis.person.say(jid, line)),
      [to.jid, expected],
    );
    await to.page.waitForFunction((count) => globalThis.person.heard.length >= count, COUNT);
    assert.deepEqual(await to.page.evaluate(() => globalThis.person.heard), expected);
  }
  for (const { page } of pages) {
    await page.evaluate(() => globalThis.person.connection.disconnect("done"));
    await page.waitForFunction(() => !globalThis.person.connection.connected);
  }
  await browser.close();
  process.exit(0);
}

play(main);
