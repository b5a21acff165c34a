import { constants, copyFile, readdir, readFile, stat, symlink, unlink } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFileError, createFolder, exists, getErrorCode, writeFileAtomic } from "../base/files.js";
import { download } from "./download.js";
import {
  createHubConnection,
  createHubFetch,
  describeRepo,
  explainHubFailure,
  type HubRepo,
  type HubSettings,
  isUnreachable,
  readHubSettings,
} from "./hub-connection.js";

export interface HubSnapshot {
  readonly repo: HubRepo;
  readonly settings: HubSettings;
  readonly commit: string;
  readonly storage: string;
  readonly online: boolean;
}

export interface HubFile {
  readonly path: string;
  readonly size: number;
  /** The hash by which the hub names the content; empty if the hub was not asked. */
  readonly hash: string;
  readonly isCached: boolean;
}

export async function listHubFiles(snapshot: HubSnapshot): Promise<HubFile[]> {
  if (!snapshot.online) return listCachedFiles(snapshot);
  const { repo, settings, commit } = snapshot;
  const { listFiles } = await import("@huggingface/hub");
  return withHubErrors(repo, settings, async () => {
    const files: HubFile[] = [];
    for await (const entry of listFiles({
      ...createHubConnection(settings),
      repo: { type: repo.type, name: repo.name },
      revision: commit,
      recursive: true,
    })) {
      if (entry.type === "file") files.push(await describeFile(snapshot, entry));
    }
    return files;
  });
}

/** Checks the path and the hash from the server, because they become paths in the cache. */
async function describeFile(
  snapshot: HubSnapshot,
  { path, lfs, ...entry }: { path: string; size: number; oid?: string; lfs?: { oid: string; size: number } },
): Promise<HubFile> {
  checkFilePath(path);
  const hash = lfs?.oid ?? entry.oid ?? "";
  const size = lfs?.size ?? entry.size;
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0)
    throw new UserError(`${path}: unexpected hash ${JSON.stringify(hash)} or size ${size}. Is HF_ENDPOINT correct?`);
  // A snapshot links to the content, or an earlier one downloaded the same.
  const isCached = (await exists(join(getSnapshotFolder(snapshot), path))) || exists(getBlobPath(snapshot, hash));
  return { path, size, hash, isCached: await isCached };
}

export async function downloadHubFile(
  snapshot: HubSnapshot,
  { path, size, hash }: HubFile,
  { onEvent }: Pick<Callbacks, "onEvent"> = {},
): Promise<string> {
  const { repo, settings, commit } = snapshot;
  const pointer = join(getSnapshotFolder(snapshot), path);
  if (await exists(pointer)) return pointer;
  const target = getBlobPath(snapshot, hash);
  const urlPath = path.split("/").map(encodeURIComponent).join("/");
  const repoPath = `${repo.type === "dataset" ? "datasets/" : ""}${repo.name}`;
  const url = `${settings.endpoint}/${repoPath}/resolve/${commit}/${urlPath}`;
  await withHubErrors(repo, settings, () =>
    download({ file: path, url, fetch: createHubFetch(settings), target, size, hash, onEvent }),
  );
  createFolder(dirname(pointer));
  await link(target, pointer);
  return pointer;
}

/** Returns a folder with the files that `choose` selects. Without the hub, only the cached ones. */
export async function downloadHubSnapshot(
  repo: HubRepo,
  choose: (paths: string[]) => string[],
  callbacks: Pick<Callbacks, "onEvent"> = {},
): Promise<string> {
  const snapshot = await openHubSnapshot(repo);
  const files = await listHubFiles(snapshot);
  if (snapshot.online) {
    const selected = new Set(choose(files.map(({ path }) => path)));
    for (const file of files) if (selected.has(file.path)) await downloadHubFile(snapshot, file, callbacks);
  }
  return getSnapshotFolder(snapshot);
}

export async function openHubSnapshot(repo: HubRepo): Promise<HubSnapshot> {
  checkRepo(repo);
  const settings = readHubSettings();
  const revision = repo.revision ?? "main";
  const storage = join(settings.cache, [`${repo.type}s`, ...repo.name.split("/")].join("--"));
  const snapshot = { repo, settings, storage };
  if (isCommit(revision)) return { ...snapshot, commit: revision, online: !settings.offline };
  const reference = join(storage, "refs", revision);
  const known = await readFile(reference, "utf8").then(
    (text) => text.trim(),
    () => "",
  );
  if (settings.offline) {
    if (!isCommit(known)) throw new UserError(describeNotCached(repo, settings));
    return { ...snapshot, commit: known, online: false };
  }
  let commit: string;
  try {
    commit = await fetchCommit(repo, settings, revision);
  } catch (error) {
    if (isUnreachable(error) && isCommit(known)) return { ...snapshot, commit: known, online: false };
    throw explainHubFailure(error, repo, settings);
  }
  if (commit !== known) {
    createFolder(dirname(reference));
    await writeFileAtomic(reference, commit);
  }
  return { ...snapshot, commit, online: true };
}

async function fetchCommit(repo: HubRepo, settings: HubSettings, revision: string): Promise<string> {
  const { modelInfo, datasetInfo } = await import("@huggingface/hub");
  const request = { ...createHubConnection(settings), name: repo.name, revision, additionalFields: ["sha" as const] };
  const { sha } = await (repo.type === "model" ? modelInfo(request) : datasetInfo(request));
  if (!isCommit(sha))
    throw new UserError(
      `${settings.endpoint} returned no commit for ${repo.name} at ${revision}. Is HF_ENDPOINT correct?`,
    );
  return sha;
}

async function listCachedFiles(snapshot: HubSnapshot): Promise<HubFile[]> {
  const folder = getSnapshotFolder(snapshot);
  const names = await readdir(folder, { recursive: true }).catch((error: unknown) => {
    throw getErrorCode(error) === "ENOENT"
      ? new UserError(describeNotCached(snapshot.repo, snapshot.settings))
      : createFileError(error, folder, "read");
  });
  const files: HubFile[] = [];
  for (const name of names.sort()) {
    const found = await stat(join(folder, name)).catch(() => null);
    const path = name.split(sep).join("/");
    if (found?.isFile()) files.push({ path, size: found.size, hash: "", isCached: true });
  }
  return files;
}

/** Creates a relative link, so that the cache can move, or a copy if Windows allows no link. */
async function link(target: string, pointer: string): Promise<void> {
  try {
    await symlink(relative(dirname(pointer), target), pointer).catch((error: unknown) => {
      if (getErrorCode(error) !== "EPERM") throw error;
      return copyFile(target, pointer, constants.COPYFILE_EXCL);
    });
  } catch (error) {
    if (getErrorCode(error) !== "EEXIST") throw createFileError(error, pointer, "link");
    if (await exists(pointer)) return;
    await unlink(pointer).catch(() => undefined);
    await link(target, pointer);
  }
}

async function withHubErrors<T>(repo: HubRepo, settings: HubSettings, request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (error) {
    throw explainHubFailure(error, repo, settings);
  }
}

function getSnapshotFolder({ storage, commit }: HubSnapshot): string {
  return join(storage, "snapshots", commit);
}

function getBlobPath({ storage }: HubSnapshot, hash: string): string {
  return join(storage, "blobs", hash);
}

function isCommit(revision: unknown): revision is string {
  return typeof revision === "string" && /^[0-9a-f]{40}$/.test(revision);
}

export function describeNotCached(repo: HubRepo, settings: HubSettings, part?: string): string {
  const subject = `${part === undefined ? "" : `${part} of `}${describeRepo(repo)}`;
  const reason = settings.offline ? "HF_HUB_OFFLINE is set" : `${settings.endpoint} is not reachable`;
  return `${subject} is not in the cache ${settings.cache}, and ${reason}. Download it while online, or pass a folder.`;
}

function checkRepo({ name, revision }: HubRepo): void {
  if (!/^\w[\w.-]*(\/\w[\w.-]*)?$/.test(name) || name.includes("..") || name.includes("--"))
    throw new UserError(`expected a Hugging Face ID like owner/name, received ${JSON.stringify(name)}`);
  if (revision !== undefined && (!/^\w[\w./-]*$/.test(revision) || revision.includes("..") || revision.endsWith("/")))
    throw new UserError(
      `expected a branch, tag or commit after the @ of ${name}, received ${JSON.stringify(revision)}`,
    );
}

function checkFilePath(path: string): void {
  const isPlain =
    path !== "" &&
    !/[\\:\0]/.test(path) &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  if (!isPlain) throw new UserError(`expected a file path inside a repository, received ${JSON.stringify(path)}`);
}
