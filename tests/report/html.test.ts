import fc from "fast-check";
import { parseHTML } from "linkedom";
import { expect, test } from "vitest";
import { html, trustHtml } from "../../src/report/html.js";

test("values are escaped in elements and in attributes", () => {
  const text = "<b>\"&'</b>";
  expect(html`<p title="${text}">${text}</p>`.text).toBe(
    '<p title="&lt;b&gt;&quot;&amp;&#39;&lt;/b&gt;">&lt;b&gt;&quot;&amp;&#39;&lt;/b&gt;</p>',
  );
});

test("HTML is inserted as it is, lists item by item, and null as nothing", () => {
  expect(html`<ul>${["a", "<"].map((item) => html`<li>${item}</li>`)}${null}${undefined}${false}${0}</ul>`.text).toBe(
    "<ul><li>a</li><li>&lt;</li>0</ul>",
  );
  expect(html`${trustHtml("<hr>")}`.text).toBe("<hr>");
});

test("control characters are replaced, except line feeds and tabs", () => {
  expect(html`${"a\0b\x1bc\n\t"}`.text).toBe("a\ufffdb\ufffdc\n\t");
});

test("a parser returns any text unchanged and without elements", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.string({ unit: "grapheme" }), (first, second) => {
      const clean = (text: string): string => html`${text}`.text.replace(/&(\w+|#39);/g, (entity) => decoded[entity]!);
      const { document } = parseHTML(
        `<!doctype html><html><body>${html`<p title="${first}">${second}</p>`.text}</body></html>`,
      );
      expect(document.body.children).toHaveLength(1);
      expect(document.querySelector("p")!.children).toHaveLength(0);
      expect(document.querySelector("p")!.getAttribute("title")).toBe(clean(first));
    }),
  );
});

const decoded: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
};
