import { constants, copyFile, mkdir, readdir, readFile, stat, symlink, unlink } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { createFileError, exists, getErrorCode, writeFileAtomic } from "../base/files.js";
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

export interface HubOptions {
  readonly onEvent?: Callbacks["onEvent"];
}

/** A repository at one commit, with its folder in the cache. */
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
  readonly isCached: boolean;
}

/** Lists the files of a snapshot, or the cached ones if the hub is not reachable. */
export async function listHubFiles(snapshot: HubSnapshot): Promise<HubFile[]> {
  if (!snapshot.online) return listCachedFiles(snapshot);
  const entries = await fetchEntries(snapshot);
  return Promise.all(
    entries.map(async ({ path, size, hash }) => ({ path, size, isCached: await isCached(snapshot, path, hash) })),
  );
}

/** True if a snapshot links to the content, or if an earlier snapshot downloaded the same. */
async function isCached(snapshot: HubSnapshot, path: string, hash: string): Promise<boolean> {
  return (await exists(join(getSnapshotFolder(snapshot), path))) || exists(getBlobPath(snapshot, hash));
}

/** Returns the local path of a file of a snapshot. Downloads it if it is not cached. */
export async function downloadHubFile(snapshot: HubSnapshot, path: string, options: HubOptions = {}): Promise<string> {
  checkFilePath(path);
  const { repo } = snapshot;
  const pointer = join(getSnapshotFolder(snapshot), path);
  if (await exists(pointer)) return pointer;
  if (!snapshot.online) throw new UserError(describeNotCached(snapshot.repo, snapshot.settings, path));
  const { pathsInfo } = await import("@huggingface/hub");
  const found = await withHubErrors(snapshot.repo, snapshot.settings, () =>
    pathsInfo({
      ...createHubConnection(snapshot.settings),
      repo: { type: repo.type, name: repo.name },
      revision: snapshot.commit,
      paths: [path],
    }),
  );
  const entry = found.find((candidate) => candidate.path === path && candidate.type === "file");
  if (entry === undefined)
    throw new UserError(
      `${repo.type} ${repo.name} has no file ${path} at revision ${repo.revision ?? "main"}. Check the name.`,
    );
  return fetchFile(snapshot, toBlob(entry), options);
}

/** Returns a folder with the files that `choose` selects. Without the hub, only the cached ones. */
export async function downloadHubSnapshot(
  repo: HubRepo,
  choose: (paths: string[]) => string[],
  options: HubOptions = {},
): Promise<string> {
  const snapshot = await openHubSnapshot(repo);
  const folder = getSnapshotFolder(snapshot);
  if (!snapshot.online) {
    if (await exists(folder)) return folder;
    throw new UserError(describeNotCached(repo, snapshot.settings));
  }
  const entries = await fetchEntries(snapshot);
  const selected = new Set(choose(entries.map((entry) => entry.path)));
  for (const entry of entries) if (selected.has(entry.path)) await fetchFile(snapshot, entry, options);
  return folder;
}

/** Finds the commit of a repository's revision, from the hub or from the cache. */
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
    await createFolder(dirname(reference));
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

interface HubBlob {
  readonly path: string;
  readonly size: number;
  readonly hash: string;
}

async function fetchEntries({ repo, settings, commit }: HubSnapshot): Promise<HubBlob[]> {
  const { listFiles } = await import("@huggingface/hub");
  return withHubErrors(repo, settings, async () => {
    const blobs: HubBlob[] = [];
    for await (const entry of listFiles({
      ...createHubConnection(settings),
      repo: { type: repo.type, name: repo.name },
      revision: commit,
      recursive: true,
    })) {
      if (entry.type === "file") blobs.push(toBlob(entry));
    }
    return blobs;
  });
}

/** Checks the path and the hash from the server, because they become paths in the cache. */
function toBlob(entry: { path: string; size: number; oid?: string; lfs?: { oid: string; size: number } }): HubBlob {
  checkFilePath(entry.path);
  const hash = entry.lfs?.oid ?? entry.oid ?? "";
  const size = entry.lfs?.size ?? entry.size;
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0)
    throw new UserError(
      `${entry.path}: unexpected hash ${JSON.stringify(hash)} or size ${size}. Is HF_ENDPOINT correct?`,
    );
  return { path: entry.path, size, hash };
}

async function listCachedFiles(snapshot: HubSnapshot): Promise<HubFile[]> {
  const folder = getSnapshotFolder(snapshot);
  const names = await readdir(folder, { recursive: true }).catch((error: unknown) => {
    throw getErrorCode(error) === "ENOENT"
      ? new UserError(describeNotCached(snapshot.repo, snapshot.settings))
      : createFileError(error, folder, "read");
  });
  const found = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => null)));
  return names
    .flatMap((name, i) => {
      const entry = found[i];
      return entry?.isFile() ? [{ path: name.split(sep).join("/"), size: entry.size, isCached: true }] : [];
    })
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function fetchFile(snapshot: HubSnapshot, blob: HubBlob, { onEvent }: HubOptions): Promise<string> {
  const { repo, settings, commit } = snapshot;
  const pointer = join(getSnapshotFolder(snapshot), blob.path);
  if (await exists(pointer)) return pointer;
  const target = getBlobPath(snapshot, blob.hash);
  const path = blob.path.split("/").map(encodeURIComponent).join("/");
  const repoPath = `${repo.type === "dataset" ? "datasets/" : ""}${repo.name}`;
  const url = `${settings.endpoint}/${repoPath}/resolve/${commit}/${path}`;
  const { hash, size } = blob;
  await withHubErrors(repo, settings, () =>
    download({ file: blob.path, url, fetch: createHubFetch(settings), target, size, hash, onEvent }),
  );
  await createFolder(dirname(pointer));
  await link(target, pointer);
  return pointer;
}

/** Creates a relative link, so that the cache can move, or a copy if Windows allows no link. */
async function link(target: string, pointer: string): Promise<void> {
  try {
    if (await canLink(target, pointer)) return;
    await copyFile(target, pointer, constants.COPYFILE_EXCL);
  } catch (error) {
    if (getErrorCode(error) !== "EEXIST") throw createFileError(error, pointer, "link");
    if (await exists(pointer)) return;
    await unlink(pointer).catch(() => undefined);
    await link(target, pointer);
  }
}

/** Creates the link. False if this user may not create links. */
async function canLink(target: string, pointer: string): Promise<boolean> {
  try {
    await symlink(relative(dirname(pointer), target), pointer);
    return true;
  } catch (error) {
    if (getErrorCode(error) === "EPERM") return false;
    throw error;
  }
}

async function createFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, path, "create");
  });
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

/** Explains that a repository, or a part of it, is not cached while the hub is not reachable. */
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
