import { cpSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const folder = temporaryFolder();
let victim: TinyVictim;
let word: TinyVictim;
let out = "";

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "subword"));
  word = await tinyVictim(join(folder, "word"), { tokenization: "word", seed: 1 });
}, 180_000);
afterAll(() => void vi.unstubAllEnvs());
beforeEach(({ task }) => {
  out = join(folder, task.id);
});

const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
const own = (made: TinyVictim): string[] => ["--data", made.data, "--text-column", "text", "--label-column", "label"];

describe("what temper attack is given in error", () => {
  const refused = async (message: string | RegExp, ...argv: string[]): Promise<void> => {
    const { code, stdout, stderr } = await invoke(["attack", ...argv, ...cpu]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
  };

  test("no table, one without the texts' words, one that is none", async () => {
    cpSync(join(victim.run, "model"), join(folder, "plain"), { recursive: true });
    await refused(
      /does not say which words may stand for which: give --substitutions/,
      join(folder, "plain"),
      ...own(victim),
    );
    await refused(/expected a trained classifier/, join(victim.run, "..", "tiny-bert"), ...own(victim));
    const other = join(folder, "other.json");
    writeFileSync(other, JSON.stringify({ zebra: ["okapi"] }));
    await refused(
      /none of the words of \d+ examples has a substitute/,
      victim.run,
      ...own(victim),
      "--substitutions",
      other,
      "--out",
      out,
    );
    await refused(/expected "wordnet" or a JSON file/, victim.run, ...own(victim), "--substitutions", "synonyms.txt");
  });

  test("attacks and options that do not exist", async () => {
    await refused(/did you mean "genetic"\?/, victim.run, "--attack", "genetik", "--out", out);
    await refused(/attack genetic: population: expected/, victim.run, "--attack", "genetic:population=0", "--out", out);
    await refused(/--attack genetic:60: expected NAME:key=value/, victim.run, "--attack", "genetic:60", "--out", out);
    await refused(/--attack pwws is there twice/, victim.run, "--attack", "pwws", "--attack", "pwws", "--out", out);
    await refused(/largestShare/, victim.run, "--max-modification-rate", "1.5", "--out", out);
    await refused(
      /attack ascc: expected a model that reads one token a word/,
      victim.run,
      "--attack",
      "ascc",
      "--out",
      out,
    );
  });

  test("a journal of another model, or of other settings", async () => {
    expect(
      await invoke([
        "attack",
        victim.run,
        ...own(victim),
        "--out",
        out,
        ...cpu,
        "--attack",
        "greedy",
        "--num-examples",
        "8",
      ]),
    ).toMatchObject({ code: 0 });
    await refused(
      /made with another (encoding|model)/,
      word.run,
      ...own(word),
      "--attack",
      "greedy",
      "--num-examples",
      "8",
      "--out",
      out,
      "--resume",
    );
    await refused(
      /made with another seed: 0 there, 1 now/,
      victim.run,
      ...own(victim),
      "--attack",
      "greedy",
      "--num-examples",
      "8",
      "--seed",
      "1",
      "--out",
      out,
      "--resume",
    );
  });

  test("an endpoint with the wrong shape, HTML, NaN, nothing, too few classes, or none there", async () => {
    const answers: [RegExp, (response: ServerResponse) => void][] = [
      [/expected a list of 1 rows of probabilities/, (response) => response.end("[[0.5, 0.5], [0.5, 0.5]]")],
      [
        /received HTML \(is the address that of a page\?\)/,
        (response) => response.end("<html><body>Hello</body></html>"),
      ],
      [/received no JSON \(NaN and Infinity are none\)/, (response) => response.end("[[NaN, 0.5]]")],
      [/received an empty answer/, (response) => response.end("")],
      [/are these logits\? apply a softmax/, (response) => response.end("[[3.2, -1.5]]")],
      [/gives 3 probabilities, more has 2 labels/, (response) => response.end("[[0.2, 0.3, 0.5]]")],
      [/expected status 200, received 404/, (response) => response.writeHead(404).end("no such page")],
    ];
    for (const [message, answer] of answers) {
      const server = createServer((request, response) => void request.resume().on("end", () => answer(response)));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      await refused(
        message,
        url,
        ...own(victim),
        "--substitutions",
        victim.substitutions,
        "--out",
        out,
        "--endpoint",
        "retries=0",
      );
      server.close();
      server.closeAllConnections();
    }
    await refused(
      /check that the endpoint runs/,
      "http://127.0.0.1:9/",
      ...own(victim),
      "--substitutions",
      victim.substitutions,
      "--endpoint",
      "retries=0",
    );
    await refused(/--endpoint: expected key=value/, "http://127.0.0.1:9/", "--endpoint", "quick");
    const keys =
      /--endpoint bach=3: there is no such key \(did you mean "batch"\?\); the keys are batch, .*unknown, header\n/;
    await refused(keys, "http://127.0.0.1:9/", "--endpoint", "bach=3");
  });
});
