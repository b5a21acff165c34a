import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The files of src/ that need Node.js, and what the page has instead. */
const replaced = {
  [here("../../src/base/sha256.ts")]: here("sha256.ts"),
  [here("../../src/text/load-tagger.ts")]: here("load-tagger.ts"),
};

// npx vite build examples/browser, then serve examples/browser/dist with a model in examples/browser/dist/model.
export default defineConfig({
  root: here("."),
  base: "./",
  logLevel: "warn",
  build: { target: "es2022", emptyOutDir: true, assetsInlineLimit: 0 },
  plugins: [
    {
      name: "files-of-the-browser",
      enforce: "pre",
      async resolveId(source, importer, options) {
        const found = await this.resolve(source, importer, { ...options, skipSelf: true });
        return found && replaced[found.id] ? { ...found, id: replaced[found.id] } : found;
      },
    },
  ],
});
