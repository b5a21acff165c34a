import { writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { isOnnxSuite, type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
let victim: TinyVictim;
let word: TinyVictim;
let out = "";

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "subword"));
  word = await tinyVictim(join(folder, "word"), { tokenization: "word", seed: 1 });
});
afterAll(() => void vi.unstubAllEnvs());
beforeEach(({ task }) => {
  out = join(folder, task.id);
});

const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
const own = (made: TinyVictim): string[] => ["--data", made.data, ...columns];

describe("temper attack rejects", () => {
  /** Flags are separated by spaces. */
  const expectError = async (message: string | RegExp, model: string, ...flags: string[]): Promise<void> => {
    const { code, stdout, stderr } = await invoke([
      ...["attack", model, ...flags.flatMap((words) => words.split(" "))],
      ...cpu,
    ]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
  };

  test("unusable or invalid substitutions, and a model without a head", async () => {
    if (!isOnnxSuite)
      await expectError(/is not a trained classifier/, join(victim.run, "..", "tiny-bert"), ...own(victim));
    const other = join(folder, "other.json");
    writeFileSync(other, JSON.stringify({ zebra: ["okapi"] }));
    const unusable = [...own(victim), "--substitutions", other, "--out", out];
    await expectError(/no word of \d+ examples has a substitute/, victim.run, ...unusable);
    const unknown = [...own(victim), "--substitutions", "synonyms.txt"];
    await expectError(/expected "wordnet" or a JSON file/, victim.run, ...unknown);
  });

  test.each([
    ["--attack genetik", /did you mean "genetic"\?/],
    ["--attack genetic:population=0", /attack genetic: population: expected/],
    ["--attack genetic:60", /--attack genetic:60: expected NAME:key=value/],
    ["--attack pwws --attack pwws", /--attack pwws is given twice/],
    ["--max-modification-rate 1.5", /maxModificationRate: .*received 1\.5/],
    ["--attack ascc", isOnnxSuite ? /ascc needs gradients/ : /ascc: the model must use tokenization: word/],
  ])("%s", async (flags, message) => {
    await expectError(message, victim.run, flags, "--out", out);
  });

  test("a journal of another model or of other settings", async () => {
    const flags = ["--attack", "greedy", "--num-examples", "8", "--out", out];
    expect(await invoke(["attack", victim.run, ...own(victim), ...flags, ...cpu])).toMatchObject({ code: 0 });
    const other = /was written with a different (tokenization|model)/;
    await expectError(other, word.run, ...own(word), ...flags, "--resume");
    const seed = /was written with a different seed: 0, now 1/;
    await expectError(seed, victim.run, ...own(victim), ...flags, "--seed 1 --resume");
  });

  test("endpoints that return the wrong shape or other classes, or do not exist", async () => {
    const answers: [RegExp, (response: ServerResponse) => void][] = [
      [/expected a list of 1 rows of probabilities/, (response) => response.end("[[0.5, 0.5], [0.5, 0.5]]")],
      [/returns 3 probabilities, but more has 2 labels/, (response) => response.end("[[0.2, 0.3, 0.5]]")],
    ];
    const flags = [...own(victim), "--substitutions", victim.substitutions, "--endpoint", "retries=0"];
    for (const [message, answer] of answers) {
      const server = createServer((request, response) => void request.resume().on("end", () => answer(response)));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
      await expectError(message, url, ...flags, "--out", out);
      server.close();
      server.closeAllConnections();
    }
    await expectError(/Check that the endpoint is running and reachable/, "http://127.0.0.1:9/", ...flags);
    await expectError(/--endpoint: expected key=value/, "http://127.0.0.1:9/", "--endpoint quick");
    const keys =
      /--endpoint bachSize=3: unknown key \(did you mean "batchSize"\?\)\. The keys are batchSize, .*unkToken, .*header\.\n/;
    await expectError(keys, "http://127.0.0.1:9/", "--endpoint bachSize=3");
  });
});
