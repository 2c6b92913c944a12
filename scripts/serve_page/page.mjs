// The server's page in headless Chromium, by keyboard alone, in light and dark.
//
//     node page.mjs URL PICTURES CHROMIUM
//
// It fails where an answer, its colours, its numbers, the comparison or the stopping key is missing.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [url, pictures, executablePath] = process.argv.slice(2);
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"];
const browser = await chromium.launch({ executablePath, args: quiet });
const wait = { timeout: 60_000 };

async function open(colorScheme) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1100, height: 640 } });
  const wrong = [];
  page.on("pageerror", error => wrong.push(error.message));
  page.on("request", asked => { if (!asked.url().startsWith(url)) wrong.push(`asks ${asked.url()}`); });
  await page.goto(url);
  return { page, wrong };
}

const backgrounds = [];
for (const scheme of ["light", "dark"]) {
  const { page, wrong } = await open(scheme);
  backgrounds.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));

  await page.keyboard.type("Who are you?");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".numbers[data-done]", wait);
  assert.ok(await page.locator(".said .draft").count() > 0, "no accepted draft is coloured");
  assert.match(await page.locator(".numbers[data-done]").innerText(), /tokens\/s · [\d.]+ tokens\/step/);

  await page.keyboard.press("Alt+c");
  await page.waitForFunction(() => document.activeElement.id === "prompt" && !document.getElementById("send").disabled);
  await page.keyboard.type("Tell me a story about a fox and a river.");
  await page.keyboard.press("Enter");
  const sum = page.locator(".turn > .numbers");
  await sum.waitFor(wait);
  assert.match(await sum.innerText(), /^[\d.]+ times as fast, the same text$/);
  const [plain, drafted] = await page.locator(".pair .said").allInnerTexts();
  assert.ok(plain && plain === drafted, "plain and drafted text differ");
  assert.equal(await page.locator(".pair > div:first-child .draft").count(), 0, "plain text is coloured");
  await page.waitForFunction(() => / tokens\/s/.test(document.getElementById("state").textContent), null, wait);
  await page.screenshot({ path: `${pictures}/serve-${scheme}.png` });

  await page.keyboard.press("Alt+n");
  assert.equal(await page.locator(".turn").count(), 0, "a new chat shows the old one");
  await page.evaluate(() => { document.getElementById("max_tokens").value = "-1"; });
  await page.keyboard.type("Hello");
  await page.keyboard.press("Enter");
  await page.locator(".error").waitFor(wait);
  assert.match(await page.locator(".error").innerText(), /max_tokens/);
  assert.deepEqual(wrong, [], "errors of the page");
  await page.close();
}
assert.notEqual(backgrounds[0], backgrounds[1], "dark and light have one background");
await browser.close();
console.log(`the page: ok in light and dark (Chromium ${browser.version()})`);
