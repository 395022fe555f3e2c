// Looks at the server's page in Chromium, follows its links to Neuroglancer and takes a picture of each:
// node look.mjs CHROMIUM URL FOLDER < JSON of views by path; what was seen goes to stdout as JSON.
import puppeteer from "puppeteer-core";
import { readFileSync } from "node:fs";

const [chromium, base, out] = process.argv.slice(2);
const views = JSON.parse(readFileSync(0, "utf8"));
const seen = { page: {}, views: {} };

const browser = await puppeteer.launch({
  executablePath: chromium,
  // No graphics card: WebGL in software. No sandbox: containers often run as root.
  args: ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
});
seen.browser = await browser.version();
const page = await browser.newPage();
await page.setViewport({ width: 900, height: 700 });

let errors = [];
page.on("pageerror", (error) => errors.push(`page: ${error.message}`));
page.on("requestfailed", (request) => {
  const reason = request.failure()?.errorText;
  if (reason !== "net::ERR_ABORTED") errors.push(`request: ${request.url()} ${reason}`);
});

await page.goto(base, { waitUntil: "networkidle0" });
// Pictures load when they come into sight: all of them now.
await page.evaluate(() => document.querySelectorAll("img").forEach((image) => (image.loading = "eager")));
await page.waitForFunction(() => [...document.images].every((image) => image.complete), { timeout: 30000 });
await page.screenshot({ path: `${out}/page.png`, fullPage: true });
seen.page = await page.evaluate(() => ({
  title: document.title,
  sections: [...document.querySelectorAll("section")].map((section) => ({
    path: section.querySelector("h2").textContent,
    picture: section.querySelector("img")?.naturalWidth ?? 0,
    links: [...section.querySelectorAll("a.go")].map((link) => link.href),
  })),
}));
seen.page.errors = errors;

for (const [name, { link, state, scale }] of Object.entries(views)) {
  errors = [];
  const started = Date.now();
  // The link's own state first, all of it loaded; then close to the data.
  const loaded = () =>
    page.waitForFunction(ready, { timeout: 60000, polling: 250 }).catch(() => errors.push("not all of it was loaded"));
  const ready = () => window.viewer.layerManager.managedLayers.length > 0 && window.viewer.isReady();
  await page.goto("about:blank");
  await page.goto(link);
  await page.waitForFunction(() => window.viewer !== undefined, { timeout: 60000 });
  await loaded();
  await page.evaluate((state) => {
    for (const [name, value] of Object.entries(state)) window.viewer.state.children.get(name).restoreState(value);
  }, state);
  // Of what is looked at in space: how many voxels a pixel is. Panels of a view have the same height.
  if (scale) {
    await page.evaluate((scale) => {
      const { height } = document.querySelector(".neuroglancer-rendered-data-panel").getBoundingClientRect();
      window.viewer.state.children.get("projectionScale").restoreState(scale * height);
    }, scale);
  }
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await loaded();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  await page.screenshot({ path: `${out}/${name.replaceAll("/", "_")}.png` });
  const messages = await page.evaluate(() =>
    window.viewer.layerManager.managedLayers.flatMap((layer) =>
      (layer.layer?.dataSources ?? []).map((source) => source.loadState?.error?.message ?? "").filter(Boolean),
    ),
  );
  // What Neuroglancer tells of in its own words, as of a layer that it could not make; each has a button.
  const told = await page.evaluate(() =>
    [...document.querySelectorAll("#neuroglancer-status-container button")].map((one) => one.parentElement.textContent),
  );
  const panels = await page.evaluate(() =>
    [...document.querySelectorAll(".neuroglancer-rendered-data-panel")].map((item) => {
      const { x, y, width, height } = item.getBoundingClientRect();
      return [x, y, width, height];
    }),
  );
  seen.views[name] = { panels, errors: [...errors, ...messages, ...told], seconds: (Date.now() - started) / 1000 };
}
await browser.close();
console.log(JSON.stringify(seen, null, 1));
