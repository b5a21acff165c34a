import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { getErrorMessage, UserError } from "../base/errors.js";
import { measurePath, readFolder } from "../base/files.js";
import { validate } from "../base/validate.js";
import { createHubFetch, type HubSettings, readHubSettings } from "../hub/hub-connection.js";
import { checkWeights } from "../models/checkpoint/load.js";
import { readModelConfig, readTemperMetadata } from "../models/config.js";
import { loadModel } from "../models/index.js";
import { exportToOnnx } from "../onnx/write-export.js";
import { readPackageVersion } from "../runs/environment.js";
import type { Results } from "../runs/results.js";
import { RunFolder } from "../runs/run-folder.js";
import { free } from "../tensor/index.js";
import { formatModelCard, listEvalResults, writeModelCard } from "./model-card.js";

export const pushRequestSchema = z.strictObject({
  run: z.string().describe("a finished run"),
  repository: z
    .string()
    .regex(/^[\w.-]+\/[\w.-]+$/, { error: "expected OWNER/NAME" })
    .describe("repository on the Hugging Face Hub: OWNER/NAME"),
  public: z.boolean().default(false).describe("create a repository that everyone can read, instead of a private one"),
  message: z.string().default("Upload model with Temper").describe("message of the commit"),
  dryRun: z.boolean().default(false).describe("list what would be uploaded, and upload nothing"),
});
export interface PushReport {
  readonly url: string;
  readonly isPrivate: boolean;
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
  /** The commit; null for a dry run. */
  readonly commit: string | null;
}

/**
 * Uploads the model of a finished run with its model card to the Hugging Face Hub. The token is
 * read from HF_TOKEN.
 *
 *     await push({ run: "runs/ascc", repository: "me/spam-ascc", dryRun: true });
 */
export async function push(request: z.input<typeof pushRequestSchema>): Promise<PushReport> {
  const parsed = validate(pushRequestSchema, request, "push");
  const run = await RunFolder.open(parsed.run);
  const results = await run.results();
  if (!results)
    throw new UserError(`${parsed.run} has not finished. Continue with: temper train --resume --out ${parsed.run}`);
  const settings = readHubSettings();
  const folder = run.path("model");
  await checkWeights(folder, readTemperMetadata(await readModelConfig(folder), join(folder, "config.json"))?.sha256);
  const files = await createPushedFiles(run, results);
  const report = {
    url: `${settings.endpoint}/${parsed.repository}`,
    isPrivate: !parsed.public,
    files: files.map(({ path, bytes }) => ({ path, bytes })),
  };
  if (parsed.dryRun) return { ...report, commit: null };
  if (settings.token === null)
    throw new UserError("push: HF_TOKEN is not set. Create a token with write access on the hub, and export it.");
  if (settings.offline) throw new UserError("push: HF_HUB_OFFLINE is set. Unset it to upload.");
  await writeModelCard(run, results);
  return { ...report, commit: await upload(parsed, files, settings) };
}

export interface PushedFile {
  readonly path: string;
  readonly bytes: number;
  readonly content: URL | Blob;
}

export async function createPushedFiles(run: RunFolder, results: Results): Promise<PushedFile[]> {
  const folder = run.path("model");
  const names = (await readFolder(folder)).flatMap((entry) =>
    entry.isFile() && !entry.name.startsWith(".") && entry.name !== "README.md" ? [entry.name] : [],
  );
  const create = (path: string, content: string | Uint8Array): PushedFile => {
    const blob = new Blob([content]);
    return { path, bytes: blob.size, content: blob };
  };
  return [
    ...(await Promise.all(
      names.sort().map(async (path) => {
        const file = join(folder, path);
        return { path, bytes: await measurePath(file), content: pathToFileURL(file) };
      }),
    )),
    create("onnx/model.onnx", await exportWeights(folder)),
    create("README.md", await formatModelCard(run, results)),
    ...(await listEvalResults(run, results)).map(({ path, content }) => create(path, content)),
  ];
}

async function exportWeights(folder: string): Promise<Uint8Array> {
  const model = await loadModel(folder);
  try {
    return (await exportToOnnx(model, { quantize: false, version: readPackageVersion() })).model;
  } finally {
    free(model.weights);
  }
}

async function upload(
  request: z.output<typeof pushRequestSchema>,
  files: readonly PushedFile[],
  settings: HubSettings,
): Promise<string> {
  const { createRepo, uploadFiles } = await import("@huggingface/hub");
  const repo = { type: "model" as const, name: request.repository };
  // The token is added by our fetch, which sends it to the hub only.
  const connection = { hubUrl: settings.endpoint, fetch: createHubFetch(settings) };
  try {
    await createRepo({ repo, visibility: request.public ? "public" : "private", ...connection } as Parameters<
      typeof createRepo
    >[0]).catch((error: unknown) => {
      // The repository exists already. Its visibility stays.
      if (getStatus(error) !== 409) throw error;
    });
    const output = await uploadFiles({
      ...connection,
      repo,
      commitTitle: request.message,
      files: files.map(({ path, content }) => ({ path, content })),
      useXet: false,
    });
    if (!output) throw new Error("the hub returned no commit");
    return output.commit.oid;
  } catch (error) {
    throw explainFailure(error, request.repository, settings);
  }
}

function getStatus(error: unknown): number | null {
  const status = error instanceof Error && "statusCode" in error ? error.statusCode : null;
  return typeof status === "number" ? status : null;
}

function explainFailure(error: unknown, repository: string, { endpoint }: HubSettings): UserError {
  const status = getStatus(error);
  const reason =
    status === 401 || status === 403
      ? `access denied (${status}). Check that HF_TOKEN may write to ${repository.split("/")[0]}.`
      : `${getErrorMessage(error)}${status === null ? ". Check the network, or set HF_ENDPOINT." : ` (${status})`}`;
  return new UserError(`cannot upload to ${repository} on ${endpoint}: ${reason}`, { cause: error });
}
