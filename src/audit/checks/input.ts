import { listRewritings } from "../../attacks/transformations/rewrite-text.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mean, quantile } from "../../evaluation/statistics.js";
import type { Example } from "../../tasks/index.js";
import { listLookAlikes } from "../../text/confusables.js";
import { splitWords } from "../../text/words.js";
import { type Claim, createClaim, rateSeverity } from "../claim.js";
import {
  type AuditContext,
  ask,
  drawCorrect,
  getText,
  replaceText,
  suggestLetters,
  suggestTraining,
} from "../context.js";

export async function checkInput(context: AuditContext): Promise<Claim[]> {
  const correct = drawCorrect(context, "input");
  const drawn = correct.slice(0, context.plan.inputTexts);
  if (drawn.length === 0) return [];
  return [
    ...(await checkWriting(context, correct)),
    await checkHiddenText(context, drawn),
    await checkLength(context, drawn),
    ...(await checkOddTexts(context)),
  ];
}

/** Text that looks the same, or that people read in the same way. Only what a guard flags is disguised from it. */
async function checkWriting(context: AuditContext, correct: readonly Example[]): Promise<Claim[]> {
  const { task, request, plan } = context;
  const attacked = correct.filter(({ label }) => task.labels[label] === request.positiveLabel);
  const drawn = (attacked.length > 0 ? attacked : correct).slice(0, plan.inputTexts);
  const spacing = [
    { name: "decomposed letters", id: "spacing", write: (text: string) => text.normalize("NFD") },
    { name: "two spaces", id: "spacing", write: (text: string) => text.replaceAll(" ", "  ") },
    { name: "a line break at the end", id: "spacing", write: (text: string) => `${text}\n` },
  ];
  const ways = [
    ...listRewritings("reads-same", listLookAlikes()).map(({ name, validity, rewrite, isWhole }) => ({
      name,
      id: name === "a letter before words" ? "tokenizer-breaks" : validity,
      write: (text: string) => (isWhole ? rewrite(text) : text.replaceAll(/\S+/gu, rewrite)),
    })),
    ...spacing,
  ];
  const texts = ways.flatMap(({ write }) =>
    drawn.map((example) => replaceText(context, example, write(getText(context, example)))),
  );
  const predicted = toPredictions(await ask(context, texts, "audit input"));
  const measured = ways.map((way, w) => {
    const changed = drawn.filter(({ label }, i) => predicted[w * drawn.length + i] !== label);
    return { ...way, changed, rate: changed.length / drawn.length };
  });
  const changeLetters = suggestLetters(context);
  const readCanonical = suggestTraining(context, "Read texts in their canonical form.", canonical);
  const kinds = [
    ["looks-same", "Texts that look the same have the same answer (canonical forms).", readCanonical],
    ["reads-same", "Texts that people read in the same way have the same answer.", changeLetters],
    ["tokenizer-breaks", "A letter before words does not change the answer (tokenizer breaks).", changeLetters],
    ["spacing", "Spaces and composed letters do not change the answer.", readCanonical],
  ] as const;
  return kinds.map(([id, claim, remedy]) => {
    const own = measured.filter((each) => each.id === id).sort((a, b) => b.rate - a.rate);
    const worst = own[0]!;
    return createClaim({
      id,
      area: "input",
      severity: weigh(context, rateSeverity(worst.rate, [0.1, 0.25, 0.6]), id === "reads-same"),
      claim,
      summary: `${formatCount(worst.changed.length)} of ${formatCount(drawn.length)} answers change with ${worst.name}.`,
      domain: `${formatCount(drawn.length)} correctly classified texts${attacked.length > 0 ? ` of ${request.positiveLabel}` : ""}`,
      method: `each text is written anew: ${own.map(({ name }) => name).join(", ")}`,
      numbers: Object.fromEntries(own.map(({ name, rate }) => [name, rate])),
      ids: worst.changed.map((example) => example.id),
      texts: own.flatMap(({ name, write, changed }) =>
        changed.slice(0, 1).map((example) => ({
          id: example.id,
          text: write(getText(context, example)),
          note: `${name}: no longer ${task.labels[example.label]}`,
        })),
      ),
      remedy,
    });
  });
}

const canonical = { normalize: "canonical", out: "runs/canonical" };

/** Nobody hides text from a filter of reviews, but everybody from a guard. */
function weigh({ request }: AuditContext, severity: Claim["severity"], isMinor = false): Claim["severity"] {
  if (severity === null || request.positiveLabel !== null) return severity;
  return isMinor ? "low" : severity === "high" ? "medium" : severity;
}

const toTags = (text: string): string =>
  Array.from(text, (each) => (/[ -~]/.test(each) ? String.fromCodePoint(0xe0000 + each.codePointAt(0)!) : "")).join("");
const toBytes = (text: string): number[] => [...new TextEncoder().encode(text)];
/** Variation selectors number 1 to 256 are bytes. */
const toSelectors = (text: string): string =>
  toBytes(text)
    .map((byte) => String.fromCodePoint(byte < 16 ? 0xfe00 + byte : 0xe0100 + byte - 16))
    .join("");
const toZeroWidth = (text: string): string =>
  toBytes(text)
    .map((byte) => [...byte.toString(2).padStart(8, "0")].map((bit) => (bit === "0" ? "\u200b" : "\u200c")).join(""))
    .join("");
const carriers = { "Unicode tags": toTags, "variation selectors": toSelectors, "zero-width characters": toZeroWidth };

/** Texts that are hidden together, so that their visible form changes the answer. */
const payloadTexts = 3;

/** Hides texts of one label in texts of another. A language model reads them; a classifier must not miss them. */
async function checkHiddenText(context: AuditContext, drawn: readonly Example[]): Promise<Claim> {
  const { task, request } = context;
  const positive = request.positiveLabel === null ? null : task.labels.indexOf(request.positiveLabel);
  const cases = drawn.flatMap((carrier, i) => {
    const others = [...drawn.slice(i), ...drawn.slice(0, i)].filter(({ label }) => label !== carrier.label);
    const wanted = positive ?? others[0]?.label;
    const payload = others.filter(({ label }) => label === wanted).slice(0, payloadTexts);
    if (payload.length === 0 || carrier.label === positive) return [];
    return [{ carrier, payload: payload.map((example) => getText(context, example)).join(" ") }];
  });
  const write = (hide: (payload: string) => string): string[][] =>
    cases.map(({ carrier, payload }) => replaceText(context, carrier, `${getText(context, carrier)} ${hide(payload)}`));
  const asked = [write((payload) => payload), ...Object.values(carriers).map(write)];
  const predicted = toPredictions(await ask(context, asked.flat(), "audit hidden text"));
  const at = (kind: number, i: number): number => predicted[kind * cases.length + i]!;
  const telling = [...cases.keys()].filter((i) => at(0, i) !== cases[i]!.carrier.label);
  const rates = Object.keys(carriers).map((name, kind) => {
    const passed = telling.filter((i) => at(kind + 1, i) !== at(0, i));
    return { name, passed, rate: telling.length === 0 ? 0 : passed.length / telling.length };
  });
  const worst = rates.toSorted((a, b) => b.rate - a.rate)[0]!;
  const remedy = "Decode hidden text by the canonical form, or refuse it (temper serve --reject-hidden).";
  return createClaim({
    id: "hidden-text",
    area: "input",
    severity: worst.rate < 0.1 ? null : positive === null ? "low" : "high",
    claim: "Hidden text changes the answer as visible text does.",
    summary:
      telling.length === 0
        ? "No added text changed an answer, so nothing could be hidden."
        : `${formatCount(worst.passed.length)} of ${formatCount(telling.length)} texts that change the answer if they are visible ` +
          `pass if they are hidden in ${worst.name}.`,
    domain: `${formatCount(cases.length)} texts with texts of another label behind them`,
    method: "texts of another label, hidden as Unicode tags, variation selectors and zero-width bits",
    numbers: Object.fromEntries(rates.map(({ name, rate }) => [name, rate])),
    texts: worst.passed.map((i) => {
      const { carrier, payload } = cases[i]!;
      return {
        id: carrier.id,
        text: getText(context, carrier),
        note: `hidden behind it: ${Array.from(payload).slice(0, 100).join("")}`,
      };
    }),
    remedy: suggestTraining(context, remedy, canonical),
  });
}

/** Lengths in words up to which the end of a text must matter. */
const maxLength = 1024;
/** Texts whose end is exchanged, and the words of an end. */
const [lengthTexts, endWords] = [6, 40];
/** Answers that differ by less are the same: the end was not read. */
const sameAnswer = 1e-6;

async function checkLength(context: AuditContext, drawn: readonly Example[]): Promise<Claim> {
  const { examples } = context;
  const words = drawn.flatMap((example) => getText(context, example).split(/\s+/).filter(Boolean));
  const take = (start: number, count: number): string =>
    Array.from({ length: count }, (_, i) => words[(start + i) % words.length]!).join(" ");
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const [frequent] = [...counts].sort(([, x], [, y]) => y - x)[0]!;
  const isRead = async (length: number): Promise<boolean> => {
    const starts = Array.from({ length: lengthTexts }, (_, i) => Math.floor((i * words.length) / lengthTexts));
    const texts = starts.flatMap((start, i) => {
      // Many telling words would make a model so sure that no end changes the answer.
      const beginning = i % 2 === 0 ? `${frequent} `.repeat(length).trim() : take(start, length);
      return [0, 1, 2].map((end) => {
        const tail = take(start + length + (end + 1) * (endWords + 7), endWords);
        return replaceText(context, drawn[0]!, `${beginning} ${tail}`);
      });
    });
    const rows = await ask(context, texts, "audit length");
    return rows.some((row, i) => row.some((value, k) => Math.abs(value - rows[i - (i % 3)]![k]!) > sameAnswer));
  };
  let [low, high] = [0, maxLength];
  const isComplete = await isRead(maxLength);
  while (!isComplete && high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (await isRead(middle)) low = middle;
    else high = middle;
  }
  const lengths = examples.map((example) => splitWords(getText(context, example)).length);
  const longer = lengths.filter((length) => length > high).length / lengths.length;
  return createClaim({
    id: "truncation",
    area: "input",
    severity: isComplete ? null : rateSeverity(longer, [0, 0.05, 0.5]),
    claim: "The model reads texts to their end.",
    summary: isComplete
      ? `The words after the first ${formatCount(maxLength)} still change the answers.`
      : `Nothing after about ${formatCount(high)} words changes an answer. ${formatPercent(longer)} of the texts are longer ` +
        `(their 95th percentile is ${formatCount(quantile(lengths, 0.95))} words).`,
    domain: `${formatCount(lengthTexts)} texts of up to ${formatCount(maxLength)} words`,
    method: "the words after a length are exchanged; a bisection finds the length after which no probability changes",
    numbers: { ...(isComplete ? {} : { words: high }), longer },
    ids: isComplete ? [] : examples.filter((_, i) => lengths[i]! > high).map(({ id }) => id),
    remedy:
      longer === 0
        ? {
            remedy:
              "The audited texts are shorter. Refuse longer ones, or read them in windows (temper calibrate --windows).",
          }
        : suggestTraining(context, "Train with more tokens, or read texts in windows (temper calibrate --windows).", {
            maxLength: Math.min(512, 32 * Math.ceil((1.5 * quantile(lengths, 0.99)) / 32)),
            out: "runs/longer",
          }),
  });
}

/** "The meeting is on Tuesday at ten." in languages with other letters or words. */
const otherLanguages = [
  "La reunión es el martes a las diez.",
  "Das Treffen ist am Dienstag um zehn Uhr.",
  "会议在星期二十点。",
  "Встреча во вторник в десять.",
  "الاجتماع يوم الثلاثاء الساعة العاشرة.",
  "बैठक मंगलवार को दस बजे है।",
  "회의는 화요일 열 시입니다.",
  "Toplantı salı günü saat onda.",
];
const emptyTexts = ["", " ", "\n", ".", "🙂"];
/** An answer to nothing should not be this sure. */
const sure = 0.95;

async function checkOddTexts(context: AuditContext): Promise<Claim[]> {
  const { task } = context;
  const example = context.examples[0]!;
  const long = `${getText(context, example)} `.repeat(200);
  const texts = [...emptyTexts, ...otherLanguages, long, "a".repeat(5000)];
  const rows = await ask(
    context,
    texts.map((text) => replaceText(context, example, text)),
    "audit odd texts",
  );
  const isValid = (row: Float32Array): boolean =>
    row.every((value) => value >= -1e-3 && value <= 1 + 1e-3) && Math.abs(row.reduce((a, b) => a + b, 0) - 1) < 1e-2;
  const broken = texts.filter((_, i) => !isValid(rows[i]!));
  const check = (id: string, claim: string, shown: readonly string[], start = 0): Claim => {
    const own = rows.slice(start, start + shown.length);
    const confidence = mean(own.map((row) => Math.max(...row)));
    return createClaim({
      id,
      area: "input",
      severity: confidence >= sure ? "low" : null,
      claim,
      summary: `The mean confidence is ${formatPercent(confidence)}.`,
      domain: `${shown.length} texts`,
      method: `mean confidence of at least ${formatPercent(sure, 0)}`,
      numbers: { confidence },
      texts: shown.map((text, i) => {
        const best = toPredictions([own[i]!])[0]!;
        return { text: text === "" ? "(empty)" : text, note: `${task.labels[best]} ${formatPercent(own[i]![best]!)}` };
      }),
      remedy: { remedy: "Answer such texts before the model does, or add some to the training texts." },
    });
  };
  return [
    createClaim({
      id: "invalid-answers",
      area: "input",
      severity: broken.length > 0 ? "high" : null,
      claim: "Every text gets probabilities.",
      summary: `${broken.length} of ${texts.length} unusual texts get answers that are no probabilities.`,
      domain: "empty texts, very long texts, one very long word, other languages",
      method: "probabilities between 0 and 1 that sum to 1",
      texts: broken.map((text) => ({ text, note: "no probabilities" })),
      remedy: { remedy: "Let the model return probabilities for every text." },
    }),
    check("empty-text", "A text without words gets no confident answer.", emptyTexts),
    check("other-languages", "Texts in other languages get no confident answer.", otherLanguages, emptyTexts.length),
  ];
}
