// Makes a Neuroglancer that a browser can load from what its npm package holds: node bundle.mjs FOLDER
import * as esbuild from "esbuild";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

const out = process.argv[2];
const lib = path.resolve("node_modules/neuroglancer/lib");

// Icons are imported as text. The package wants some of a repository that is in no registry: those stay empty.
const icons = {
  name: "icons",
  setup(build) {
    build.onResolve({ filter: /\?raw$/ }, async (wanted) => {
      const name = wanted.path.replace(/\?raw$/, "");
      const found = await build.resolve(name, { kind: wanted.kind, resolveDir: wanted.resolveDir });
      return { path: found.errors.length ? "none" : found.path, namespace: "icon" };
    });
    build.onLoad({ filter: /.*/, namespace: "icon" }, async (icon) => ({
      contents: icon.path === "none" ? '<svg viewBox="0 0 24 24"></svg>' : await readFile(icon.path, "utf8"),
      loader: "text",
    }));
  },
};

await esbuild.build({
  entryPoints: {
    "viewer/main": `${lib}/main.bundle.js`,
    "viewer/chunk_worker.bundle": `${lib}/chunk_worker.bundle.js`,
    "async_computation.bundle": `${lib}/async_computation.bundle.js`,
  },
  bundle: true,
  minify: true,
  format: "esm",
  outdir: out,
  plugins: [icons],
  loader: { ".svg": "text", ".wasm": "file", ".html": "file" },
  logLevel: "error",
});
// Decoders (Draco, PNG, JPEG XL, compresso) are looked for beside the program that fetches them.
for (const name of await readdir(lib, { recursive: true })) {
  if (!name.endsWith(".wasm")) continue;
  for (const place of ["", "viewer"]) await copyFile(path.join(lib, name), path.join(out, place, path.basename(name)));
}
await writeFile(
  path.join(out, "index.html"),
  `<!doctype html><meta charset="utf-8"><title>Neuroglancer</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="viewer/main.css"><div id="neuroglancer-container"></div>
<script type="module" src="viewer/main.js"></script>
`,
);
