import type { GradientVictim } from "../attacks/ascc-attack.js";
import type { AttackSpaceOptions } from "../attacks/attack-space.js";
import { createHttpVictim, type HttpVictimOptions } from "../attacks/http-victim.js";
import { createModelVictim } from "../attacks/model-victim.js";
import type { PreparedInput, Victim } from "../attacks/victim.js";
import { UserError } from "../errors.js";
import type { SanityFacts } from "../evaluation/sanity-checks.js";
import { createClassifier, type LoadModelOptions, loadModel, type Model } from "../models/index.js";
import { free } from "../tensor/index.js";
import type { Tokenization } from "../text/encoding.js";
import { splitWords } from "../text/words.js";
import { findTrainingRun, type TrainingRun } from "./run-of-model.js";
import { configureRuntime, type RuntimeOptions } from "./runtime-config.js";

/** Something to attack, and how it reads text. */
export interface LoadedVictim {
  readonly victim: Victim<PreparedInput>;
  /** Cuts texts into the words that an attack may change. */
  readonly encode: AttackSpaceOptions["encode"];
  /** What of it decides results beside its hashes, for the journal. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly facts: SanityFacts;
  /** Searches at once that keep it busy. */
  readonly concurrency: number;
  /** The model at hand and the run that made it; null for an endpoint. */
  readonly local: { readonly model: Model; readonly gradient: GradientVictim; readonly run: TrainingRun | null } | null;
  close(): void;
}

export interface LoadVictimOptions extends Partial<RuntimeOptions> {
  /** How text is read, for a model that Temper did not train. */
  readonly tokenization?: Tokenization | undefined;
  readonly maxLength?: number | undefined;
  readonly endpoint?: HttpVictimOptions;
  readonly onDownload?: LoadModelOptions["onProgress"];
}

/** Enough searches to fill batches; more would only make progress coarser. */
const defaultConcurrency = { cpu: 64, gpu: 256, endpoint: 64 };

/** Opens a model (a folder, npm:PACKAGE or a hub name) or an endpoint (an http address) to be attacked. */
export async function loadVictim(reference: string, options: LoadVictimOptions = {}): Promise<LoadedVictim> {
  return /^https?:/.test(reference) ? loadEndpointVictim(reference, options) : loadModelVictim(reference, options);
}

async function loadEndpointVictim(url: string, options: LoadVictimOptions): Promise<LoadedVictim> {
  if (options.tokenization !== undefined || options.maxLength !== undefined)
    throw new UserError(
      "--tokenization and --max-length are for models; an endpoint reads text in its own way: leave them out",
    );
  return {
    victim: await createHttpVictim(url, options.endpoint),
    encode: splitIntoWords,
    settings: {},
    facts: {},
    concurrency: defaultConcurrency.endpoint,
    local: null,
    close: () => undefined,
  };
}

async function loadModelVictim(reference: string, options: LoadVictimOptions): Promise<LoadedVictim> {
  const { device = "auto", precision = null, threads = null, tokenization, maxLength } = options;
  const runtimeConfig = configureRuntime({ device, precision, threads });
  const model = await loadModel(reference, {
    device: runtimeConfig.device,
    ...(options.onDownload && { onProgress: options.onDownload }),
    ...(tokenization && { tokenization }),
    ...(maxLength && { maxLength }),
  });
  const classifier = createClassifier(model, model.weights, runtimeConfig);
  const close = () => {
    classifier.close();
    free(model.weights);
  };
  try {
    const victim = await createModelVictim(model, classifier, runtimeConfig);
    const trained = "temper" in model.architecture.config.raw;
    if (trained && tokenization && tokenization !== model.tokenization)
      throw new UserError(
        `--tokenization: ${reference} was trained with ${model.tokenization}, received ${tokenization}; leave the option out`,
      );
    return {
      victim,
      encode: (texts) => model.tokenizer.encodeWords(texts, model.maxLength),
      settings: { encoding: model.tokenization, maxLength: model.maxLength, precision: runtimeConfig.precision },
      facts: { encoding: model.tokenization, trainedEncoding: trained ? model.tokenization : "subword" },
      concurrency: runtimeConfig.device === "cpu" ? defaultConcurrency.cpu : defaultConcurrency.gpu,
      local: {
        model,
        gradient: { model, weights: model.weights, device: runtimeConfig.device, hashes: victim.hashes },
        run: await findTrainingRun(model.folder),
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

function splitIntoWords(texts: readonly string[]): { words: string[]; fields: number[] } {
  const cut = texts.map(splitWords);
  return { words: cut.flat(), fields: cut.flatMap((words, field) => words.map(() => field)) };
}
