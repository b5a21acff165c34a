import { mkdir, readdir, readFile, stat, symlink, unlink } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { UserError } from "../errors.js";
import { createFileError, exists, getErrorCode, writeFileAtomic } from "../files.js";
import { type DownloadProgress, download } from "./download.js";
import { createHubConnection, createHubFetch, type HubSettings, readHubSettings } from "./hub-connection.js";
import { explainHubFailure, isUnreachable } from "./hub-errors.js";

/** A repository on a hub; the revision is a branch, tag or commit ("main" where none is named). */
export interface HubRepo {
  readonly type: "model" | "dataset";
  readonly name: string;
  readonly revision?: string;
}

export interface HubOptions {
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/** A repository at one commit: its folder in the cache, and whether the hub can be asked for what is missing there. */
interface Snapshot {
  readonly repo: HubRepo;
  readonly settings: HubSettings;
  readonly commit: string;
  readonly storage: string;
  readonly online: boolean;
}

/** The paths of a repository's files; of those in the cache where the hub cannot be reached. */
export async function listHubFiles(repo: HubRepo): Promise<string[]> {
  const snapshot = await openSnapshot(repo);
  return snapshot.online ? (await fetchEntries(snapshot)).map((entry) => entry.path) : listCachedPaths(snapshot);
}

/** The local path of one file of a repository, fetched first where the cache lacks it. */
export async function downloadHubFile(repo: HubRepo, path: string, options: HubOptions = {}): Promise<string> {
  checkFilePath(path);
  const snapshot = await openSnapshot(repo);
  const pointer = join(getSnapshotFolder(snapshot), path);
  if (await exists(pointer)) return pointer;
  if (!snapshot.online) throw new UserError(describeNotCached(snapshot.repo, snapshot.settings, path));
  const { pathsInfo } = await import("@huggingface/hub");
  const found = await withHubErrors(snapshot.repo, snapshot.settings, () =>
    pathsInfo({
      ...createHubConnection(snapshot.settings),
      repo: toRepoId(repo),
      revision: snapshot.commit,
      paths: [path],
    }),
  );
  const entry = found.find((candidate) => candidate.path === path && candidate.type === "file");
  if (entry === undefined)
    throw new UserError(
      `${repo.type} ${repo.name} has no file ${path} at revision ${repo.revision ?? "main"}; check the name`,
    );
  return fetchFile(snapshot, toBlob(entry), options);
}

/**
 * A folder with the files of a repository that `choose` picks from all its paths; fetched first where the cache lacks them. Where
 * the hub cannot be reached, it holds whatever the cache has.
 */
export async function downloadHubSnapshot(
  repo: HubRepo,
  choose: (paths: string[]) => string[],
  options: HubOptions = {},
): Promise<string> {
  const snapshot = await openSnapshot(repo);
  const folder = getSnapshotFolder(snapshot);
  if (!snapshot.online) {
    if (await exists(folder)) return folder;
    throw new UserError(describeNotCached(repo, snapshot.settings));
  }
  const entries = await fetchEntries(snapshot);
  const chosen = new Set(choose(entries.map((entry) => entry.path)));
  for (const entry of entries) if (chosen.has(entry.path)) await fetchFile(snapshot, entry, options);
  return folder;
}

async function openSnapshot(repo: HubRepo): Promise<Snapshot> {
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
  const question = { ...createHubConnection(settings), name: repo.name, revision, additionalFields: ["sha" as const] };
  const { sha } = await (repo.type === "model" ? modelInfo(question) : datasetInfo(question));
  if (!isCommit(sha))
    throw new UserError(`${settings.endpoint} names no commit for ${repo.name} at ${revision}; is HF_ENDPOINT a hub?`);
  return sha;
}

/** A file as the hub describes it. */
interface HubBlob {
  readonly path: string;
  readonly size: number;
  readonly hash: string;
}

async function fetchEntries({ repo, settings, commit }: Snapshot): Promise<HubBlob[]> {
  const { listFiles } = await import("@huggingface/hub");
  return withHubErrors(repo, settings, async () => {
    const blobs: HubBlob[] = [];
    for await (const entry of listFiles({
      ...createHubConnection(settings),
      repo: toRepoId(repo),
      revision: commit,
      recursive: true,
    })) {
      if (entry.type === "file") blobs.push(toBlob(entry));
    }
    return blobs;
  });
}

/** What comes from a server becomes a path in the cache here, so it is checked here. */
function toBlob(entry: { path: string; size: number; oid?: string; lfs?: { oid: string; size: number } }): HubBlob {
  checkFilePath(entry.path);
  const hash = entry.lfs?.oid ?? entry.oid ?? "";
  const size = entry.lfs?.size ?? entry.size;
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(hash) || !Number.isSafeInteger(size) || size < 0) {
    throw new UserError(
      `${entry.path}: the hub gives hash ${JSON.stringify(hash)} and size ${size}; is HF_ENDPOINT a hub?`,
    );
  }
  return { path: entry.path, size, hash };
}

async function listCachedPaths(snapshot: Snapshot): Promise<string[]> {
  const folder = getSnapshotFolder(snapshot);
  const names = await readdir(folder, { recursive: true }).catch((error: unknown) => {
    throw getErrorCode(error) === "ENOENT"
      ? new UserError(describeNotCached(snapshot.repo, snapshot.settings))
      : createFileError(error, folder, "read");
  });
  const isFile = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        (found) => found.isFile(),
        () => false,
      ),
    ),
  );
  return names
    .filter((_, i) => isFile[i])
    .map((name) => name.split(sep).join("/"))
    .sort();
}

async function fetchFile(snapshot: Snapshot, blob: HubBlob, { onProgress }: HubOptions): Promise<string> {
  const { repo, settings, storage, commit } = snapshot;
  const pointer = join(getSnapshotFolder(snapshot), blob.path);
  if (await exists(pointer)) return pointer;
  const target = join(storage, "blobs", blob.hash);
  const path = blob.path.split("/").map(encodeURIComponent).join("/");
  const url = `${settings.endpoint}/${repo.type === "dataset" ? "datasets/" : ""}${repo.name}/resolve/${commit}/${path}`;
  const { hash, size } = blob;
  await withHubErrors(repo, settings, () =>
    download({ file: blob.path, url, fetch: createHubFetch(settings), target, size, hash, onProgress }),
  );
  await createFolder(dirname(pointer));
  await link(target, pointer);
  return pointer;
}

/** Relative, as Python's library links, so that a cache can be moved as a whole. */
async function link(target: string, pointer: string): Promise<void> {
  try {
    await symlink(relative(dirname(pointer), target), pointer);
  } catch (error) {
    if (getErrorCode(error) !== "EEXIST") throw createFileError(error, pointer, "link");
    if (await exists(pointer)) return;
    await unlink(pointer).catch(() => undefined);
    await link(target, pointer);
  }
}

async function createFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, path, "create");
  });
}

async function withHubErrors<Answer>(
  repo: HubRepo,
  settings: HubSettings,
  ask: () => Promise<Answer>,
): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    throw explainHubFailure(error, repo, settings);
  }
}

function getSnapshotFolder({ storage, commit }: Snapshot): string {
  return join(storage, "snapshots", commit);
}

function toRepoId({ type, name }: HubRepo): { type: "model" | "dataset"; name: string } {
  return { type, name };
}

function isCommit(revision: unknown): revision is string {
  return typeof revision === "string" && /^[0-9a-f]{40}$/.test(revision);
}

function describeNotCached(repo: HubRepo, settings: HubSettings, path?: string): string {
  const what = `${path === undefined ? "" : `${path} of `}${repo.type} ${repo.name}${repo.revision === undefined ? "" : `@${repo.revision}`}`;
  const why = settings.offline ? "HF_HUB_OFFLINE is set" : `${settings.endpoint} cannot be reached`;
  return `${what} is not in the cache ${settings.cache}, and ${why}; get it once while online, or give a folder`;
}

/** Names become folder names; these are the hub's own rules. */
function checkRepo({ name, revision }: HubRepo): void {
  if (!/^\w[\w.-]*(\/\w[\w.-]*)?$/.test(name) || name.includes("..") || name.includes("--")) {
    throw new UserError(`expected a hub name like owner/name, received ${JSON.stringify(name)}`);
  }
  if (revision !== undefined && (!/^\w[\w./-]*$/.test(revision) || revision.includes("..") || revision.endsWith("/"))) {
    throw new UserError(
      `expected a branch, tag or commit after the @ of ${name}, received ${JSON.stringify(revision)}`,
    );
  }
}

function checkFilePath(path: string): void {
  const isPlain =
    path !== "" &&
    !/[\\:\0]/.test(path) &&
    path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
  if (!isPlain)
    throw new UserError(`expected the path of a file inside a repository, received ${JSON.stringify(path)}`);
}
