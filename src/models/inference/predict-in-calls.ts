import { UserError } from "../../base/errors.js";
import type { CallLimits, PredictOptions, Predictor, PreparedText } from "./predictor.js";
import { getRow, type Score } from "./score.js";

/** Predicts in calls of limited size, shortest first, for progress and for stopping. */
export async function predictInCalls<Item extends PreparedText, Answer extends Score>(
  predictor: Predictor<Item, Answer>,
  items: readonly Item[],
  { maxCallSize, ...options }: PredictOptions = {},
): Promise<Answer[]> {
  // Sorting is stable, so texts of equal length stay in their order.
  const order = [...items.keys()].sort((a, b) => items[a]!.length - items[b]!.length);
  const answers = new Array<Answer>(items.length);
  for (const call of splitIntoCalls(order, (i) => items[i]!.length, predictor.callLimits, maxCallSize)) {
    const texts = call.map((i) => items[i]!);
    const { onCall, ...asked } = selectOptions(options, call);
    const found = await predictor.predict(texts, asked);
    checkAnswers(found, texts.length, predictor);
    for (const [at, i] of call.entries()) answers[i] = found[at]!;
    onCall?.(new Map(found.entries()));
  }
  return answers;
}

/** The options for some of the items, which have other indices then. */
export function selectOptions(
  { getAccuracy, onCall, ...rest }: PredictOptions,
  indices: readonly number[],
): PredictOptions {
  return {
    ...rest,
    ...(getAccuracy && { getAccuracy: (at: number) => getAccuracy(indices[at]!) }),
    ...(onCall && {
      onCall: (answers) => onCall(new Map([...answers].map(([at, answer]) => [indices[at]!, answer]))),
    }),
  };
}

/** Wraps a predictor so that it computes in calls of limited size. */
export function splitCalls<Given extends Predictor>(predictor: Given): Given {
  return {
    ...predictor,
    predict: (items: readonly PreparedText[], options?: PredictOptions) =>
      predictInCalls<PreparedText, Score>(predictor, items, options),
  };
}

/** Splits texts into calls: a call takes as many in a row as the limits allow. */
function* splitIntoCalls<T>(
  texts: readonly T[],
  getLength: (text: T) => number,
  { maxTexts, maxTokens = Number.POSITIVE_INFINITY }: CallLimits,
  maxCallSize = Number.POSITIVE_INFINITY,
): Generator<T[]> {
  const most = Math.min(maxTexts, maxCallSize);
  let call: T[] = [];
  let tokens = 0;
  for (const text of texts) {
    const length = getLength(text);
    if (call.length > 0 && (call.length === most || tokens + length > maxTokens)) {
      yield call;
      call = [];
      tokens = 0;
    }
    call.push(text);
    tokens += length;
  }
  if (call.length > 0) yield call;
}

function checkAnswers(answers: readonly Score[], count: number, { name, numLabels }: Predictor): void {
  if (answers.length !== count)
    throw new UserError(`${name}: expected ${count} rows of probabilities, received ${answers.length}`);
  for (const answer of answers) {
    const row = getRow(answer);
    let isValid = row.length === numLabels;
    for (let i = 0; i < row.length; i++) isValid &&= Number.isFinite(row[i]);
    if (isValid) continue;
    const received = Array.from(row).slice(0, 8).join(", ");
    throw new UserError(`${name}: expected ${numLabels} finite probabilities per text, received [${received}]`);
  }
}
