// The documentation site. `make docs` writes the generated pages of reference/, then builds the site into build/docs.
// Search works offline: its index is part of the site.
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { defineConfig } from "vitepress";

const docs = resolve(import.meta.dirname, "..");

/** A link to a file outside of docs/, such as a source file, has no page on the site. It becomes plain text. */
function unlinkFiles(md) {
  const isFile = (href, page) =>
    !/^(https?:|#|\/)/.test(href) && relative(docs, join(dirname(page), href.split("#")[0])).startsWith("..");
  for (const type of ["link_open", "link_close"]) {
    const render =
      md.renderer.rules[type] ?? ((tokens, i, options, _env, self) => self.renderToken(tokens, i, options));
    md.renderer.rules[type] = (tokens, i, options, env, self) =>
      tokens[i].isFile ? "" : render(tokens, i, options, env, self);
  }
  // Before VitePress checks links, so that it does not report those that are removed.
  md.core.ruler.push("unlink-files", ({ tokens, env }) => {
    for (const { children } of tokens) {
      let isInside = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") isInside = isFile(token.attrGet("href"), env.path);
        if (isInside && token.type.startsWith("link_")) token.isFile = true;
        if (token.type === "link_close") isInside = false;
      }
    }
  });
}

const page = (text, link) => {
  if (!existsSync(join(docs, `${link}.md`))) throw new Error(`docs/${link}.md is not there. Run \`make docs\`.`);
  return { text, link: `/${link}` };
};

export default defineConfig({
  title: "Temper",
  description: "Fine-tune text classifiers that are hard to fool, attack them, and prove what holds.",
  srcExclude: ["node_modules/**"],
  rewrites: { "README.md": "index.md" },
  outDir: "../build/docs",
  cacheDir: "../build/vitepress",
  cleanUrls: false,
  markdown: { config: unlinkFiles },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Guide", link: "/guide/first-hour" },
      { text: "Reference", link: "/reference/cli" },
      { text: "Explanation", link: "/explanation/architecture" },
      { text: "Reports", link: "/reports/results" },
    ],
    sidebar: [
      {
        text: "Guide",
        items: [
          page("Install", "guide/install"),
          page("First hour", "guide/first-hour"),
          page("Tutorial", "guide/tutorial"),
          page("Models and data", "guide/own-data"),
          page("Methods", "guide/methods"),
          page("Attacks", "guide/attacks"),
          page("Exact robust accuracy", "guide/exact"),
          page("Certificates", "guide/certificates"),
          page("Compare", "guide/compare"),
          page("Studio", "guide/studio"),
          page("Deploy", "guide/deploy"),
          page("CI", "guide/ci"),
          page("Sweeps", "guide/sweeps"),
          page("Cluster", "guide/cluster"),
          page("Start from a robust model", "guide/robust-start"),
        ],
      },
      {
        text: "Reference",
        items: [
          page("Commands", "reference/commands"),
          page("Command line", "reference/cli"),
          page("Settings of a run", "reference/config"),
          page("Options of methods", "reference/methods"),
          page("Options of attacks", "reference/attacks"),
          { text: "TypeScript API", link: "/api/index.html", target: "_self" },
          page("Licenses", "reference/licenses"),
        ],
      },
      {
        text: "Explanation",
        items: [
          page("Architecture", "explanation/architecture"),
          page("Engine", "explanation/engine"),
          page("Fidelity", "explanation/fidelity"),
          page("Statistics", "explanation/statistics"),
          page("Determinism", "explanation/determinism"),
        ],
      },
      {
        text: "Reports",
        collapsed: true,
        items: [
          page("Results", "reports/results"),
          page("Performance", "reports/performance"),
          page("Figures", "reports/figures"),
          page("Exact accuracy", "reports/exact"),
          page("Certificates", "reports/certificates"),
          page("23 methods compared", "reports/benchmark"),
          page("Robust start", "reports/robust-transfer"),
          page("Imbalanced data", "reports/imbalance"),
          page("First hour", "reports/first-hour"),
        ],
      },
    ],
  },
});
