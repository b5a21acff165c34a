import { request } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { type PartRule, predictByParts } from "../../src/models/inference/predict-by-parts.js";
import type { Predictor } from "../../src/models/inference/predictor.js";
import type { Score } from "../../src/models/inference/score.js";
import { BodyMemory, createHttpApp, type HttpServer, listen, readJsonBody } from "../../src/serve/http.js";
import { createInferenceApp, type InferenceAppOptions, type InferenceLimits } from "../../src/serve/inference-app.js";
import { createInferenceMetrics } from "../../src/serve/inference-metrics.js";
import { createModelService, type ServiceLimits } from "../../src/serve/model-service.js";
import type { LoggedRequest } from "../../src/serve/request-log.js";

const servers: HttpServer[] = [];
/** Makes the server of an address say that it is stopping. */
const stops = new Map<string, () => void>();
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const headers = { "content-type": "application/json" };
const post = (url: string, body: string | Uint8Array<ArrayBuffer>, more: Record<string, string> = {}) =>
  fetch(url, { method: "POST", headers: { ...headers, connection: "close", ...more }, body });

/** A model whose items are the texts themselves. */
interface TextModel {
  encode(texts: readonly string[]): string;
  predict(texts: readonly string[]): Promise<readonly number[][]>;
}

interface Fixture {
  readonly handler?: Partial<TextModel>;
  readonly limits?: Partial<InferenceLimits & ServiceLimits>;
  /** Tokens per call of the model. A batch of the server has a fourth of them. */
  readonly maxTokens?: number;
  /** How the server reads parts of texts. */
  readonly parts?: PartRule<Score>;
  readonly onError?: (message: string) => void;
  readonly maxConnections?: number;
  readonly options?: InferenceAppOptions;
}

async function start(fixture: Fixture = {}): Promise<string> {
  const { handler, limits, onError, maxConnections, options, maxTokens = 16_384, parts } = fixture;
  const { encode, predict }: TextModel = {
    encode: ([text]) => text!,
    predict: async (texts) => texts.map((text) => [Number(text), 1 - Number(text)]),
    ...handler,
  };
  const allLimits = {
    maxTexts: 4096,
    maxBatchTexts: 4096,
    maxCharacters: 1000,
    maxPasses: 8192,
    maxClientPasses: 32_768,
    maxQueuedPasses: 65_536,
    ...limits,
  };
  const predictor: Predictor = {
    name: "fixture",
    numLabels: 2,
    callLimits: { maxTexts: 4096, maxTokens },
    prepare: (all) => all.map((texts) => ({ content: encode(texts), length: 1 })),
    predict: async (items) =>
      (await predict(items.map(({ content }) => String(content)))).map((probabilities) => ({ probabilities })),
  };
  const metrics = createInferenceMetrics();
  const service = createModelService(
    { predictor, wrap: (base) => (parts ? predictByParts(base, parts) : base) },
    allLimits,
    { onBatch: (texts) => metrics.batches.observe(texts), onWaiting: (passes) => metrics.waitingPasses.set(passes) },
  );
  const { app, stop } = createInferenceApp(
    { modelInfo: { model: "fixture", labels: ["low", "high"] }, service, metrics },
    allLimits,
    { onError, ...options },
  );
  const server = await listen(app, { host: "127.0.0.1", port: 0, ...(maxConnections && { maxConnections }) });
  servers.push(server);
  stops.set(server.url, stop);
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

describe("serve", () => {
  test("answers requests of Hugging Face's inference API in its form, and says what is wrong with others", async () => {
    const url = await start({ limits: { maxTexts: 2 } });
    const scores = (low: number) =>
      [
        { label: "low", score: low },
        { label: "high", score: 1 - low },
      ].sort((a, b) => b.score - a.score);
    expect(await (await post(url, '{"inputs": "0.25"}')).json()).toEqual([scores(0.25)]);
    const both = await post(new URL("predict", url).href, '{"inputs": ["0.75", "0.25"], "parameters": {}}');
    expect(await both.json()).toEqual([scores(0.75), scores(0.25)]);
    expect((await post(url, '{"inputs": 3}')).status).toBe(400);
    expect((await post(url, '{"inputs": ["1", "1", "1"]}')).status).toBe(413);
  });

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
    await expect.poll(() => batches).toEqual([1]);
    const late = [query("0.25", "0.75"), query("1"), query("0")];
    await expect.poll(async () => (await fetch(`${url}metrics`)).text()).toContain("temper_queue_passes 5\n");
    release();
    expect(await early).toMatchObject({ probabilities: [[0.5, 0.5]] });
    expect(await Promise.all(late)).toMatchObject([
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
    let batches = 0;
    let release = (): void => undefined;
    const waitForRelease = (): Promise<void> =>
      new Promise((resolve) => {
        release = resolve;
      });
    let released = waitForRelease();
    const url = await start({
      handler: {
        async predict(texts) {
          batches++;
          await released;
          return texts.map(() => [0.5, 0.5]);
        },
      },
      limits: { maxTexts: 2, maxQueuedPasses: 3 },
    });
    const answers = Array.from({ length: 4 }, () => post(url, '{"texts": ["a", "b"]}').then(({ status }) => status));
    // Nothing is answered before the release, so the first answer is a rejection.
    expect(await Promise.race(answers)).toBe(503);
    release();
    expect(await Promise.all(answers)).toContain(200);
    released = waitForRelease();
    const before = batches;
    const leaving = request(url, { method: "POST", headers }).on("error", () => undefined);
    leaving.end('{"texts": ["a"]}');
    await expect.poll(() => batches).toBe(before + 1);
    leaving.destroy();
    release();
    expect((await post(url, '{"texts": ["a"]}')).status).toBe(200);
  });

  test("tokenization of many texts does not block other requests", async () => {
    let encoded = 0;
    let answeredAfter: number | undefined;
    const url = await start({
      handler: {
        encode([text]) {
          if (encoded++ === 0) void fetch(url).then(() => (answeredAfter = encoded));
          // Until the other request has its answer, each text takes a while.
          const end = performance.now() + 5;
          while (answeredAfter === undefined && performance.now() < end);
          return text!;
        },
      },
    });
    expect((await post(url, JSON.stringify({ texts: new Array(4096).fill("1") }))).status).toBe(200);
    expect(answeredAfter).toBeLessThan(4096);
  });

  /** Sends a request from another address of this host, as another client does. */
  const postFrom = (localAddress: string, url: string, texts: readonly string[]) =>
    new Promise<number>((resolve, reject) => {
      const options = { method: "POST", headers: { ...headers, connection: "close" }, localAddress };
      request(`${url}predict`, options, (response) => {
        response.resume();
        resolve(response.statusCode!);
      })
        .on("error", reject)
        .end(JSON.stringify({ texts }));
    });
  const splitAtSpaces: PartRule<Score> = {
    split: ([text]) => text!.split(" ").map((word) => [word]),
    combine: ([row]) => ({ probabilities: row! }),
  };

  test.each([
    ["many texts", undefined, (numbers: readonly string[]) => numbers, "127.0.0.1"],
    ["one text of many parts", splitAtSpaces, (numbers: readonly string[]) => [numbers.join(" ")], "127.0.0.1"],
    ["many texts of another client", undefined, (numbers: readonly string[]) => numbers, "127.0.0.2"],
  ])("a small request waits for one batch after a request with %s", async (_, parts, toTexts, address) => {
    const batches: (readonly string[])[] = [];
    let small: Promise<number> | undefined;
    let arrivedIn = 0;
    const url: string = await start({
      ...(parts && { parts }),
      limits: { maxCharacters: 10_000 },
      maxTokens: 16,
      handler: {
        async predict(texts) {
          batches.push(texts);
          if (batches.length === 3) {
            small = postFrom(address, url, ["0.5"]);
            const waiting = async () => (await fetch(`${url}metrics`)).text();
            await expect.poll(waiting).toContain("temper_queue_passes 1201\n");
            arrivedIn = batches.length;
          }
          return texts.map((text) => [Number(text), 1 - Number(text)]);
        },
      },
    });
    const numbers = Array.from({ length: 400 }, (_unused, i) => String(i / 1000));
    // Three large requests of one client take turns, too.
    const large = [0, 1, 2].map((i) =>
      post(`${url}predict`, JSON.stringify({ texts: toTexts(numbers.map((number) => `${number}00${i}`)) })),
    );
    for (const { status } of await Promise.all(large)) expect(status).toBe(200);
    expect(await small).toBe(200);
    expect(Math.max(...batches.map((texts) => texts.length))).toBe(4);
    const answeredIn = batches.findIndex((texts) => texts.includes("0.5")) + 1;
    // Requests of one client take turns: the two others come first.
    expect(answeredIn - arrivedIn).toBeLessThanOrEqual(address === "127.0.0.1" ? 3 : 1);
    expect(batches.length).toBeGreaterThan(300);
  });

  test("other requests are answered between batches that occupy the process", async () => {
    let batches = 0;
    let answeredAfter: number | undefined;
    const url: string = await start({
      maxTokens: 16,
      handler: {
        async predict(texts) {
          if (batches++ === 0) void fetch(`${url}health`).then(() => (answeredAfter = batches));
          // Until the other request has its answer, each batch takes a while, as a real one does.
          const end = performance.now() + 5;
          while (answeredAfter === undefined && performance.now() < end);
          return texts.map(() => [1, 0]);
        },
      },
    });
    expect((await post(url, JSON.stringify({ texts: new Array(4096).fill("1") }))).status).toBe(200);
    expect(answeredAfter).toBeLessThan(1024);
  });

  test("model passes are limited per request, per client and in total", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const url = await start({
      parts: splitAtSpaces,
      limits: { maxPasses: 10, maxClientPasses: 15, maxQueuedPasses: 22 },
      handler: {
        async predict(texts) {
          await released;
          return texts.map(() => [1, 0]);
        },
      },
    });
    const words = (count: number) => Array.from({ length: count }, (_, i) => String(i)).join(" ");
    const send = (...texts: string[]) => post(`${url}predict`, JSON.stringify({ texts }));
    const tooMany = await send(words(7), words(4));
    expect([tooMany.status, tooMany.headers.get("retry-after"), await tooMany.json()]).toEqual([
      413,
      null,
      {
        error:
          "Expected texts that need at most 10 model passes per request, received at least 11. " +
          "Send fewer or shorter texts per request, or start the server with a larger --max-passes.",
      },
    ]);
    const first = send(words(10));
    await expect.poll(async () => (await fetch(`${url}metrics`)).text()).toContain("temper_queue_passes 10\n");
    const second = await send(words(6));
    expect([second.status, second.headers.get("retry-after"), await second.json()]).toEqual([
      413,
      "1",
      {
        error: expect.stringContaining(
          "at most 15 model passes per client at a time, received 16 with those that wait",
        ),
      },
    ]);
    // Another client has a budget of its own, within that of the server.
    const other = postFrom("127.0.0.2", url, [words(10)]);
    await expect.poll(async () => (await fetch(`${url}metrics`)).text()).toContain("temper_queue_passes 20\n");
    expect(await postFrom("127.0.0.3", url, [words(3)])).toBe(503);
    release();
    expect([(await first).status, await other]).toEqual([200, 200]);
    // The passes of answered requests are free again.
    expect((await send(words(10))).status).toBe(200);
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
      [keys, 413],
      [`{"${"k".repeat(15 << 20)}": 1}`, 400],
      [`{"texts": [${"[".repeat(50_000)}${"]".repeat(50_000)}]}`, 400],
      [`{"texts": ["${"a".repeat(1001)}"]}`, 413],
      [`{"texts": ["a"], "__proto__": {"x": 1}}`, 400],
      ["null", 400],
      ["", 400],
    ];
    for (const [body, status] of bodies) {
      const answer = await post(url, body);
      expect([body.slice(0, 20), answer.status]).toEqual([body.slice(0, 20), status]);
      expect((await answer.text()).length).toBeLessThan(4000);
    }
  });

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
    await expect.poll(() => fits(50)).toBe(false);
    const rejected = await post(server.url, `"${"b".repeat(60)}"`);
    expect([rejected.status, await rejected.json()]).toEqual([
      503,
      { error: "Too many requests are arriving. Try again later." },
    ]);
    expect((await post(server.url, `"${"b".repeat(90)}"`)).status).toBe(413);
    open.destroy();
    // What the broken request had reserved is free again.
    await expect.poll(() => fits(100)).toBe(true);
  });

  test("connections beyond the limit and silent ones are closed, and /health still answers", async () => {
    const url = await start({ maxConnections: 3 });
    const { port } = new URL(url);
    const sockets = Array.from({ length: 8 }, () => connect(Number(port), "127.0.0.1").on("error", () => undefined));
    const closed = new Set<number>();
    for (const [i, socket] of sockets.entries()) socket.on("close", () => closed.add(i));
    await expect.poll(() => closed.size).toBe(6);
    // Connections without a request leave room for others, whose requests are answered at once.
    const getStatus = () =>
      fetch(url, { headers: { connection: "close" } }).then(
        ({ status }) => status,
        () => null,
      );
    expect(await getStatus()).toBe(200);
    for (const socket of sockets) socket.destroy();
  });

  test("70 slow bodies against 64 connections leave room for /health", async () => {
    const url = await start({ maxConnections: 64 });
    const { port, host } = new URL(url);
    const head = `POST /predict HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`;
    let [connected, closed] = [0, 0];
    const sockets = Array.from({ length: 70 }, () =>
      connect(Number(port), "127.0.0.1", () => connected++)
        .on("error", () => undefined)
        .on("close", () => closed++),
    );
    for (const socket of sockets) socket.write(head);
    await expect.poll(() => [connected, closed]).toEqual([70, 70 - 32]);
    for (let i = 0; i < 3; i++) expect((await fetch(`${url}health`)).status).toBe(200);
    expect((await post(`${url}predict`, '{"texts": ["1"]}')).status).toBe(200);
    // A server that stops does not wait for them.
    await servers.pop()!.close();
    await expect.poll(() => closed).toBe(70);
  });
});

describe("for operators", () => {
  test("/predict answers with labels, and /metrics counts requests, latencies, batches and labels", async () => {
    const url = await start();
    const answer = await post(`${url}predict`, '{"texts": ["0.9", "0.2"]}');
    expect(await answer.json()).toMatchObject({
      predictions: ["low", "high"],
      probabilities: [[0.9, expect.any(Number)], expect.any(Array)],
    });
    await fetch(`${url}missing`);
    const response = await fetch(`${url}metrics`);
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const lines = (await response.text()).split("\n");
    for (const line of [
      'temper_requests_total{route="/predict",status="200"} 1',
      'temper_requests_total{route="other",status="404"} 1',
      'temper_predictions_total{label="low"} 1',
      'temper_predictions_total{label="high"} 1',
      'temper_batch_texts_bucket{le="1"} 0',
      'temper_batch_texts_bucket{le="2"} 1',
      "temper_batch_texts_sum 2",
      "temper_request_seconds_count 1",
      'temper_request_seconds_bucket{le="+Inf"} 1',
      "temper_queue_passes 0",
    ])
      expect(lines).toContain(line);
    // The format: a comment, or a name with labels and a number.
    for (const line of lines.filter((each) => each !== ""))
      expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [\d.e+-]+)$/);
  });

  test("requests have IDs, and the log has one line per request", async () => {
    const logged: LoggedRequest[] = [];
    const url = await start({ options: { onRequest: (request) => logged.push(request) } });
    const own = await post(`${url}predict`, '{"texts": ["1", "0"]}', { "x-request-id": "abc-1" });
    const other = await post(`${url}predict`, "nonsense", { "x-request-id": "<script>" });
    expect(own.headers.get("x-request-id")).toBe("abc-1");
    expect(other.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(own.headers.get("x-text-count")).toBeNull();
    expect(logged).toMatchObject([
      { id: "abc-1", method: "POST", route: "/predict", status: 200, texts: 2 },
      { route: "/predict", status: 400 },
    ]);
    expect(logged[0]!.milliseconds).toBeGreaterThanOrEqual(0);
  });

  test("an API key protects everything except /health, which changes while the server stops", async () => {
    const url = await start({ options: { apiKey: "secret" } });
    const send = (more: Record<string, string>) => post(`${url}predict`, '{"texts": ["1"]}', more);
    expect((await send({})).status).toBe(401);
    expect((await send({ authorization: "Bearer wrong" })).status).toBe(401);
    expect((await send({ authorization: "Bearer secret" })).status).toBe(200);
    expect((await send({ "x-api-key": "secret" })).status).toBe(200);
    expect((await fetch(`${url}metrics`)).status).toBe(401);
    const health = async () => {
      const response = await fetch(`${url}health`);
      return [response.status, await response.json()];
    };
    expect(await health()).toEqual([200, { status: "ok" }]);
    stops.get(url)!();
    expect(await health()).toEqual([503, { status: "stopping" }]);
  });

  test("the OpenAPI document describes the routes that exist", async () => {
    const url = await start({ options: { apiKey: "key", version: "1.2.3" } });
    const authorized = { headers: { authorization: "Bearer key" } };
    const document = (await (await fetch(`${url}openapi.json`, authorized)).json()) as {
      openapi: string;
      paths: Record<string, Record<string, { responses: Record<string, object> }>>;
    };
    expect(document.openapi).toBe("3.1.0");
    for (const [path, methods] of Object.entries(document.paths))
      for (const [method, { responses }] of Object.entries(methods)) {
        const response = await fetch(new URL(path, url), { method: method.toUpperCase(), ...authorized });
        expect([404, 405]).not.toContain(response.status);
        if (method === "get") expect(Object.keys(responses)).toContain(String(response.status));
      }
    expect(Object.keys(document.paths["/predict"]!.post!.responses)).toEqual(["200", "400", "401", "413", "503"]);
  });
});
