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

// While a link is opened for longer than 0.4 s, Neuroglancer 2.41.2 writes the half-made state back (its url_hash_binding,
// a debounce with maxWait, calls toJSON at once), and an annotation layer that has no relationships yet throws: the link
// is shown as an empty layer. It does so without any data, too: here is the value that its class ought to begin with.
const beginning = {
  name: "beginning",
  setup(build) {
    build.onLoad({ filter: /layer.annotation.index\.js$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const mended = source.replace(/^  localAnnotationRelationships;$/m, '  localAnnotationRelationships = ["segments"];');
      if (mended === source) throw new Error("Neuroglancer has mended annotation layers: look at it as it is");
      return { contents: mended, loader: "js" };
    });
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
  plugins: [icons, beginning],
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
