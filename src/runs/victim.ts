import type { GradientVictim } from "../attacks/ascc.js";
import { type HttpVictimOptions, openHttpVictim } from "../attacks/http-victim.js";
import { modelVictim } from "../attacks/model-victim.js";
import type { TargetOptions } from "../attacks/target.js";
import type { Prepared, Victim } from "../attacks/victim.js";
import { UserError } from "../errors.js";
import type { SanityFacts } from "../evaluation/attack-sanity.js";
import { type LoadOptions, loadModel, type Model, openClassifier } from "../models/index.js";
import { free } from "../tensor/index.js";
import type { EncodingName } from "../text/encoding.js";
import { splitWords } from "../text/words.js";
import { chooseMachine, type MachineChoice } from "./placement.js";
import { type RunOfModel, runOfModel } from "./run-of-model.js";

/** Something to attack, and how it reads text. */
export interface OpenedVictim {
  readonly victim: Victim<Prepared>;
  /** Cuts texts into the words that an attack may change. */
  readonly encode: TargetOptions["encode"];
  /** What of it decides results beside its hashes, for the journal. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly facts: SanityFacts;
  /** Searches at once that keep it busy. */
  readonly searches: number;
  /** The model at hand and the run that made it; null for an endpoint. */
  readonly local: { readonly model: Model; readonly gradient: GradientVictim; readonly run: RunOfModel | null } | null;
  close(): void;
}

export interface OpenVictimOptions extends Partial<MachineChoice> {
  /** How text is read, for a model that Temper did not train. */
  readonly encoding?: EncodingName | undefined;
  readonly maxLength?: number | undefined;
  readonly endpoint?: HttpVictimOptions;
  readonly onDownload?: LoadOptions["onProgress"];
}

/** Enough searches to fill batches; more would only make progress coarser. */
const searches = { cpu: 64, gpu: 256, endpoint: 64 };

/** Opens a model (a folder, npm:PACKAGE or a hub name) or an endpoint (an http address) to be attacked. */
export async function openVictim(reference: string, options: OpenVictimOptions = {}): Promise<OpenedVictim> {
  return /^https?:/.test(reference) ? openEndpoint(reference, options) : openModel(reference, options);
}

async function openEndpoint(url: string, options: OpenVictimOptions): Promise<OpenedVictim> {
  if (options.encoding !== undefined || options.maxLength !== undefined)
    throw new UserError("--encoding and --max-length are for models; an endpoint reads text in its own way: leave them out");
  return {
    victim: await openHttpVictim(url, options.endpoint),
    encode: cutIntoWords,
    settings: {},
    facts: {},
    searches: searches.endpoint,
    local: null,
    close: () => undefined,
  };
}

async function openModel(reference: string, options: OpenVictimOptions): Promise<OpenedVictim> {
  const { device = "auto", precision = null, threads = null, encoding, maxLength } = options;
  const machine = chooseMachine({ device, precision, threads });
  const model = await loadModel(reference, {
    device: machine.device,
    ...(options.onDownload && { onProgress: options.onDownload }),
    ...(encoding && { encoding }),
    ...(maxLength && { maxLength }),
  });
  const classifier = openClassifier(model, model.weights, machine);
  const close = () => {
    classifier.close();
    free(model.weights);
  };
  try {
    const victim = await modelVictim(model, classifier, machine);
    const trained = "temper" in model.shape.config.raw;
    if (trained && encoding && encoding !== model.encoding)
      throw new UserError(`--encoding: ${reference} was trained with ${model.encoding}, received ${encoding}; leave the option out`);
    return {
      victim,
      encode: (texts) => model.tokenizer.encodeWords(texts, model.maxLength),
      settings: { encoding: model.encoding, maxLength: model.maxLength, precision: machine.precision },
      facts: { encoding: model.encoding, trainedEncoding: trained ? model.encoding : "subword" },
      searches: machine.device === "cpu" ? searches.cpu : searches.gpu,
      local: {
        model,
        gradient: { model, weights: model.weights, device: machine.device, hashes: victim.hashes },
        run: await runOfModel(model.folder),
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

function cutIntoWords(texts: readonly string[]): { words: string[]; fields: number[] } {
  const cut = texts.map(splitWords);
  return { words: cut.flat(), fields: cut.flatMap((words, field) => words.map(() => field)) };
}
