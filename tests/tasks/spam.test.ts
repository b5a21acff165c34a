import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { normalizeText } from "../../src/tasks/dedup-key.js";
import { loadTask } from "../../src/tasks/index.js";
import { cleanLines, cleanSubject, htmlToText, parseEmail } from "../../src/tasks/mail.js";
import { countOverlap } from "../../src/tasks/sample.js";
import type { Example, Split, Task } from "../../src/tasks/task.js";

describe("cleaning a mail", () => {
  it("takes list tags and answer marks from the subject", () => {
    expect(cleanSubject("Re: [ILUG] Fwd: [Razor-users] Two boxes [1]")).toBe("Two boxes [1]");
    expect(cleanSubject("[zzzzteana] RE: Crop circles")).toBe("Crop circles");
  });

  it("keeps what the sender wrote", () => {
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

  it("turns a page into the text it shows", () => {
    const html =
      "<html><head><title>no</title><style>p{}</style></head><body><p>Dear&nbsp;<b>friend</b>,</p>buy<br>now<table><tr><td>a</td><td>b</table></html>";
    expect(htmlToText(html).trim().split("\n")).toEqual(["Dear friend,", "buy", "now", "a", "b"]);
  });

  it("decodes encodings, charsets and parts", async () => {
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
    // Decoding takes seconds: a run after the first finds the mails there, until the cleaning changes.
    vi.stubEnv("TEMPER_CACHE", join("node_modules", ".cache", "temper-tests"));
    task = await loadTask({ task: "spam" });
    for (const split of task.splits) splits[split] = await task.load(split);
  }, 300_000);
  afterAll(() => {
    vi.unstubAllEnvs();
  });

  const all = () => Object.values(splits).flat();

  it("has a fixed split without duplicates, in which no subject straddles", () => {
    expect(task).toMatchObject({ labels: ["ham", "spam"], selectSplit: "select", reportSplit: "test" });
    expect(Object.fromEntries(Object.entries(splits).map(([split, examples]) => [split, examples.length]))).toEqual({
      train: 3563,
      select: 510,
      test: 1026,
    });
    expect(new Set(all().map((example) => normalizeText(example.texts[0]!))).size).toBe(all().length);
    const subject = (example: Example) => ({ ...example, texts: [example.texts[0]!.split("\n", 1)[0]!] });
    expect(countOverlap(splits.train!.map(subject), [...splits.select!, ...splits.test!].map(subject))).toBe(0);
    for (const examples of Object.values(splits)) {
      const spam = examples.filter((example) => example.label === 1).length / examples.length;
      expect(spam).toBeGreaterThan(0.21);
      expect(spam).toBeLessThan(0.24);
    }
  });

  it("cannot be told by one word, nor by the marks of lists and recipients", () => {
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
    const shares = (token: string) => (counts.get(token) ?? [0, 0]).map((count, label) => count / sizes[label]!);
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
      expect(Math.max(...shares(mark)), mark).toBeLessThan(0.01);
    }
    // Balanced accuracy of answering by whether the mail has the token; the best one is "!".
    const best = Math.max(
      ...[...counts.keys()].map((token) => 0.5 + Math.abs(shares(token)[0]! - shares(token)[1]!) / 2),
    );
    expect(best).toBeLessThan(0.78);
  });

  it("comes from the cache the second time, the same", async () => {
    const notices: string[] = [];
    const again = await loadTask({ task: "spam", onWarning: (message) => notices.push(message) });
    expect(await again.load("test")).toEqual(splits.test);
    expect(notices).toEqual([]);
  });

  it("takes no folder", async () => {
    await expect(loadTask({ task: "spam", data: "." })).rejects.toThrow(/leave --data out/);
  });
});
