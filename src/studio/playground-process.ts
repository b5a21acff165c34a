import { answerCalls, type CallContext } from "../jobs/call-process.js";
import type { SearchMessage } from "./api.js";
import { LoadedPlaygroundModel, type TypedSearch } from "./playground-model.js";

/** The program of the process in which the models of the playground compute. */

/** Models that stay loaded. The one that was not used for the longest time is freed. */
const maxModels = 3;
const models = new Map<string, Promise<LoadedPlaygroundModel>>();

/** A run or an ONNX model by its folder. It is loaded once. */
function open(source: string): Promise<LoadedPlaygroundModel> {
  const model = models.get(source) ?? LoadedPlaygroundModel.load(source);
  models.delete(source);
  models.set(source, model);
  model.catch(() => models.delete(source));
  for (const oldest of models.keys()) if (models.size > maxModels) free(oldest);
  return model;
}

function free(source: string): void {
  const model = models.get(source);
  models.delete(source);
  model?.then((loaded) => loaded.close()).catch(() => undefined);
}

interface Source {
  readonly source: string;
}

const methods = {
  describe: async ({ source }: Source) => (await open(source)).info,
  listExamples: async ({ source }: Source) => (await open(source)).listExamples(),
  score: async ({ source, texts, withWords }: Source & { texts: readonly string[]; withWords: boolean }) =>
    (await open(source)).score(texts, withWords),
  attack: async ({ source, ...attack }: Source & TypedSearch, context: CallContext<SearchMessage>) =>
    (await open(source)).attack(attack, context),
};
export type PlaygroundMethods = typeof methods;

answerCalls(methods);
