import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A hub in this process with the API calls and file URLs that we use, and simulated faults. */
export interface FakeHub {
  readonly url: string;
  /** "METHOD path [range]" of every request since the list was cleared. */
  readonly requests: string[];
  /** Faults of the next file requests, in order. */
  readonly faults: Fault[];
  /** Repositories by "models/NAME" or "datasets/NAME". Those with a token are private. */
  readonly repos: Map<string, FakeRepo>;
  close(): Promise<void>;
}

export interface FakeRepo {
  commit: string;
  token?: string;
  files: Record<string, Buffer>;
}

/**
 * A fault: a connection lost after N bytes, an error status, a redirect, an ignored range, wrong
 * content.
 */
export type Fault =
  | { cutAfter: number }
  | { redirectTo: string }
  | { status: number }
  | { ignoreRange: true }
  | { corrupt: true };

export const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
const gitHash = (bytes: Buffer): string =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
const isLarge = (path: string): boolean => /\.(safetensors|parquet)$/.test(path);

/** The name of a file's content in the cache. */
export const blobName = (path: string, bytes: Buffer): string => (isLarge(path) ? sha256(bytes) : gitHash(bytes));

function describe(path: string, bytes: Buffer): { path: string } & Record<string, unknown> {
  const size = bytes.length;
  return {
    type: "file",
    path,
    size,
    oid: gitHash(bytes),
    ...(isLarge(path) ? { lfs: { oid: sha256(bytes), size, pointerSize: 130 } } : {}),
  };
}

function reply(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

function describeRepo(query: string, repo: FakeRepo): unknown {
  if (query === "revision") return { _id: "1", id: "name", sha: repo.commit, lastModified: "2024-01-01T00:00:00Z" };
  return Object.entries(repo.files).map(([name, bytes]) => describe(name, bytes));
}

export async function startFakeHub(): Promise<FakeHub> {
  const requests: string[] = [];
  const faults: Fault[] = [];
  const repos = new Map<string, FakeRepo>();

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://hub").pathname);
    requests.push(`${request.method} ${path}${request.headers.range ? ` ${request.headers.range}` : ""}`);
    const api = /^\/api\/(models|datasets)\/(.+?)\/(revision|tree)\/([^/]+)$/.exec(path);
    const file = /^\/(datasets\/)?(.+?)\/resolve\/([^/]+)\/(.+)$/.exec(path);
    const repo = repos.get(api ? `${api[1]}/${api[2]}` : file ? `${file[1] ? "datasets" : "models"}/${file[2]}` : "");
    // Like the real hub, do not reveal which private repositories exist.
    if (repo === undefined || (repo.token !== undefined && request.headers.authorization !== `Bearer ${repo.token}`)) {
      reply(response, 401, { error: "Repository Not Found" });
    } else if (faults[0] && "status" in faults[0] && (file || api?.[3] === "revision")) {
      reply(response, (faults.shift() as { status: number }).status, {});
    } else if (!["main", repo.commit].includes(api?.[4] ?? file?.[3] ?? "")) {
      reply(response, 404, { error: "Revision Not Found" });
    } else if (api) {
      reply(response, 200, describeRepo(api[3] ?? "", repo));
    } else {
      const name = file?.[4] ?? "";
      const bytes = repo.files[name];
      if (bytes === undefined) reply(response, 404, { error: "Entry not found" });
      else send(request, response, name, bytes, repo.commit);
    }
  }

  function send(request: IncomingMessage, response: ServerResponse, name: string, bytes: Buffer, commit: string): void {
    const fault = faults.shift();
    if (fault && "redirectTo" in fault) {
      response.writeHead(302, { location: fault.redirectTo }).end();
      return;
    }
    const range = fault && "ignoreRange" in fault ? null : /^bytes=(\d+)-$/.exec(request.headers.range ?? "");
    const start = Number(range?.[1] ?? 0);
    const content = fault && "corrupt" in fault ? Buffer.alloc(bytes.length, "x") : bytes;
    response.writeHead(range ? 206 : 200, {
      "content-length": bytes.length - start,
      "x-repo-commit": commit,
      etag: `"${blobName(name, bytes)}"`,
      ...(isLarge(name) ? { "x-linked-size": bytes.length, "x-linked-etag": `"${sha256(bytes)}"` } : {}),
      ...(range ? { "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}` } : {}),
    });
    if (fault && "cutAfter" in fault) {
      response.write(content.subarray(start, start + fault.cutAfter), () => setTimeout(() => response.destroy(), 30));
    } else {
      response.end(content.subarray(start));
    }
  }

  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url, requests, faults, repos, close };
}
