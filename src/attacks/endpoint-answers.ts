import { jsonpath } from "json-p3";
import { getErrorMessage, UserError } from "../base/errors.js";
import type { ParsedHttpVictimOptions } from "./endpoint.js";
import type { PlainText } from "./victim.js";

/** The body of a question to an endpoint, and the places of labels and scores in its answers. */
interface AnswerMapping {
  /** A body in JSON, with $texts for the list of texts or $text for the only one. */
  readonly request: string;
  /** JSONPath of the labels, one or several per text; null if there are only scores. */
  readonly labels: string | null;
  readonly scores: string;
  /** The labels in the order of the task's; null: those of the first answer, in alphabetical order. */
  readonly classes: readonly string[] | null;
}

/** The bodies and answers of well-known servers. */
const presets: Readonly<Record<NonNullable<ParsedHttpVictimOptions["preset"]>, Partial<AnswerMapping>>> = {
  // Text Embeddings Inference and Hugging Face's Inference API: all labels of each text.
  tei: { labels: "$[*][*].label", scores: "$[*][*].score" },
  // A pipeline of transformers: the most probable label of each text.
  transformers: { labels: "$[*].label", scores: "$[*].score" },
  // The score of a text is the largest one of its categories.
  "openai-moderation": {
    request: '{"input": $texts}',
    scores: "$.results[*].category_scores",
    classes: ["safe", "flagged"],
  },
};

/** The mapping of an endpoint; null if it speaks Temper's own format. */
export function resolveMapping({ preset, ...given }: ParsedHttpVictimOptions): AnswerMapping | null {
  const base: Partial<AnswerMapping> = preset ? presets[preset] : {};
  const [request, labels] = [given.request ?? base.request, given.labels ?? base.labels];
  const [scores, classes] = [given.scores ?? base.scores, given.classes ?? base.classes];
  if ([request, labels, scores, classes].every((part) => part === undefined)) return null;
  if (scores === undefined)
    throw new UserError(
      "endpoint: scores: expected the JSONPath of the scores in an answer, such as $[*].score, received nothing.",
    );
  return { request: request ?? '{"inputs": $texts}', labels: labels ?? null, scores, classes: classes ?? null };
}

export function writeBody(template: string, texts: readonly PlainText[]): string {
  if (!template.includes("$text"))
    throw new UserError(
      `endpoint: request: expected JSON with $texts (the list of texts) or $text (one text), received ${template}`,
    );
  if (!template.includes("$texts") && texts.length > 1)
    throw new UserError("endpoint: request: $text stands for one text. Set batchSize=1, or use $texts.");
  const body = template
    .replaceAll("$texts", () => JSON.stringify(texts))
    .replaceAll("$text", () => JSON.stringify(texts[0]));
  try {
    JSON.parse(body);
  } catch (error) {
    throw new UserError(
      `endpoint: request: expected JSON after $texts or $text is filled in, received ${template} (${getErrorMessage(error)})`,
    );
  }
  return body;
}

/**
 * Reads the probabilities of the texts from an answer. Scores outside of 0 to 1 are logits (softmax, also in later
 * answers), and others are divided by their sum, so that the order of the labels stays. If only one label of a text is
 * given, the others share what is left.
 */
export function readMappedRows(
  data: unknown,
  count: number,
  mapping: AnswerMapping & { readonly isLogits?: boolean },
  where: string,
): { readonly classes: readonly string[] | null; readonly rows: number[][]; readonly isLogits: boolean } {
  const scores = select(mapping.scores, data, "scores", where).map((value) => readScore(value, mapping.scores, where));
  const isLogits = mapping.isLogits || scores.some((value) => value < 0 || value > 1);
  const width = scores.length / count;
  if (!Number.isInteger(width))
    throw new UserError(
      `${where}: scores (${mapping.scores}): expected the same number of scores for each of ${count} texts, received ${scores.length}.`,
    );
  const chunk = <T>(values: readonly T[]): T[][] =>
    Array.from({ length: count }, (_, i) => values.slice(i * width, (i + 1) * width));
  if (mapping.labels === null) {
    // A logit alone is one of a sigmoid.
    const complete = (row: readonly number[]) => (row.length === 1 ? [isLogits ? 0 : 1 - row[0]!, row[0]!] : row);
    const rows = chunk(scores).map((row) => normalize(complete(row), isLogits));
    const found = rows[0]!.length;
    if (mapping.classes !== null && mapping.classes.length !== found)
      throw new UserError(
        `${where}: expected one score (${mapping.scores}) for each of the classes ${mapping.classes.join(", ")}, received ${found} per text.`,
      );
    return { classes: mapping.classes, rows, isLogits };
  }
  const labels = select(mapping.labels, data, "labels", where).map(String);
  if (labels.length !== scores.length)
    throw new UserError(
      `${where}: expected as many labels (${mapping.labels}) as scores (${mapping.scores}), received ${labels.length} and ${scores.length}.`,
    );
  const classes = mapping.classes ?? (width > 1 ? [...new Set(labels)].sort() : null);
  if (classes === null)
    throw new UserError(
      `${where}: the answer has one label per text (${[...new Set(labels)].slice(0, 3).join(", ")}). ` +
        "Name all labels in the order of the task's: classes=ham,spam",
    );
  const unknown = labels.find((label) => !classes.includes(label));
  if (unknown !== undefined)
    throw new UserError(
      `${where}: the label ${JSON.stringify(unknown)} is not one of the classes ${classes.join(", ")}.`,
    );
  const named = chunk(labels);
  const rows = chunk(scores).map((row, i) => {
    const missing = classes.length - new Set(named[i]).size;
    const rest = Math.max(0, 1 - row.reduce((sum, value) => sum + value, 0)) / Math.max(1, missing);
    return normalize(
      classes.map((name) => {
        const index = named[i]!.indexOf(name);
        return index < 0 ? rest : row[index]!;
      }),
      isLogits,
    );
  });
  return { classes, rows, isLogits };
}

function select(path: string, data: unknown, key: string, where: string): unknown[] {
  let found: unknown[];
  try {
    found = jsonpath.query(path, data as Parameters<typeof jsonpath.query>[1]).values();
  } catch (error) {
    throw new UserError(
      `endpoint: ${key}: expected a JSONPath such as $[*].score, received ${path} (${getErrorMessage(error)})`,
    );
  }
  if (found.length > 0) return found;
  const answer = JSON.stringify(data);
  throw new UserError(
    `${where}: ${key} (${path}) matches nothing in the answer ${answer.length > 200 ? `${answer.slice(0, 197)}…` : answer}. ` +
      `Correct the path, or pass a function as the model.`,
  );
}

/** A score, or the largest one of an object of scores. */
function readScore(value: unknown, path: string, where: string): number {
  const isObject = typeof value === "object" && value !== null;
  const score = isObject ? Math.max(...Object.values(value).filter((each) => typeof each === "number")) : value;
  if (typeof score === "number" && Number.isFinite(score)) return score;
  throw new UserError(`${where}: scores (${path}): expected numbers, received ${JSON.stringify(value)}.`);
}

function normalize(row: readonly number[], isLogits: boolean): number[] {
  const largest = Math.max(...row);
  const weights = isLogits ? row.map((value) => Math.exp(value - largest)) : row;
  const total = weights.reduce((sum, value) => sum + value, 0);
  return total > 0 ? weights.map((value) => value / total) : row.map(() => 1 / row.length);
}
