import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, isIP, type Socket } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { getErrorMessage, UserError } from "../base/errors.js";
import { getErrorCode } from "../base/files.js";

/** A response with a status other than 200: `{"error": "…"}`. */
export interface HttpErrorInit {
  readonly status: 400 | 401 | 403 | 404 | 405 | 413 | 415 | 503;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
}

export class HttpError extends Error implements HttpErrorInit {
  constructor(
    readonly status: HttpErrorInit["status"],
    message: string,
    readonly headers: HttpErrorInit["headers"] = {},
  ) {
    super(message);
  }
}

export interface HttpAppOptions {
  /** Host names that clients may use besides localhost and IP addresses. */
  readonly allowedHosts?: readonly string[];
  /** Runs before the routes, in this order. */
  readonly middleware?: readonly MiddlewareHandler[];
  /** Receives what the client must not see: the message of an unexpected error. */
  readonly onError?: ((message: string) => void) | undefined;
}

/**
 * Creates an application that answers only requests for this host and never shows a raw error.
 * Routes are added by the caller.
 */
export function createHttpApp({ allowedHosts = [], middleware = [], onError }: HttpAppOptions = {}): Hono {
  const app = new Hono();
  for (const handler of [...middleware, createAccessCheck(allowedHosts)]) app.use(handler);
  app.notFound((context) => context.json({ error: `There is no ${context.req.path.slice(0, 100)} here.` }, 404));
  app.onError((error, context) => {
    if (error instanceof HttpError) return context.json({ error: error.message }, error.status, error.headers);
    onError?.(`${context.req.method} ${context.req.path.slice(0, 100)}: ${getErrorMessage(error)}`);
    return context.json({ error: "Internal error. The terminal of the server shows the reason." }, 500);
  });
  return app;
}

/**
 * A page of another site can send requests to this host, and a host name of another site can point
 * to its address (DNS rebinding). The Host and Origin headers, which a page cannot choose, show
 * both.
 */
function createAccessCheck(allowedHosts: readonly string[]): MiddlewareHandler {
  const allowed = new Set(["localhost", ...allowedHosts.map((name) => name.toLowerCase())]);
  return async (context, next) => {
    const host = context.req.header("host") ?? "";
    const origin = context.req.header("origin");
    const name = parseHostName(`http://${host}`);
    if (name === null || !(isIP(name) > 0 || allowed.has(name)))
      throw new HttpError(403, "This host name is not allowed. Use the IP address, or start with --allowed-hosts.");
    if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
      throw new HttpError(403, "Requests from pages of other sites are not allowed.");
    context.header("x-content-type-options", "nosniff");
    await next();
  };
}

function parseHostName(url: string): string | null {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "").toLowerCase() : null;
}

/** Bytes that the bodies of all requests may occupy together while they arrive. */
export class BodyMemory {
  #used = 0;
  constructor(readonly maxBytes: number) {}

  reserve(bytes: number): boolean {
    if (this.#used + bytes > this.maxBytes) return false;
    this.#used += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#used -= bytes;
  }
}

export interface JsonBodyLimits {
  readonly maxBytes: number;
  readonly memory: BodyMemory;
  /** A valid body, for messages. */
  readonly example: string;
  /** Levels of lists and objects. */
  readonly maxDepth?: number;
  /** Values and keys together. */
  readonly maxValues?: number;
}

const [quote, backslash, comma, openList, closeList, openObject, closeObject] = [...'"\\,[]{}'].map((character) =>
  character.charCodeAt(0),
);

/**
 * Rejects a body with too many levels or values. Parsing and checking millions of brackets or keys
 * would occupy the server for seconds; counting them takes milliseconds.
 */
export function checkStructure(body: Buffer, maxDepth: number, maxValues: number, example: string): void {
  let [depth, values] = [0, 0];
  for (let i = 0; i < body.length; i++) {
    const byte = body[i]!;
    if (byte === quote) i = findEndOfString(body, i);
    else if (byte === openList || byte === openObject) {
      values++;
      if (++depth > maxDepth)
        throw new HttpError(400, `Expected at most ${maxDepth} levels of lists and objects: ${example}.`);
    } else if (byte === closeList || byte === closeObject) depth--;
    else if (byte === comma && ++values > maxValues)
      throw new HttpError(413, `Expected at most ${maxValues} values per request: ${example}.`);
  }
}

function findEndOfString(body: Buffer, start: number): number {
  for (let i = start + 1; i < body.length; i++) {
    if (body[i] === backslash) i++;
    else if (body[i] === quote) return i;
  }
  return body.length;
}

/** Reads a JSON body of bounded size. Other media types, which a form can send, are rejected. */
export async function readJsonBody(
  context: Context,
  { maxBytes, memory, example, maxDepth = 64, maxValues = 100_000 }: JsonBodyLimits,
): Promise<unknown> {
  const type = context.req.header("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json")
    throw new HttpError(415, `Expected the header content-type: application/json, received ${type ?? "none"}.`);
  const chunks: Uint8Array[] = [];
  let size = 0;
  let reserved = 0;
  try {
    for await (const chunk of context.req.raw.body ?? []) {
      size += chunk.length;
      // The rest is read and dropped, so that the client gets the response instead of a broken
      // connection.
      if (size > maxBytes) {
        chunks.length = 0;
        if (size > 4 * maxBytes) break;
        continue;
      }
      if (!memory.reserve(chunk.length))
        throw new HttpError(503, "Too many requests are arriving. Try again later.", { "retry-after": "1" });
      reserved += chunk.length;
      chunks.push(chunk);
    }
    if (size > maxBytes)
      throw new HttpError(413, `Expected at most ${maxBytes} bytes, received ${size}. Send less per request.`);
    const body = Buffer.concat(chunks);
    checkStructure(body, maxDepth, maxValues, example);
    return JSON.parse(body.toString("utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) throw new HttpError(400, `Expected JSON: ${example}.`);
    throw error;
  } finally {
    memory.release(reserved);
  }
}

/** Milliseconds that a request may take to arrive. */
const requestTimeout = 30_000;
/** Milliseconds that a stopping server waits for the answers to complete requests. */
const stopTimeout = 2_000;
/** A connection without the headers of a request is soon closed: it takes the place of others. */
const headersTimeout = 5_000;

/** A server that listens. `close` ends it after the requests in progress. */
export interface HttpServer {
  readonly url: string;
  close(): Promise<void>;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Further connections are closed at once. */
  readonly maxConnections?: number;
}

/**
 * Closes the oldest connections whose request has not arrived completely, or that have none, so that
 * they do not take the places of others. Returns a function that closes all of them.
 */
function limitIdleConnections(server: Server, limit: number): () => void {
  const idle = new Set<Socket>();
  const add = (socket: Socket): void => {
    if (socket.destroyed) return;
    idle.add(socket);
    const [oldest] = idle;
    if (idle.size > limit) oldest!.destroy();
  };
  server.on("connection", (socket: Socket) => {
    add(socket);
    socket.once("close", () => idle.delete(socket));
  });
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const { socket, headers } = request;
    const hasBody = headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
    if (hasBody) request.once("end", () => idle.delete(socket));
    else idle.delete(socket);
    response.once("finish", () => add(socket));
  });
  return () => {
    for (const socket of idle) socket.destroy();
  };
}

/** Listens for requests. Port 0 chooses a free one. */
export async function listen(
  app: Pick<Hono, "fetch">,
  { host, port, maxConnections = 256 }: ListenOptions,
): Promise<HttpServer> {
  const serverOptions = { requestTimeout, headersTimeout, connectionsCheckingInterval: 1000 };
  const server = createAdaptorServer({ fetch: app.fetch, serverOptions }) as Server;
  server.maxConnections = maxConnections;
  const closeIncomplete = limitIdleConnections(server, Math.ceil(maxConnections / 2));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  }).catch((error: unknown) => {
    const reasons: Record<string, string> = {
      EADDRINUSE: "The port is in use. Choose another --port, or 0 for a free one.",
      EACCES: "Permission denied. Choose a --port above 1023.",
      EADDRNOTAVAIL: "This host does not have that address. Choose another --host.",
      ENOTFOUND: "There is no such host. Choose another --host.",
    };
    const reason = reasons[getErrorCode(error) ?? ""] ?? getErrorMessage(error);
    throw new UserError(`Cannot listen on ${host}:${port}. ${reason}`, { cause: error });
  });
  const { address, family, port: chosen } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${chosen}/`,
    close: () =>
      new Promise<void>((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), stopTimeout);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        // Whoever sends a request slowly cannot delay the end.
        closeIncomplete();
      }),
  };
}
