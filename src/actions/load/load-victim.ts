import { createHash } from "node:crypto";
import type { HttpVictimOptions } from "../../attacks/endpoint.js";
import { createFunctionVictim, type PredictProbabilities } from "../../attacks/function-victim.js";
import { connectHttpVictim } from "../../attacks/http-victim.js";
import { createModelVictim } from "../../attacks/model-victim.js";
import type { GradientVictim } from "../../attacks/resources.js";
import type { AbleVictim, Victim } from "../../attacks/victim.js";
import { UserError } from "../../base/errors.js";
import type { Callbacks } from "../../base/events.js";
import type { SanityFacts } from "../../evaluation/sanity-checks.js";
import { closeModel, type Model } from "../../models/index.js";
import { predictByParts } from "../../models/inference/predict-by-parts.js";
import type { Identified } from "../../models/inference/predictor.js";
import { createSearchPredictor } from "../../models/inference/search-predictor.js";
import type { CertifiedModel } from "../../proofs/certificates/index.js";
import { RunFolder } from "../../runs/run-folder.js";
import type { RuntimeConfig, RuntimeOptions } from "../../settings/runtime-config.js";
import type { Tokenization } from "../../text/encoding.js";
import { findAttackedModel, type GuardChoice } from "../predict/certified-model.js";
import { loadLocalModel } from "./load-local-model.js";

export interface LoadedVictim {
  readonly name: string;
  readonly victim: AbleVictim & Identified;
  /** The labels that an endpoint answers with, if they are known. */
  readonly labels?: readonly string[] | null;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly facts: SanityFacts;
  readonly precision: RuntimeConfig["precision"] | null;
  readonly concurrency: number;
  /** The loaded model and the run that trained it; null for an endpoint. */
  readonly local: {
    readonly model: Model;
    /** Null for an ONNX model, which has no gradients. */
    readonly gradient: GradientVictim | null;
    readonly run: RunFolder | null;
  } | null;
  close(): void;
}

export interface LoadVictimOptions extends RuntimeOptions, Pick<Callbacks, "onEvent"> {
  /** The tokenization of a model that Temper did not train. */
  readonly tokenization?: Tokenization | null;
  readonly maxLength?: number | null;
  readonly endpoint?: HttpVictimOptions;
  /** Confirm decisions in float32 on a GPU, too, as proofs need. On a CPU, they always are. */
  readonly isConfirmed?: boolean;
  readonly guard?: GuardChoice;
}

/** Enough searches to fill batches; more would only make progress coarser. */
const defaultConcurrency = { cpu: 64, gpu: 256, endpoint: 64 };

export async function loadVictim(
  reference: string | PredictProbabilities,
  options: LoadVictimOptions = {},
): Promise<LoadedVictim> {
  if (typeof reference === "function") return createRemoteVictim(await createFunctionVictim(reference));
  return isEndpoint(reference) ? connectEndpoint(reference, options) : loadModelVictim(reference, options);
}

export function isEndpoint(reference: string): boolean {
  return /^https?:/i.test(reference);
}

async function connectEndpoint(url: string, options: LoadVictimOptions): Promise<LoadedVictim> {
  if (options.tokenization || options.maxLength)
    throw new UserError(
      "--tokenization and --max-length are for models. An endpoint reads text its own way: leave them out.",
    );
  const victim = await connectHttpVictim(url, options.endpoint, options);
  return { ...createRemoteVictim(victim, url), labels: victim.labels };
}

function createRemoteVictim(victim: AbleVictim & Identified, name = victim.name): LoadedVictim {
  return {
    name,
    victim,
    settings: {},
    facts: {},
    precision: null,
    concurrency: defaultConcurrency.endpoint,
    local: null,
    close: () => undefined,
  };
}

async function loadModelVictim(reference: string, options: LoadVictimOptions): Promise<LoadedVictim> {
  const { model, runtime } = await loadLocalModel(reference, options, { use: "search" });
  try {
    const victim = await createLocalVictim(model, runtime, options);
    const close = (): void => {
      victim.close();
      closeModel(model);
    };
    return { ...victim, close };
  } catch (error) {
    closeModel(model);
    throw error;
  }
}

/** Creates a victim from a model in memory. `close` keeps the weights of the model. */
export async function createLocalVictim(
  model: Model,
  runtime: RuntimeConfig,
  { isConfirmed: confirmsOnGpu = false, guard = {} }: Pick<LoadVictimOptions, "isConfirmed" | "guard"> = {},
): Promise<LoadedVictim> {
  const { session } = model;
  const run = await RunFolder.containing(model.folder);
  const certified = await findAttackedModel(model, runtime, guard);
  const { predictor, isConfirmed, close } = await createSearchPredictor<AbleVictim & Identified>(
    { model, runtime, confirmsOnGpu, isVote: certified !== null },
    async (of, classifier, deviceConfig) => {
      const base = await createModelVictim(of, classifier, deviceConfig);
      return certified ? createCertifiedVictim(base, certified, model) : base;
    },
  );
  const isTrained = "temper" in model.architecture.config.raw;
  const { tokenization: used } = model;
  return {
    name: model.reference,
    victim: predictor,
    settings: {
      tokenization: used,
      maxLength: model.maxLength,
      ...(certified && { certificate: certified.identity }),
      ...((guard.windows || guard.calibrated) && { guard }),
      backend: session ? "onnx" : "libtorch",
      ...(session?.exportedFrom && { exportedFrom: session.exportedFrom }),
      ...(isConfirmed ? { precision: "fp32", searchPrecision: runtime.precision } : { precision: runtime.precision }),
    },
    precision: runtime.precision,
    facts: { tokenization: used, trainedTokenization: isTrained ? used : "subword" },
    concurrency: runtime.device === "cpu" ? defaultConcurrency.cpu : defaultConcurrency.gpu,
    local: {
      model,
      // Gradients belong to the tokens of the canonical form, not to words of the text.
      gradient:
        session || model.normalize === "canonical"
          ? null
          : { model, weights: model.weights, device: runtime.device, hashes: predictor.hashes },
      run,
    },
    close,
  };
}

/**
 * A model that classifies by parts of a text, as an attack sees it. `base` is the model that
 * classifies the parts. An attack must attack the model that is used, because certificates of the
 * vote say nothing about the base.
 */
function createCertifiedVictim(
  base: Victim & Identified,
  { identity, split, score, answer }: CertifiedModel,
  { tokenizer }: Pick<Model, "tokenizer">,
): Victim & Identified {
  const [unkToken] = tokenizer.idsToTokens([tokenizer.special.unkId]) as [string];
  return {
    ...predictByParts(base, {
      split,
      combine: (rows) => ({ probabilities: Float32Array.from(score?.(rows) ?? answer(rows).probabilities) }),
    }),
    unkToken,
    hash: createHash("sha256")
      .update(JSON.stringify([base.hash, identity]))
      .digest("hex"),
    hashes: base.hashes,
    isDeterministic: base.isDeterministic,
  };
}
