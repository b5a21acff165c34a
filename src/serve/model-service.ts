import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { UsedAnswer } from "../actions/predict/certified-model.js";
import { UserError } from "../base/errors.js";
import type { Predictor, PreparedText } from "../models/inference/predictor.js";
import { describeHiddenText, findHiddenText } from "../text/hidden-text.js";
import { serveInTurn } from "./fair-queue.js";
import { HttpError } from "./http.js";
import { checkPasses, countPasses, PassBudget, type PassLimits } from "./pass-budget.js";

/** Milliseconds of tokenization after which other requests get their turn. */
const maxBusyMilliseconds = 10;
/** A batch is so much smaller than a call of the model, because other clients wait for it. */
const batchesPerCall = 4;
/** Tokens per call of a GPU, which has no limit of its own. */
const gpuTokens = 262_144;

export interface ServiceLimits extends PassLimits {
  readonly maxBatchTexts: number;
  /** True if texts with hidden text are errors. Default: false. */
  readonly rejectHidden?: boolean;
}

export interface ServiceEvents {
  onBatch(texts: number): void;
  /** Called with the model passes that wait or are being computed. */
  onWaiting(passes: number): void;
}

/** A model that answers several clients in turn. */
export interface ModelService {
  answer(texts: readonly (readonly string[])[], client: string): Promise<readonly UsedAnswer[]>;
}

/** A model, and how it is used: with windows, votes or a threshold. */
export interface ServedPredictor {
  readonly predictor: Predictor;
  wrap(predictor: Predictor): Predictor<PreparedText, UsedAnswer>;
}

export function createModelService(
  { predictor: model, wrap }: ServedPredictor,
  { maxBatchTexts, rejectHidden = false, ...limits }: ServiceLimits,
  events: ServiceEvents,
): ModelService {
  const budget = new PassBudget(limits, events.onWaiting);
  const counted: Predictor = {
    ...model,
    predict(items) {
      events.onBatch(items.length);
      return model.predict(items);
    },
  };
  const { maxTokens = gpuTokens } = model.callLimits;
  const predictor = wrap(
    serveInTurn(counted, { maxTexts: maxBatchTexts, maxTokens: Math.ceil(maxTokens / batchesPerCall) }),
  );
  return {
    async answer(texts, client) {
      const hidden = texts.map(findHiddenText);
      const rejected = rejectHidden ? hidden.findIndex((each) => each !== null) : -1;
      if (rejected >= 0)
        throw new HttpError(400, `texts[${rejected}] has ${describeHiddenText(hidden[rejected]!)}. Remove it.`);
      const items = await prepareInSlices(texts, predictor, limits.maxPasses).catch((error: unknown) => {
        // A text that the model cannot read, such as a pair for a model with windows.
        throw error instanceof UserError ? new HttpError(400, error.message) : error;
      });
      const release = budget.reserve(client, countPasses(items));
      const answers = await predictor.predict(items, { client }).finally(release);
      // Only data: another process may read it.
      return answers.map(({ probabilities, truncated, certified, flagged }, i) => ({
        probabilities: Array.from(probabilities),
        ...(truncated !== undefined && { truncated }),
        ...(certified && { certified }),
        ...(flagged !== undefined && { flagged }),
        ...(hidden[i] && { hidden: hidden[i] }),
      }));
    },
  };
}

/** Tokenizes texts, up to a number of passes, and lets other requests run in between. */
async function prepareInSlices(
  texts: readonly (readonly string[])[],
  { prepare }: Pick<Predictor, "prepare">,
  maxPasses: number,
): Promise<PreparedText[]> {
  const items: PreparedText[] = [];
  let started = performance.now();
  let passes = 0;
  for (const text of texts) {
    const prepared = prepare([text]);
    passes += countPasses(prepared);
    checkPasses(passes, maxPasses);
    items.push(...prepared);
    if (performance.now() - started < maxBusyMilliseconds) continue;
    await yieldToEventLoop();
    started = performance.now();
  }
  return items;
}
