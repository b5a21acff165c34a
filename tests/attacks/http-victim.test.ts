import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import type { HttpVictimOptions } from "../../src/attacks/endpoint.js";
import { connectHttpVictim } from "../../src/attacks/http-victim.js";
import { startJsonServer } from "../local-server.js";
import { attackExamples, createExample } from "./scripted.js";

type Answer = (texts: unknown[], response: ServerResponse, request: number) => void;

interface SeenRequest {
  readonly texts: unknown[];
  readonly headers: IncomingHttpHeaders;
  readonly at: number;
}

async function serve(answer: Answer): Promise<{ url: string; requests: SeenRequest[] }> {
  const requests: SeenRequest[] = [];
  const url = await startJsonServer(({ texts }: { texts: unknown[] }, response, { headers }) => {
    requests.push({ texts, headers, at: performance.now() });
    answer(texts, response, requests.length);
  });
  return { url, requests };
}

const fail = async (connecting: Promise<unknown>): Promise<Error> =>
  (await connecting.catch((reason: unknown) => reason)) as Error;

const json =
  (rows: unknown): Answer =>
  (_, response) =>
    response.end(JSON.stringify(rows));
const good: Answer = (texts, response) =>
  response.end(
    JSON.stringify({ probabilities: texts.map((text) => (/bad/.test(String(text)) ? [0.2, 0.8] : [0.7, 0.3])) }),
  );
const quick: HttpVictimOptions = { retryDelay: 0.001, retries: 2 };

describe("connectHttpVictim", () => {
  test("returns a victim that any attack can query, in requests of limited size", async () => {
    const { url, requests } = await serve(good);
    const victim = await connectHttpVictim(url, { batchSize: 3, maxConcurrentRequests: 2 });
    expect(victim).toMatchObject({ numLabels: 2, callLimits: { maxTexts: 6 }, isDeterministic: false });
    const example = createExample("1", [
      ["a", "b", "c"],
      ["d", "e", "f"],
      ["fine", "bad"],
    ]);
    const [result] = await attackExamples(victim, "pwws", [example]);
    expect(result).toMatchObject({ outcome: "success", finalTexts: ["a d bad"] });
    expect(Math.max(...requests.map(({ texts }) => texts.length))).toBe(3);
    expect(requests.flatMap(({ texts }) => texts)).toContain("[UNK] d fine");
  });

  test("sends a pair as a list", async () => {
    const { url, requests } = await serve(good);
    const victim = await connectHttpVictim(url);
    await victim.predict(victim.prepare([["a", "b"]]));
    expect(requests[1]!.texts).toEqual([["a", "b"]]);
  });

  test("retries while the endpoint is busy, slow or unreachable", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request === 1) response.writeHead(503).end();
      else if (request === 2) response.destroy();
      else if (request === 3) return;
      else good(texts, response, request);
    });
    const victim = await connectHttpVictim(url, { retryDelay: 0.001, retries: 50, timeout: 0.5 });
    expect(victim.numLabels).toBe(2);
    // More if this host is so busy that a good answer is late.
    expect(requests.length).toBeGreaterThanOrEqual(4);
  });

  test("waits until the date in Retry-After", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request > 1) return good(texts, response, request);
      response.writeHead(429, { "retry-after": new Date(Date.now() + 2000).toUTCString() }).end();
    });
    await connectHttpVictim(url, quick);
    // A date has no fractions of a second, so the wait may be up to one second shorter.
    expect(requests[1]!.at - requests[0]!.at).toBeGreaterThan(900);
  });

  test("does not follow redirects, and names the new URL", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(301, { location: "/v2/predict" }).end());
    await expect(connectHttpVictim(url, quick)).rejects.toThrow(
      `redirects to ${new URL("/v2/predict", url)}. Use that URL instead.`,
    );
    expect(requests).toHaveLength(1);
  });

  test("gives up after the last retry, and names the cause", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(500).end());
    await expect(connectHttpVictim(url, quick)).rejects.toThrow("failed 3 times in a row (status 500)");
    expect(requests).toHaveLength(3);
    const { url: silent } = await serve(() => undefined);
    await expect(connectHttpVictim(silent, { ...quick, retries: 0, timeout: 0.05 })).rejects.toThrow(
      "no response within 0.05 s",
    );
    await expect(connectHttpVictim("http://127.0.0.1:1/", quick)).rejects.toThrow("Check that the endpoint is running");
    const { url: limited } = await serve((_, response) => response.writeHead(429).end());
    await expect(connectHttpVictim(limited, quick)).rejects.toThrow(/status 429.*requestsPerSecond=N/);
  });

  test("respects the rate limit", async () => {
    const { url, requests } = await serve(good);
    const start = performance.now();
    const victim = await connectHttpVictim(url, { batchSize: 1, requestsPerSecond: 50 });
    const [prepared] = victim.prepare([["a"]]);
    await victim.predict(Array.from({ length: 6 }, () => prepared!));
    // Seven requests start 20 ms apart. A timer may fire a millisecond early.
    expect(requests).toHaveLength(7);
    expect(requests.at(-1)!.at - start).toBeGreaterThan(6 * 20 - 2);
  });

  test.each<[string, Answer, RegExp]>([
    ["the wrong number of rows", json(new Array(2).fill([0.5, 0.5])), /expected a list of 1 rows/],
    ["an object", json({ label: "positive" }), /expected a list of 1 rows/],
    ["one number per row", json([[0.5]]), /row 0: expected 2 probabilities/],
    ["text in a row", json([["a", "b"]]), /row 0: expected 2 probabilities/],
    ["null for NaN", json([[null, null]]), /row 0: expected 2 probabilities/],
    ["logits", json([[-2.1, 3.4]]), /softmax of logits: --endpoint 'request={"texts": \$texts}' --endpoint 'scores=/],
    ["labels with scores", json([[{ label: "a", score: 1 }]]), /name a preset \(--endpoint preset=tei\)/],
    ["HTML", (_, response) => response.end("<!doctype html><p>hello"), /expected JSON, received HTML/],
    ["NaN", (_, response) => response.end("[[NaN, 1]]"), /invalid JSON/],
    ["an empty body", (_, response) => response.end(), /an empty response/],
    ["status 404", (_, response) => response.writeHead(404).end("not here"), /received 404: not here/],
  ])("rejects an endpoint that returns %s", async (_, answer, message) => {
    const { url, requests } = await serve(answer);
    await expect(connectHttpVictim(url, quick)).rejects.toThrow(message);
    expect(requests).toHaveLength(1);
  });

  test("rejects an invalid URL", async () => {
    for (const url of ["localhost:80", "ftp://a", "", "http://"])
      await expect(connectHttpVictim(url)).rejects.toThrow("expected a URL");
  });
});

describe("hostile endpoints", () => {
  const endless: Answer = (_, response) => {
    const block = Buffer.alloc(1 << 20, 32);
    const writeMore = (): void => {
      while (!response.destroyed && response.write(block));
      response.once("drain", writeMore);
    };
    writeMore();
  };
  const bomb: Answer = (_, response) =>
    response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(40 << 20, 32)));

  test.each<[string, Answer]>([
    ["endless", endless],
    ["compressed", bomb],
  ])("stops reading an %s answer at 16 MiB", async (_, answer) => {
    const { url } = await serve(answer);
    const before = process.memoryUsage.rss();
    await expect(connectHttpVictim(url, { timeout: 20 })).rejects.toThrow("the answer is larger than 16777216 bytes");
    expect(process.memoryUsage.rss() - before).toBeLessThan(400e6);
  });

  test.each(["http://[", "http://user:secret@other.example/?key=secret", "\u0001"])(
    "a redirect to %j is a clear error without secrets",
    async (location) => {
      const { url } = await serve((_, response) => {
        response.writeHead(302, { location: location.replace("\u0001", "//%") }).end();
      });
      const error = await fail(connectHttpVictim(url, quick));
      expect(error.name).toBe("UserError");
      expect(error.message).toMatch(/redirects to/);
      expect(error.message).not.toContain("secret");
    },
  );

  test("stops at the limit of queries", async () => {
    const { url } = await serve(good);
    const victim = await connectHttpVictim(url, { maxQueries: 4 });
    const [input] = victim.prepare([["a"]]);
    await victim.predict([input!, input!, input!]);
    await expect(victim.predict([input!])).rejects.toThrow(/the limit of 4 queries is reached.*--resume/);
  });
});

describe("secrets of an endpoint", () => {
  test("user and password become a header, and no message shows them or the query", async () => {
    const { url, requests } = await serve(good);
    const secret = url.replace("http://", "http://me:pa%40ss@").concat("?key=hidden#part");
    const victim = await connectHttpVictim(secret);
    expect(victim.name).toBe(url);
    expect(requests[0]!.headers.authorization).toBe(`Basic ${Buffer.from("me:pa@ss").toString("base64")}`);
    for (const bad of ["http://me:pass@127.0.0.1:1/?key=hidden", "http://me:pass@[/?key=hidden"]) {
      const error = await fail(connectHttpVictim(bad, quick));
      expect(error.name).toBe("UserError");
      expect(error.message).not.toMatch(/pass|hidden/);
    }
  });

  test("headers are read from the environment", async () => {
    const { url, requests } = await serve(good);
    vi.stubEnv("TEMPER_TEST_KEY", "hidden");
    await connectHttpVictim(url, { headers: { "x-key": "env:TEMPER_TEST_KEY" } });
    expect(requests[0]!.headers["x-key"]).toBe("hidden");
    vi.unstubAllEnvs();
    await expect(connectHttpVictim(url, { headers: { "x-key": "env:TEMPER_TEST_KEY" } })).rejects.toThrow(
      "the environment variable TEMPER_TEST_KEY is not set",
    );
    const error = await fail(connectHttpVictim(url, { headers: { "x-key": "hid\nden" } }));
    expect(error.message).toBe('endpoint: header "x-key": the name or the value is not valid.');
  });
});
