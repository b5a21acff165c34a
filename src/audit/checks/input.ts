import { listRewritings } from "../../attacks/transformations/rewrite-text.js";
import { formatCount, formatPercent } from "../../base/format.js";
import { toPredictions } from "../../evaluation/metrics.js";
import { mean, quantile } from "../../evaluation/statistics.js";
import { listLookAlikes } from "../../text/confusables.js";
import { splitWords } from "../../text/words.js";
import { type Claim, createClaim, rateSeverity, type ShownText } from "../claim.js";
import {
  type Answered,
  type AuditContext,
  ask,
  drawCorrect,
  getText,
  replaceText,
  type StepResult,
} from "../context.js";
import { suggestHarden, suggestTraining } from "../remedies.js";

/** Checks how a model reads texts that are written in unusual ways. */
export async function checkInput(context: AuditContext): Promise<StepResult> {
  const drawn = drawCorrect(context, "input").slice(0, context.plan.inputTexts);
  if (drawn.length === 0) return { claims: [] };
  const claims = [...(await checkWriting(context, drawn)), await checkHiddenText(context, drawn)];
  claims.push(await checkLength(context, drawn), ...(await checkOddTexts(context)));
  return { claims };
}

/** Text that looks the same, or that people read in the same way. */
async function checkWriting(context: AuditContext, drawn: readonly Answered[]): Promise<Claim[]> {
  const rewritings = listRewritings("reads-same", listLookAlikes()).map(({ name, validity, rewrite, isWhole }) => ({
    name,
    id: name === "a letter before words" ? "tokenizer-breaks" : validity,
    write: (text: string) => (isWhole ? rewrite(text) : text.replaceAll(/\S+/gu, rewrite)),
  }));
  const spacing = [
    { name: "decomposed letters", id: "spacing", write: (text: string) => text.normalize("NFD") },
    { name: "two spaces", id: "spacing", write: (text: string) => text.replaceAll(" ", "  ") },
    { name: "a line break at the end", id: "spacing", write: (text: string) => `${text}\n` },
  ];
  const all = [...rewritings, ...spacing];
  const texts = all.flatMap(({ write }) =>
    drawn.map(({ example }) => replaceText(context, example, write(getText(context, example)))),
  );
  const predicted = toPredictions(await ask(context, texts, "audit input"));
  const measured = all.map(({ name, id, write }, r) => {
    const changed = drawn.filter((each, i) => predicted[r * drawn.length + i] !== each.predicted);
    return { name, id, write, changed, rate: changed.length / drawn.length };
  });
  const kinds = [
    ["looks-same", "Texts that look the same have the same answer (canonical forms)."],
    ["reads-same", "Texts that people read in the same way have the same answer."],
    ["tokenizer-breaks", "A letter before words does not change the answer (tokenizer breaks)."],
    ["spacing", "Spaces and composed letters do not change the answer."],
  ] as const;
  return kinds.map(([id, claim]) => {
    const own = measured.filter((each) => each.id === id).sort((a, b) => b.rate - a.rate);
    const worst = own[0]!;
    const severity = weigh(context, rateSeverity(worst.rate, [0.1, 0.25, 0.6]), id === "reads-same");
    const shown = own.flatMap(({ name, write, changed }) =>
      changed.slice(0, 1).map(({ example, predicted: before }): ShownText => {
        return {
          id: example.id,
          text: write(getText(context, example)),
          note: `${name}: no longer ${context.task.labels[before]}`,
        };
      }),
    );
    return createClaim({ id, area: "input", claim }, severity, {
      summary: `${formatPercent(worst.rate)} of the answers change with ${worst.name}.`,
      domain: `${formatCount(drawn.length)} correctly classified texts`,
      method: `each text is written anew: ${own.map(({ name }) => name).join(", ")}`,
      numbers: Object.fromEntries(own.map(({ name, rate }) => [name, rate])),
      ids: worst.changed.map(({ example }) => example.id),
      texts: shown,
      ...(severity !== null &&
        (id === "reads-same" || id === "tokenizer-breaks"
          ? suggestHarden(context, "Train on changed letters, too.")
          : suggestTraining(context, "Read texts in their canonical form.", {
              normalize: "canonical",
              out: "runs/canonical",
            }))),
    });
  });
}

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
async function checkHiddenText(context: AuditContext, drawn: readonly Answered[]): Promise<Claim> {
  const { task, request } = context;
  const positive = request.positiveLabel === null ? null : task.labels.indexOf(request.positiveLabel);
  const cases = drawn.flatMap((carrier, i) => {
    const others = [...drawn.slice(i), ...drawn.slice(0, i)].filter(({ predicted }) => predicted !== carrier.predicted);
    const label = positive ?? others[0]?.predicted;
    const payload = others.filter(({ predicted }) => predicted === label).slice(0, payloadTexts);
    if (payload.length === 0 || carrier.predicted === positive) return [];
    return [{ carrier, payload: payload.map(({ example }) => getText(context, example)).join(" ") }];
  });
  const write = (hide: (payload: string) => string): string[][] =>
    cases.map(({ carrier, payload }) =>
      replaceText(context, carrier.example, `${getText(context, carrier.example)} ${hide(payload)}`),
    );
  const asked = [write((payload) => payload), ...Object.values(carriers).map(write)];
  const predicted = toPredictions(await ask(context, asked.flat(), "audit hidden text"));
  const at = (kind: number, i: number): number => predicted[kind * cases.length + i]!;
  const telling = cases.map((_, i) => i).filter((i) => at(0, i) !== cases[i]!.carrier.predicted);
  const rates = Object.keys(carriers).map((name, kind) => {
    const passed = telling.filter((i) => at(kind + 1, i) !== at(0, i));
    return { name, passed, rate: telling.length === 0 ? 0 : passed.length / telling.length };
  });
  const worst = [...rates].sort((a, b) => b.rate - a.rate)[0]!;
  const severity = rateSeverity(worst.rate, [0.1, 0.1, 0.1]);
  return createClaim(
    { id: "hidden-text", area: "input", claim: "Hidden text changes the answer as visible text does." },
    severity === null ? null : positive === null ? "low" : severity,
    {
      summary:
        telling.length === 0
          ? "No added text changed an answer, so nothing could be hidden."
          : `${formatPercent(worst.rate)} of the texts that change the answer if they are visible pass if they are hidden in ${worst.name}.`,
      domain: `${formatCount(telling.length)} texts whose visible addition changes the answer`,
      method: "texts of another label, hidden as Unicode tags, variation selectors and zero-width bits",
      numbers: Object.fromEntries(rates.map(({ name, rate }) => [name, rate])),
      ids: worst.passed.map((i) => cases[i]!.carrier.example.id),
      texts: worst.passed.map((i) => ({
        id: cases[i]!.carrier.example.id,
        text: getText(context, cases[i]!.carrier.example),
        note: `hidden behind it: ${cases[i]!.payload.slice(0, 100)}`,
      })),
      ...(severity !== null &&
        suggestTraining(
          context,
          "Decode hidden text by the canonical form, or refuse it (temper serve --reject-hidden).",
          {
            normalize: "canonical",
            out: "runs/canonical",
          },
        )),
    },
  );
}

/** Lengths in words up to which the end of a text must matter. */
const maxLength = 1024;
/** Texts whose end is exchanged, and the words of an end. */
const [lengthTexts, endWords] = [6, 40];
/** Answers that differ by less are the same: the end was not read. */
const sameAnswer = 1e-6;

/** Finds the number of words after which nothing is read, by exchanging the rest of long texts. */
async function checkLength(context: AuditContext, drawn: readonly Answered[]): Promise<Claim> {
  const { examples, task } = context;
  const words = drawn.flatMap(({ example }) => getText(context, example).split(/\s+/).filter(Boolean));
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
        return replaceText(context, drawn[0]!.example, `${beginning} ${tail}`);
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
  const severity = isComplete ? null : longer >= 0.5 ? "high" : longer >= 0.05 ? "medium" : "low";
  return createClaim({ id: "truncation", area: "input", claim: "The model reads texts to their end." }, severity, {
    summary: isComplete
      ? `The words after the first ${formatCount(maxLength)} still change the answers.`
      : `Nothing after about ${formatCount(high)} words changes an answer. ${formatPercent(longer)} of the texts are longer ` +
        `(their 95th percentile is ${formatCount(quantile(lengths, 0.95))} words).`,
    domain: `${formatCount(lengthTexts)} texts of up to ${formatCount(maxLength)} words`,
    method: "the words after a length are exchanged; a bisection finds the length after which no probability changes",
    numbers: { ...(isComplete ? {} : { words: high }), longer },
    ids: isComplete ? [] : examples.filter((_, i) => lengths[i]! > high).map(({ id }) => id),
    ...(severity !== null &&
      suggestTraining(
        context,
        `Train with more tokens, or let ${task.name} be read in windows (temper calibrate --windows).`,
        {
          maxLength: Math.min(512, 32 * Math.ceil((1.5 * quantile(lengths, 0.99)) / 32)),
          out: "runs/longer",
        },
      )),
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
  const { examples, task } = context;
  const [example] = examples;
  const long = `${getText(context, example!)} `.repeat(200);
  const texts = [...emptyTexts, ...otherLanguages, long, "a".repeat(5000)];
  const rows = await ask(
    context,
    texts.map((text) => replaceText(context, example!, text)),
    "audit odd texts",
  );
  const isValid = (row: Float32Array): boolean =>
    row.every((value) => value >= -1e-3 && value <= 1 + 1e-3) && Math.abs(row.reduce((a, b) => a + b, 0) - 1) < 1e-2;
  const broken = texts.filter((_, i) => !isValid(rows[i]!));
  const describe = (shown: readonly string[], own: readonly Float32Array[]): ShownText[] =>
    shown.map((text, i) => {
      const best = toPredictions([own[i]!])[0]!;
      return { text: text === "" ? "(empty)" : text, note: `${task.labels[best]} ${formatPercent(own[i]![best]!)}` };
    });
  const check = (id: string, claim: string, shown: readonly string[], own: readonly Float32Array[]): Claim => {
    const confidence = mean(own.map((row) => Math.max(...row)));
    return createClaim({ id, area: "input", claim }, confidence >= sure ? "low" : null, {
      summary: `The mean confidence is ${formatPercent(confidence)}.`,
      domain: `${shown.length} texts`,
      method: `mean confidence of at least ${formatPercent(sure, 0)}`,
      numbers: { confidence },
      texts: describe(shown, own),
      ...(confidence >= sure && {
        remedy: "Answer such texts before the model does, or add some to the training texts.",
      }),
    });
  };
  const [empty, foreign] = [rows.slice(0, emptyTexts.length), rows.slice(emptyTexts.length, -2)];
  return [
    createClaim(
      { id: "invalid-answers", area: "input", claim: "Every text gets probabilities." },
      broken.length > 0 ? "high" : null,
      {
        summary: `${broken.length} of ${texts.length} unusual texts get answers that are no probabilities.`,
        domain: "empty texts, very long texts, one very long word, other languages",
        method: "probabilities between 0 and 1 that sum to 1",
        texts: broken.map((text) => ({ text, note: "no probabilities" })),
        ...(broken.length > 0 && { remedy: "Let the model return probabilities for every text." }),
      },
    ),
    check("empty-text", "A text without words gets no confident answer.", emptyTexts, empty),
    check("other-languages", "Texts in other languages get no confident answer.", otherLanguages, foreign),
  ];
}
