import { request } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { BodyMemory, createHttpApp, type HttpServer, listen, readJsonBody } from "../../src/serve/http.js";
import { createInferenceApp, type InferenceHandler, type InferenceLimits } from "../../src/serve/inference-app.js";

const servers: HttpServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const headers = { "content-type": "application/json" };
const post = (url: string, body: string | Uint8Array<ArrayBuffer>, more: Record<string, string> = {}) =>
  fetch(url, { method: "POST", headers: { ...headers, connection: "close", ...more }, body });

interface Fixture {
  readonly handler?: Partial<InferenceHandler<string>>;
  readonly limits?: Partial<InferenceLimits>;
  readonly onError?: (message: string) => void;
  readonly maxConnections?: number;
}

async function start({ handler, limits, onError, maxConnections }: Fixture = {}): Promise<string> {
  const app = createInferenceApp<string>(
    {
      modelInfo: {},
      encode: ([text]) => text!,
      predict: async (texts) => texts.map((text) => [Number(text), 1 - Number(text)]),
      ...handler,
    },
    { maxTexts: 4096, maxCharacters: 1000, ...limits },
    { onError },
  );
  const server = await listen(app, { host: "127.0.0.1", port: 0, ...(maxConnections && { maxConnections }) });
  servers.push(server);
  return server.url;
}

/** Sends a request with headers that fetch does not allow. */
function sendRaw(url: string, more: Record<string, string>, method = "POST"): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers: { ...headers, connection: "close", ...more } }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    }).on("error", reject);
    sent.end(method === "POST" ? '{"texts": ["1"]}' : undefined);
  });
}

describe("item 9: serve", () => {
  test("classifies requests that arrive together in one batch", async () => {
    const batches: number[] = [];
    let release = (): void => undefined;
    const first = new Promise<void>((resolve) => {
      release = resolve;
    });
    const url = await start({
      handler: {
        async predict(texts) {
          batches.push(texts.length);
          if (batches.length === 1) await first;
          return texts.map((text) => [Number(text), 1 - Number(text)]);
        },
      },
    });
    const query = async (...texts: string[]) => (await post(url, JSON.stringify({ texts }))).json();
    const early = query("0.5");
    await vi.waitFor(() => expect(batches).toEqual([1]));
    const late = [query("0.25", "0.75"), query("1"), query("0")];
    await sleep(50);
    release();
    expect(await early).toEqual({ probabilities: [[0.5, 0.5]] });
    expect(await Promise.all(late)).toEqual([
      {
        probabilities: [
          [0.25, 0.75],
          [0.75, 0.25],
        ],
      },
      { probabilities: [[1, 0]] },
      { probabilities: [[0, 1]] },
    ]);
    expect(batches).toEqual([1, 4]);
  });

  test("a text that fails does not fail the other requests of its batch", async () => {
    const errors: string[] = [];
    const url = await start({
      handler: {
        async predict(texts) {
          await sleep(20);
          if (texts.includes("7")) throw new Error("/secret/path: index out of range");
          return texts.map(() => [0.5, 0.5]);
        },
      },
      onError: (message) => errors.push(message),
    });
    const answers = await Promise.all(["1", "7", "2", "3"].map((text) => post(url, `{"texts": ["${text}"]}`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 500, 200, 200]);
    expect(await answers[1]!.json()).toEqual({ error: "Internal error. The terminal of the server shows the reason." });
    expect(errors).toEqual(["POST /: /secret/path: index out of range"]);
  });

  test("rejects requests beyond its queue and survives clients that disconnect", async () => {
    const url = await start({
      handler: {
        async predict(texts) {
          await sleep(30);
          return texts.map(() => [0.5, 0.5]);
        },
      },
      limits: { maxTexts: 2, maxQueuedTexts: 3 },
    });
    const statuses = await Promise.all(
      Array.from({ length: 4 }, () => post(url, '{"texts": ["a", "b"]}').then(({ status }) => status)),
    );
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
    expect(statuses.filter((status) => status === 503).length).toBeGreaterThan(0);
    const leaving = request(url, { method: "POST", headers }).on("error", () => undefined);
    leaving.end('{"texts": ["a"]}');
    setTimeout(() => leaving.destroy(), 5);
    await sleep(60);
    expect((await post(url, '{"texts": ["a"]}')).status).toBe(200);
  });

  test("tokenization of many texts does not block other requests", async () => {
    const url = await start({
      handler: {
        encode([text]) {
          const end = performance.now() + 5;
          while (performance.now() < end);
          return text!;
        },
      },
    });
    let isDone = false;
    const long = post(url, JSON.stringify({ texts: new Array(200).fill("1") })).then(({ status }) => {
      isDone = true;
      return status;
    });
    await sleep(100);
    expect((await fetch(url)).status).toBe(200);
    expect(isDone).toBe(false);
    expect(await long).toBe(200);
  });

  test("accepts only this host's names, its own pages and JSON", async () => {
    const url = await start();
    const { port } = new URL(url);
    const cases: [Record<string, string>, number][] = [
      [{}, 200],
      [{ host: `localhost:${port}` }, 200],
      [{ host: `[::1]:${port}` }, 200],
      [{ host: `attacker.example:${port}` }, 403],
      [{ host: "a b" }, 403],
      [{ origin: `http://127.0.0.1:${port}` }, 200],
      [{ origin: "https://attacker.example" }, 403],
      [{ origin: "null" }, 403],
      [{ "content-type": "text/plain" }, 415],
      [{ "content-type": "application/x-www-form-urlencoded" }, 415],
      [{ "content-type": "application/json; charset=utf-8" }, 200],
    ];
    const statuses = [];
    for (const [more] of cases) statuses.push(await sendRaw(url, more).catch(String));
    // Node.js itself rejects a Host header that is no host with 400.
    expect(statuses.map((status) => (status === 400 ? 403 : status))).toEqual(cases.map(([, status]) => status));
    expect((await fetch(`${url}other`)).status).toBe(404);
    expect((await fetch(url, { method: "DELETE" })).status).toBe(405);
    expect(await sendRaw(url, {}, "HEAD")).toBe(200);
  });

  test("16 MB of unknown keys, deep JSON and long texts give short answers", async () => {
    const url = await start();
    const keys = `{${Array.from({ length: 700_000 }, (_, i) => `"key number ${i}":1`).join(",")}}`;
    const bodies: [string, number][] = [
      [keys, 400],
      [`{"${"k".repeat(15 << 20)}": 1}`, 400],
      [`{"texts": [${"[".repeat(50_000)}${"]".repeat(50_000)}]}`, 400],
      [`{"texts": ["${"a".repeat(1001)}"]}`, 413],
      [`{"texts": ["a"], "__proto__": {"x": 1}}`, 400],
      ["null", 400],
      ["", 400],
    ];
    for (const [body, status] of bodies) {
      const started = performance.now();
      const answer = await post(url, body);
      expect([body.slice(0, 20), answer.status]).toEqual([body.slice(0, 20), status]);
      expect((await answer.text()).length).toBeLessThan(4000);
      expect(performance.now() - started).toBeLessThan(10_000);
    }
  }, 30_000);

  test("bodies that arrive together stay within the memory for them", async () => {
    const memory = new BodyMemory(100);
    const app = createHttpApp();
    app.post("/", async (context) =>
      context.json(await readJsonBody(context, { maxBytes: 80, memory, example: "{}" })),
    );
    const server = await listen(app, { host: "127.0.0.1", port: 0 });
    servers.push(server);
    const open = request(server.url, { method: "POST", headers }).on("error", () => undefined);
    const fits = (bytes: number): boolean => {
      const isFree = memory.reserve(bytes);
      if (isFree) memory.release(bytes);
      return isFree;
    };
    open.write(`"${"a".repeat(70)}`);
    await vi.waitFor(() => expect(fits(50)).toBe(false));
    const rejected = await post(server.url, `"${"b".repeat(60)}"`);
    expect([rejected.status, await rejected.json()]).toEqual([
      503,
      { error: "Too many requests are arriving. Try again later." },
    ]);
    expect((await post(server.url, `"${"b".repeat(90)}"`)).status).toBe(413);
    open.destroy();
    // What the broken request had reserved is free again.
    await vi.waitFor(() => expect(fits(100)).toBe(true));
  });

  test("connections beyond the limit are closed", async () => {
    const url = await start({ maxConnections: 3 });
    const { port } = new URL(url);
    const sockets = Array.from({ length: 8 }, () => connect(Number(port), "127.0.0.1").on("error", () => undefined));
    const closed = new Set<number>();
    for (const [i, socket] of sockets.entries()) socket.on("close", () => closed.add(i));
    await vi.waitFor(() => expect(closed.size).toBe(5));
    for (const socket of sockets) socket.destroy();
    await vi.waitFor(async () => expect((await fetch(url, { headers: { connection: "close" } })).status).toBe(200));
  });
});
