// Real Chromium, headless: pages as people see them, with what went wrong in them.
//
// CHROMIUM names another browser than Debian's.

import { chromium } from "playwright-core";
import { DEADLINE_MS } from "./person.mjs";

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  // Tests run as root in containers, where Chromium has no sandbox to use.
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args, headless: true });
}

// A page in a profile of its own. What its scripts throw ends the play.
export async function open(browser, url, onError) {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width: 1100, height: 760 },
  });
  const page = await context.newPage();
  page.setDefaultTimeout(DEADLINE_MS);
  page.on("pageerror", onError);
  await page.goto(url);
  return page;
}
