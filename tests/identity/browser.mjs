// Logs in at a real login page with the system's Chromium, and prints the final address and the text shown there.
// usage: node browser.mjs CHROMIUM URL REDIRECT_URL PERSON   (reads the password from standard input)
import fs from 'node:fs';
import {chromium} from 'playwright-core';

const [executablePath, url, target, person] = process.argv.slice(2);
const password = fs.readFileSync(0, 'utf8').trim();
const browser = await chromium.launch({
  executablePath, headless: true, timeout: 120000,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
try {
  const context = await browser.newContext({ignoreHTTPSErrors: true});
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  let end, shown = Promise.resolve();
  page.on('request', request => {
    if (!request.isNavigationRequest() || new URL(request.url()).origin !== new URL(target).origin) return;
    end = request.url();
    // if nothing listens at the redirect address, Chromium shows its own error page
    shown = request.response().then(answer => answer && page.waitForURL(end)).catch(() => {});
  });
  await page.goto(url);
  for (let pages = 0; !end && pages < 5; ++pages) {
    for (const [field, text] of [['username', person], ['login', person], ['password', password]]) {
      const input = page.locator(`input[name=${field}]:not([type=submit]):visible`);
      if (await input.count()) await input.fill(text);
    }
    const before = page.url();
    await page.locator('form button[type=submit], form input[type=submit]').first().click();
    for (let waited = 0; !end && page.url() === before && waited < 60000; waited += 50) await page.waitForTimeout(50);
    if (!end) await page.waitForLoadState();
  }
  if (!end) throw new Error(`the login did not lead back to the client: ${page.url()}`);
  await shown;
  console.log(JSON.stringify({url: end, text: await page.innerText('body').catch(() => '')}));
} finally {
  await browser.close();
}
