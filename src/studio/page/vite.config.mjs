import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// The page is built into the package, so that it needs no network and no build at run time.
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "./",
  logLevel: "warn",
  build: {
    outDir: fileURLToPath(new URL("../../../dist/studio/page", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    // Inline code would need a weaker content security policy.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
});
